"""The answer of `score --blame`: where a score dropped, and what changed in the playbook before that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger.codec import decode
from tallybook.ledger.errors import BadInputError
from tallybook.projections.fold import fold_history
from tallybook.projections.scores import summary
from tallybook.projections.scores.config import Config
from tallybook.projections.scores.scoring import Level, is_enough
from tallybook.projections.scores.trends import NOT_ENOUGH
from tallybook.projections.scores.view import PERIODS, Scores, group_days, score_levels
from tallybook.projections.surfaces.console.output import format_count, format_time
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.scores.configuration import score_named
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from tallybook.projections.surfaces.history.moments import Moment

LAST: Final = "last"
RANGE: Final = ".."
"""Between two periods of a query."""
OPTION: Final = "--blame"
CAUTION: Final = "Each is a lead and not a proof: that it came first does not make it the cause."
SHOWN: Final = 20
"""Leads that people are shown, the newest."""

_WORDS: Final = {"daily": "day", "weekly": "week", "monthly": "month"}
_WITHIN: Final = {"daily": "on", "weekly": "in", "monthly": "in"}


def blame(
    project: Project, state: Scores, name: str, span: tuple[str, str | None], when: Moment | None = None
) -> dict[str, Any]:
    """Return where a score dropped, and what changed in the playbook before that.

    Args:
        project: Whose ledger.
        state: Its scores, counted.
        name: The score: a component's id in any spelling, ``session.NAME``, or the NAME alone.
        span: Daily, weekly or monthly, between which it is looked for; and the period that it dropped in, such as
            ``2026-01-16``; two of them, ``2026-01-14..2026-01-16``, for the drop from the one to the other; LAST for
            the last one that has the score; None for whichever saw the greatest drop.
        when: The moment that the scores were folded up to; None for the ledger's end.

    Returns:
        ``{score, period, name, periods, drop, coverage, between, moment, leads, caution}``: ``periods`` is how many
        have the score; ``drop`` is ``{before, after, points}``, two times ``{period, score}``, or None where it did not
        drop, and then ``coverage``, ``between`` and ``moment`` are None and ``leads`` is empty; ``coverage`` is the
        share of the score's weight, 0 to 1, that was measured in the less measured of the two periods; ``between`` is
        ``{good, bad}``, each ``{session, at, score}``; ``moment`` is the last event by then; ``leads`` are as
        those of ``summary.Leads``, the newest first.

    Raises:
        BadInputError: There is no such score, or no such period that has it.
    """
    score, period = score_named(state.config, name, OPTION), span[0]
    levels = score_levels(group_days(state.days, PERIODS[period][1]), score)
    since, until = _find_ends(span, score, levels)
    named = until if since is None else f"{since}{RANGE}{until}"
    answer = {"score": score, "period": period, "name": named, "periods": len(levels)}
    # Periods without data are not among them: a drop may lie between two days with a gap.
    pairs = pairwise(level for level in levels if since is None or level.period in {since, until})
    drops = [pair for pair in pairs if until in {None, pair[1].period} and pair[0].value > pair[1].value]
    # The last of several that are equally great.
    drop = max(reversed(drops), key=lambda pair: pair[0].value - pair[1].value, default=None)
    if drop is None:
        nothing = dict.fromkeys(("drop", "coverage", "between", "moment"))
        return answer | nothing | {"leads": [], "caution": CAUTION}
    good, bad = summary.find_interval(state, score, period, drop)
    read = open_log(project).read if when is None else when.read
    # As-of a time is the largest number recorded by then, also where the clock ran back meanwhile.
    moment = max((raw.last for raw in read() if raw.position.at <= bad.at), default=0)
    span_leads = fold_history(summary.leads_view(good.at, bad.at), lambda: decode(read()), moment)
    before, after = ({"period": level.period, "score": level.value} for level in drop)
    sessions = ({"session": side.id, "at": side.at, "score": side.scores[score]} for side in (good, bad))
    return answer | {
        "drop": {"before": before, "after": after, "points": drop[0].value - drop[1].value},
        "coverage": min(level.measured for level in drop) / 100,
        "between": dict(zip(("good", "bad"), sessions, strict=True)),
        "moment": span_leads.seq,
        "leads": span_leads.leads[::-1],
        "caution": CAUTION,
    }


def _find_ends(span: tuple[str, str | None], score: str, levels: Sequence[Level]) -> tuple[str | None, str | None]:
    """Return the period that a span names, None for any, and before it an earlier one, None for any."""
    period, name = span
    if name is None or not levels:
        return None, None
    since, dots, until = name.rpartition(RANGE)
    until = levels[-1].period if until == LAST else until
    for end in [since, until] if dots else [until]:
        if end not in {level.period for level in levels}:
            known = f"the first {_WORDS[period]} that has it is {levels[0].period}, the last {levels[-1].period}"
            raise BadInputError(f"{OPTION} {score}", f"has no data {_WITHIN[period]} {end}", known)
    if dots and since >= until:
        raise BadInputError(f"{OPTION} {name}", "does not go forward", "give the earlier one first")
    return since if dots else None, until


def drop_lines(answer: Mapping[str, Any], config: Config) -> Iterator[str]:
    """Yield the answer for people, a line each; names and texts in it are as they were recorded.

    Args:
        answer: The answer, as ``blame`` returns it.
        config: Of how much of a score has to be measured for it to be shown.
    """
    drop = answer["drop"]
    if drop is None:
        yield _no_drop(answer)
        return
    coverage_percent = round(answer["coverage"] * 100)
    # The changes before a drop of what was barely measured explain nothing.
    if not is_enough(coverage_percent, config):
        yield (
            f"{answer['score']}: {NOT_ENOUGH} ({coverage_percent} %) to explain the drop; "
            "`tallybook score --blame COMPONENT` explains one component, such as ac06"
        )
        return
    before, after = drop["before"], drop["after"]
    fell = ", ".join(f"{level['score']} {_WITHIN[answer['period']]} {level['period']}" for level in (before, after))
    yield f"{answer['score']} dropped by {format_count(drop['points'], 'point')}: {fell}"
    for label, side in (("last as good as before", "good"), ("then worst", "bad")):
        session = answer["between"][side]
        yield f"  {label} in session {session['session']}, {format_time(session['at'])}, with {session['score']}"
    leads = answer["leads"]
    if not leads:
        yield "Between these nothing changed in the playbook: the cause of the drop is elsewhere."
        return
    yield f"Between these the playbook had {format_count(len(leads), 'change')}, the newest first. {CAUTION}"
    for lead in leads[:SHOWN]:
        by = lead["by"]
        author = by["rater"] + (f" in session {by['session']}" if "session" in by else "")
        yield f"{lead['seq']:>6}  {format_time(lead['at'])}  {author}: {lead['summary']}"
    if len(leads) > SHOWN:
        yield f"and {len(leads) - SHOWN} older; --json has them all"
    yield f"`tallybook show --at {answer['moment']}` shows the playbook as of then"


def _no_drop(answer: Mapping[str, Any]) -> str:
    """Return the sentence that there is no drop, and why."""
    score, word = answer["score"], _WORDS[answer["period"]]
    if answer["periods"] <= 1:
        subject = f"only one {word} has" if answer["periods"] else f"no {word} has"
        return f"{score} did not drop: {subject} data of it"
    since, dots, name = (answer["name"] or "").partition(RANGE)
    if dots:
        return f"{score} did not drop from {since} to {name}"
    if answer["name"] is not None:
        return (
            f"{score} did not drop {_WITHIN[answer['period']]} {answer['name']}, against the {word} with data before it"
        )
    return f"{score} never dropped from one {word} with data to the next"
