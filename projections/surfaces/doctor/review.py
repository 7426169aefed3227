"""The doctor's checks of entries: those that may be stale, and texts that are not what they look like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallybook.projections.review import stale_words
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import find_controls
from tallybook.projections.surfaces.doctor.finding import NOTE, Finding, format_names
from tallybook.projections.surfaces.review import stale

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
