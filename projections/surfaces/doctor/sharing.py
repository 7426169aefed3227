"""The doctor's check of a shared book: the user's settings, the copy of the book, and what is pending."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallybook.ledger.sharing import replica
from tallybook.ledger.verification import verify
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding
from tallybook.projections.surfaces.history.reading import log_with_book, open_log
from tallybook.projections.surfaces.sharing import membership
from tallybook.projections.surfaces.sharing.engines import ENGINES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.surfaces.doctor.finding import Context
    from tallybook.projections.surfaces.sharing.membership import Membership
    from tallybook.projections.surfaces.sharing.shared_log import SharedLog


def check_sharing(context: Context) -> Iterator[Finding]:
    """Check the part of a project in a shared book; a project that shares none is not mentioned."""
    log, part = open_log(context.project), membership.load(context.project)
    if log_with_book(log):
        yield from _check_copy(log)
        if part is not None:
            yield from _check_part(log, part)
    elif part is not None:
        yield Finding(NOTE, f"the book {part.name} was never taken in", "run `tallybook sync`")
    misfit = None if part is not None else membership.find_misfit(context.project)
    if misfit is not None:
        yield Finding(NOTE, f"nothing is sent or fetched here: {misfit[0]}", f"run: {misfit[1]}")
    elif part is None and log_with_book(log):
        why = "nothing is sent or fetched here: the ledger has a shared book, and no settings of this user share it"
        yield Finding(NOTE, why, "run: tallybook share ENGINE ADDRESS")


def _check_copy(log: SharedLog) -> Iterator[Finding]:
    """Verify the copy of the book, and that it has all that the playbook contains."""
    verdict, taken = verify(log.copy.log), log.history.frontier.seq
    for problem in verdict.problems:
        yield Finding(BAD, f"the copy of the book: {problem}", "run `tallybook sync`", is_damage=True)
    if not verdict.problems and verdict.head.seq < taken:
        message = f"the copy of the book ends at book:{verdict.head.seq}, and the playbook needs it up to book:{taken}"
        yield Finding(BAD, message, "run `tallybook sync`")


def _check_part(log: SharedLog, part: Membership) -> Iterator[Finding]:
    if part.engine not in ENGINES:
        yield Finding(BAD, f"{part.engine!r} is not an engine of this Tallybook", "upgrade, or share it anew")
        return
    if replica.read_current(log.folder) is None:
        yield Finding(NOTE, "the note of the copy's place is missing", "run `tallybook sync`")
    pending = len(log.history.pending)
    waits = f", {format_count(pending, 'own batch', 'own batches')} pending" if pending else ""
    yield Finding(OK, f"book {part.name} in {part.engine} up to book:{log.history.frontier.seq}{waits}")
