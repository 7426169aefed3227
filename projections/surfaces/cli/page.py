"""The verb `page`: the page of a history, written to a file or served to a browser."""

from __future__ import annotations

from contextlib import suppress
import os
from pathlib import Path
import signal
import sys
from typing import Any, Final

import attrs
import click

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.storage.disk import reason
from tallybook.projections.surfaces.cli.parameters import Verb, find_moment
from tallybook.projections.surfaces.console.output import format_count, note, reply
from tallybook.projections.surfaces.page.document import Choices, is_page, make
from tallybook.projections.surfaces.page.server import PageServer
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

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
    moment, and opens at the end, or at WHEN, with the entry NAME selected. With --serve the page is refreshed while the
    ledger grows, and only a browser that opened the printed address can read it.

    --json answers {path, bytes, counts, texts, quotes, head, warnings}, or {address}
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
        if as_json:
            raise BadInputError("--json and --output -", "exclude each other", "give a file, or leave --json out")
        sys.stdout.buffer.write(make(project, choices)[0])
        return
    if options["output"] == "":
        # An unset variable: the default is not meant.
        raise BadInputError("--output", "is empty", "give a file, or - for standard output")
    output = Path(options["output"] or DEFAULT)
    # Before the page is made, which takes seconds in a long history.
    _check(output, force=options["force"])
    data, meta = make(project, choices)
    commands.write_copy(project, output, lambda: data)
    note(*commands.spool_notes(project), *meta["warnings"])
    parts = {key: meta[key] for key in ("counts", "texts", "quotes", "head", "warnings")}
    nouns = {"event": "events", "moment": "moments", "entry": "entries", "session": "sessions"}
    counts = ", ".join(format_count(meta["counts"][plural], noun, plural) for noun, plural in nouns.items())
    texts = "with the texts of entries" if choices.with_texts else "without texts, session ids, agents and models"
    quotes = "with quotes and reasons" if choices.with_quotes else "without quotes and reasons"
    words = f"{counts}; {texts}, {quotes}; ledger head {meta['head']}; {len(data):,} bytes"
    reply({"path": str(output), "bytes": len(data), **parts}, [f"{output} written: {words}"], as_json=as_json)
    if options["opens"]:
        open_in_browser(output.resolve().as_uri())


def _serve(project: Project, choices: Choices, *, opens: bool, as_json: bool) -> None:
    """Serve the page until Ctrl-C interrupts it, its terminal is closed, or the process that started it has ended."""

    def announce(address: str, words: str = "opened; another browser gets in by") -> None:
        reply({"address": address}, [f"{words} {address}"], as_json=as_json)
        # In a pipe the address would stay in the buffer while the server runs.
        sys.stdout.flush()

    server = PageServer(project, choices, announce)
    note(*commands.spool_notes(project))
    # Ctrl-C is how it ends, from the moment at which there is an address.
    with suppress(KeyboardInterrupt):
        announce(server.address, "serving until Ctrl-C:")
        if opens:
            open_in_browser(server.address)
        if hasattr(signal, "SIGHUP"):
            # Also where `nohup` had it ignored: a forgotten server would go on showing the playbook.
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with server:
            while os.getppid() == server.parent:
                server.handle_request()


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
