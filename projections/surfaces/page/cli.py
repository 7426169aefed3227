"""The verb that writes the page, or serves it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.storage.disk import reason
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.notices import find_moment
from tallybook.projections.surfaces.console.options import Verb
from tallybook.projections.surfaces.console.output import answer, note, say
from tallybook.projections.surfaces.page.document import is_page
from tallybook.projections.surfaces.page.make import Choices, make

if TYPE_CHECKING:
    from tallybook.projections.surfaces.page.make import Page
    from tallybook.projections.surfaces.workspace.project import Project

DEFAULT: Final = "tallybook-page.html"


@click.command(cls=Verb, example="tallybook page -o history.html kpt_003")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("-o", "--output", metavar="FILE", help=f"Write FILE, not {DEFAULT}; - prints it.")
@click.option("--at", "when", metavar="WHEN", help="Open it at an event, date, age (2d), session or commit.")
@click.option("--with-quotes", is_flag=True, help="Include reasons and notes.")
@click.option("--without-texts", is_flag=True, help="Leave out texts, session ids, agents and models.")
@click.option("--force", is_flag=True, help="Overwrite a file that is not such a page.")
@click.option("--serve", is_flag=True, help="Serve it on this machine instead, until Ctrl-C.")
@click.option("--open", "opens", is_flag=True, help="Open it in the browser.")
def page(project: Project, /, *, name: str | None, when: str | None, as_json: bool, **options: Any) -> None:
    """Write a page that shows the history in a browser.

    The page is one HTML file: it needs no server and no network, and can be mailed. It shows the playbook at every
    moment, and opens at the end, or at WHEN, with the entry NAME selected. A served page is refreshed while the ledger
    grows; only a browser that opened its address can read it.
    """
    if options["with_quotes"] and options["without_texts"]:
        raise BadInputError("--with-quotes and --without-texts", "exclude each other", "give one of them")
    choices = Choices(find_moment(project, when), name, options["with_quotes"], not options["without_texts"])
    if options["serve"]:
        if options["output"] is not None:
            raise BadInputError("--serve and --output", "exclude each other", "give one of them")
        _serve(project, attrs.evolve(choices, served=True), opens=options["opens"], as_json=as_json)
        return
    if options["output"] == "-":
        sys.stdout.buffer.write(make(project, choices).data)
        return
    output = Path(options["output"] or DEFAULT)
    # Before the page is made, which takes seconds in a long history.
    _check(output, force=options["force"])
    made = make(project, choices)
    commands.write_copy(project, output, lambda: made.data)
    _tell(project, output, made, as_json=as_json)
    if options["opens"]:
        open_in_browser(output.resolve().as_uri())


def _serve(project: Project, choices: Choices, *, opens: bool, as_json: bool) -> None:
    """Serve the page until the person ends it."""
    from tallybook.projections.surfaces.page import server as engine

    source = engine.Source(project, choices)
    # What is wrong with the ledger or the options is said before there is an address.
    source.page()

    def announce(address: str, words: str = "opened; another browser gets in by") -> None:
        answer({"address": address}) if as_json else say(f"{words} {address}")
        # In a pipe the address would stay in the buffer while the server runs.
        sys.stdout.flush()

    server = engine.Server(source, announce)
    note(*commands.spool_notes(project))
    # Ctrl-C is how it ends, from the moment at which there is an address.
    with suppress(KeyboardInterrupt):
        announce(server.address, "serving until Ctrl-C:")
        if opens:
            open_in_browser(server.address)
        engine.serve(server)


def _tell(project: Project, output: Path, made: Page, *, as_json: bool) -> None:
    """Print what was written."""
    note(*commands.spool_notes(project), *made.meta["warnings"])
    if as_json:
        parts = {key: made.meta[key] for key in ("counts", "texts", "quotes", "head", "warnings")}
        answer({"path": str(output), "bytes": len(made.data), **parts})
        return
    say(f"{output} written: {made.describe()}")


def _check(output: Path, *, force: bool) -> None:
    """Refuse a path at which there is something that is not a page.

    Raises:
        BadInputError: There is.
    """
    try:
        if output.exists() and not output.is_file():
            # To open a pipe would wait for a writer.
            raise BadInputError(str(output), "is not a file", "give another file")
        if not force and output.exists() and not is_page(output):
            raise BadInputError(str(output), "is not a page of Tallybook", "give another file, or --force")
    except OSError as error:
        raise BadInputError(str(output), f"cannot be read: {reason(error)}", "give another file") from error


def open_in_browser(address: str) -> None:
    """Open an address in the browser, and say so where there is none."""
    import webbrowser

    if not webbrowser.open(address):
        note(f"no browser could be started; open {address}")
