"""The doctor's check of entries that may be stale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallybook.projections.review import stale_words
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.doctor.finding import NOTE, Finding
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
