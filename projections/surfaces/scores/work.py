"""How sessions go, in one line for people: clean calls and their trend, votes, lessons, entries that left."""

from __future__ import annotations

from contextlib import suppress
import json
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Final

from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.hooks import ledger_access
from tallybook.projections.surfaces.hooks.citations import MAX_SEARCHED_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.surfaces.workspace.project import Project

RECENT: Final = 20
"""So many of the last measured sessions are compared with as many before them."""
_KIND: Final = "session.measured"


def line(project: Project) -> str:
    """Return the line; empty where no session was measured."""
    from tallybook.projections.surfaces.writing import proposals

    shares = _clean_shares(project)
    if not shares:
        return ""
    recent, earlier = shares[:RECENT], shares[RECENT:]
    trend = f", {fmean(recent) - fmean(earlier):+.1f} against the {len(earlier)} before" if earlier else ""
    book = reading.current(reading.open_log(project))
    votes = sum(given.helpful + given.harmful for given in book.by_agents.values())
    has_lessons = reading.open_own_log(project).may_contain(b'"kind":"point.proposed"')
    accepted = proposals.load(project).accepted if has_lessons else 0
    return (
        f"clean: {fmean(recent):.1f}% of calls of tools in the last {format_count(len(recent), 'session')}{trend}; "
        f"{format_count(votes, 'vote')} by agents, {format_count(accepted, 'lesson')} accepted, "
        f"{format_count(len(book.gone), 'entry', 'entries')} left"
    )


def _clean_shares(project: Project) -> list[float]:
    """Return the share of clean calls of the sessions that were measured last, the latest first."""
    shares: dict[str, float] = {}
    for session, share in _read_shares(project):
        # A session is measured at each read that reaches its end, and the last numbers replace the earlier ones.
        shares.setdefault(session, share)
        if len(shares) == 2 * RECENT:
            break
    return list(shares.values())


def _read_shares(project: Project) -> Iterator[tuple[str, float]]:
    """Yield each measured session with its share, in the log newest first; the log is not verified for it."""
    from tallybook.projections.lift.view import clean

    path = Path(reading.open_own_log(project).log_file)
    with suppress(OSError):
        for data in ledger_access.lines_before(path, path.stat().st_size, _KIND.encode(), MAX_SEARCHED_BYTES):
            if ledger_access.kind_of(data) == _KIND:
                with suppress(ValueError, KeyError, TypeError):
                    event = json.loads(data)
                    yield event["by"]["session"], clean(event["body"]["numbers"])
