"""What several verbs take: options, files, texts from standard input, and moments, with notes about these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isnan
import os
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from tallybook.ledger import strict_json
from tallybook.ledger.errors import BadInputError, DamagedLedgerError, UnknownEntryError
from tallybook.ledger.events import PointAdded, PointEdited, PointRemoved, PointSeeded, is_day
from tallybook.ledger.line import MAX_PROVENANCE_CHARS
from tallybook.ledger.names import SECTIONS, format_names
from tallybook.ledger.playbook_constants import AGENT
from tallybook.ledger.storage.disk import reason
from tallybook.projections.surfaces.agents.table import find_agent
from tallybook.projections.surfaces.console.output import note
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from tallybook.projections.playbook.fold import State
    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.history.moments import Moment

    Command = Callable[..., Any]


class WholeNumber(click.IntRange):
    """A whole number within bounds; Click calls any other input "not a valid integer range"."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number.

        Raises:
            click.BadParameter: The input is not a whole number, or out of bounds.
        """
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            bounds = f"of {self.min} or more" if self.max is None else f"from {self.min} to {self.max:,}"
            self.fail(f"{value!r} is not a whole number; use one {bounds}", param, ctx)


class Number(click.FloatRange):
    """A number within bounds. Click takes NaN for a number in every range; here it is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number.

        Raises:
            click.BadParameter: The input is not a number, or out of bounds.
        """
        number = float(super().convert(value, param, ctx))
        # A bound of NaN never closed a gate, and a baseline of NaN ended in a traceback.
        if isnan(number):
            bounds = "" if self.max is None else f" from {self.min:g} to {self.max:g}"
            self.fail(f"{value} is not a number{bounds}", param, ctx)
        return number


_JSON_HELP: Final = "Print the answer as JSON."
as_json: Final = click.option("--json", "as_json", is_flag=True, help=_JSON_HELP)


class RaterOption(click.Option):
    """The option ``--rater``; inside an agent its default is the agent where it is a person elsewhere."""

    def get_default(self, ctx: click.Context, call: bool = True) -> Any:  # noqa: FBT001, FBT002 - Click's own
        """Return the default; Click asks with ``call`` for the value, and without it for the help."""
        default = super().get_default(ctx, call)
        return AGENT if call and default == HUMAN and find_agent() is not None else default


class Verb(click.Command):
    """A verb that works on a project: its function gets the project first, and it has ``--json``."""

    def __init__(
        self, *, example: str, callback: Command, params: list[click.Parameter], rater: str = "", **settings: Any
    ) -> None:
        """Take what ``click.command`` gives, and what verbs have in common.

        Args:
            example: A command line that the help shows.
            callback: The function of the verb.
            params: Its own arguments and options.
            rater: For a verb that records, the rater unless ``--rater`` names another; it gets PROVENANCE_OPTIONS.
            settings: What else ``click.Command`` takes.
        """
        for field, text in PROVENANCE_OPTIONS.items() if rater else ():
            kind, default = (RaterOption, rater) if field == "rater" else (click.Option, None)
            params.append(kind([f"--{field}"], help=text, default=default, show_default=True))
        params.append(click.Option(["--json", "as_json"], is_flag=True, help=_JSON_HELP))
        super().__init__(callback=click.pass_obj(callback), params=params, epilog=f"Example: {example}", **settings)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; an error names this verb, which Click leaves out where the value of an option is missing.

        Raises:
            click.UsageError: They do not fit.
        """
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; damage to a log that git tracks is raised with the command that repairs it."""
        try:
            return super().invoke(ctx)
        except UnknownEntryError as error:
            # It takes names of the own playbook as they are, so a hint at --mine would mislead.
            if ctx.info_name == "promote":
                raise
            raise personal.explain(ctx.obj, error) from error
        except DamagedLedgerError as error:
            from tallybook.projections.surfaces.sharing import ledger_copies

            raise ledger_copies.explain(ctx.obj, error) from error


at_when: Final = click.option(
    "--at", "when", metavar="WHEN", help="Answer as of an event, date, age (2d), session or commit."
)
with_key: Final = click.option("--key", help="Record once, however often this key is sent.")
with_reason: Final = click.option("--reason", default="", help="State why; stored in the ledger.")


class SectionName(click.ParamType[str]):
    """A section of the later playbook format, by its heading, the beginning of that, or the slug of its names."""

    name = "section"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the heading.

        Raises:
            click.BadParameter: There is no such section.
        """
        folded = str(value).casefold()
        named = [heading for heading, slug in SECTIONS.items() if folded in {slug, heading.casefold()}]
        begun = [heading for heading in SECTIONS if folded and heading.casefold().startswith(folded)]
        headings = named or begun
        if len(headings) != 1:
            words = ", ".join(f"{heading.split()[0].lower()} ({slug})" for heading, slug in SECTIONS.items())
            self.fail(f"{value!r} is not a section; use one of {words}", param, ctx)
        return headings[0]


with_section: Final = click.option(
    "--section", type=SectionName(), metavar="NAME", help="Put it into this section, such as mistakes."
)


class Day(click.ParamType[str]):
    """A day of the calendar, or a word in its place."""

    name = "day"

    def __init__(self, *words: str) -> None:
        """Take the words."""
        self.words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the day as events write it.

        Raises:
            click.BadParameter: It is none.
        """
        if value not in self.words and not is_day(value):
            also = "".join(f", or {word}" for word in self.words)
            self.fail(f"{value!r} is not a day; use a date such as 2026-12-31{also}", param, ctx)
        return str(value)


PROVENANCE_OPTIONS: Final = {
    "rater": "Record this rater: human, agent, reflector, …",
    "session": "Record the session it comes from.",
    "agent": "Record the agent.",
    "model": "Record the model that rated.",
}
HUMAN: Final = "human"


def provenance_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the provenance that the options of PROVENANCE_OPTIONS give.

    Raises:
        BadInputError: A value is empty, too long or not printable, or an agent says that it is a person.
    """
    by = {field: options[field] for field in PROVENANCE_OPTIONS if options.get(field) is not None}
    agent = find_agent()
    if agent is not None and by.get("rater") == HUMAN:
        what = f"is refused inside an agent ({agent.variable} is set)"
        raise BadInputError(f"--rater {HUMAN}", what, "leave it out; nothing was recorded")
    if agent is not None and by.get("rater") == AGENT:
        by = {"agent": agent.agent} | ({"session": agent.session} if agent.session else {}) | by
    for field, value in by.items():
        if not value.strip() or len(value) > MAX_PROVENANCE_CHARS or not value.isprintable():
            fault = f"needs 1 to {MAX_PROVENANCE_CHARS} printable characters"
            raise BadInputError(f"--{field}", fault, strict_json.HINT)
    return by


def announce_input(what: str) -> None:
    """Print what a command reads from a terminal, and how to end the input."""
    if sys.stdin.isatty():
        key = "Ctrl-Z and Enter" if os.name == "nt" else "Ctrl-D"
        note(f"type or paste {what}, then press {key}")


def read_input(file: str, what: str = "the text") -> tuple[bytes, str]:
    """Return the bytes of a file, or of standard input for ``-``, and the name of the source for messages.

    Args:
        file: The file.
        what: What the command expects, for a person at a terminal.
    """
    if file == "-":
        announce_input(what)
        # One byte more than is allowed shows that the input is too long.
        return sys.stdin.buffer.read(strict_json.MAX_PAYLOAD_BYTES + 1), "standard input"
    try:
        return Path(file).read_bytes(), file
    except OSError as error:
        raise BadInputError(file, f"cannot be read: {reason(error)}", strict_json.HINT) from error


def read_text(argument: str, what: str = "the text") -> str:
    """Return an argument, or standard input for ``-``: that leaves no trace in a shell's history."""
    if argument != "-":
        return argument
    try:
        # A program on Windows ends the line with both.
        return read_input("-", what)[0].decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise BadInputError("standard input", "is not UTF-8 text", strict_json.HINT) from error


# Moments; the modules that find them are not for the help, which loads this one

_MANUAL_EDITS: Final = (PointAdded, PointSeeded, PointEdited, PointRemoved)


def find_moment(project: Project, when: str | None) -> Moment | None:
    """Return the moment that ``--at`` names, None without one; print which moment it is and notes about it."""
    if when is None:
        return None
    from tallybook.projections.surfaces.history import moments

    moment = moments.find(project, when)
    # A plain event number needs no explanation.
    if when != str(moment.seq):
        place = f"event {moment.seq}" if moment.seq else "the beginning, before any event"
        note(f"{when} is {place}{f', {moment.named}' if moment.named else ''}")
    note(*moment.notes)
    return moment


def find_seq(project: Project, when: str | None, option: str) -> int | None:
    """Return the event number of the moment that an option names, None without one; print notes about it.

    Raises:
        BadInputError: It names no moment of the project's own ledger.
    """
    if when is None:
        return None
    from tallybook.projections.surfaces.history import moments

    moment = moments.find_here(project, when, option)
    note(*moment.notes)
    return moment.seq


def note_moment(moment: Moment | None, state: State) -> None:
    """Print which moment an answer shows if the user named an event inside a batch."""
    if moment is not None and state.seq < moment.seq:
        from tallybook.projections.surfaces.history.playbook_file import describe

        note(f"as of {describe(state, moment.seq, moment.named)}")


def note_pending(project: Project, moment: Moment | None, book: Playbook, name: str | None = None) -> None:
    """Print what the next command that writes will record, as far as it concerns an answer.

    Args:
        project: The project of the answer.
        moment: The moment that the user named, None for now.
        book: The playbook at that moment.
        name: The entry that the answer is about, None for all of them.
    """
    from tallybook.projections.surfaces.history import playbook_file
    from tallybook.projections.surfaces.history.reading import Opened
    from tallybook.projections.surfaces.writing import commands

    note(*commands.spool_notes(project))
    if moment is not None:
        return
    edits = playbook_file.examine(Opened(project), book).events
    names = [event.name for event in edits if isinstance(event, _MANUAL_EDITS) and name in {None, event.name}]
    if names:
        note(f"playbook.json has manual edits of {format_names(names, 5)}; the next command that writes records them")
