"""The doctor's checks of playbooks: stale entries, texts that are not what they look like, a person's own playbook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tallybook.ledger.verification import verify
from tallybook.projections.review import stale_words
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import find_controls
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, Finding, format_names
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.review import stale
from tallybook.projections.surfaces.workspace import personal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.surfaces.doctor.finding import Context


def check_entries(context: Context) -> Iterator[Finding]:
    """Name the entries without a sign of use, and those about paths that git no longer has."""
    if not context.log.exists():
        return
    entries = commands.playbook(context.project).state.entries.values()
    reviews, gone = stale.load_reviews(context.project), stale.find_gone(context.project, entries)
    for entry in entries:
        if says := stale_words(entry, reviews, gone.get(entry.name, ()))[1]:
            yield Finding(NOTE, f"{entry.name}: {says}", "run `tallybook review` to decide about it")


def check_texts(context: Context) -> Iterator[Finding]:
    """Name the entries with invisible characters: an agent reads what people do not see."""
    if not context.log.exists():
        return
    for entry in commands.playbook(context.project).state.entries.values():
        # White space is no surprise in a text.
        if hidden := find_controls(entry.text) - set("\n\r\t"):
            codes = format_names([f"U+{ord(char):04X}" for char in sorted(hidden)])
            fix = f"read it with `tallybook why {entry.name}`; `tallybook reword` or `tallybook retire` changes it"
            yield Finding(NOTE, f"{entry.name} has invisible characters: {codes}", fix)


def check_personal(context: Context) -> Iterator[Finding]:
    """Check the person's own playbook; where there is none, it is not mentioned."""
    mine = personal.find(context.project)
    if mine is None:
        fault = personal.fault(context.project)
        if fault and Path(personal.folder()).exists():
            message = f"{personal.folder()} is left out here: {fault}"
            yield Finding(NOTE, message, personal.FIXES[fault])
        return
    log = reading.open_log(mine)
    problems = verify(log).problems
    for problem in problems:
        yield Finding(BAD, f"{mine.root}: {problem}", "run `tallybook verify --mine`", is_damage=True)
    if problems:
        return
    own, theirs = reading.current(log), reading.current(context.log)
    if hidden := [name for name in own.entries if name in theirs.used]:
        message = f"the project has entries of the same name, which hide your own {format_names(hidden)}"
        yield Finding(NOTE, message, "`tallybook retire NAME --mine` and `tallybook add --mine` give them other names")
