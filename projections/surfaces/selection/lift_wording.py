"""Verdicts in plain words, for `lift`, `why`, `show --lift` and the page; and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallybook.projections.event_rows import brief
from tallybook.projections.lift import view
from tallybook.projections.surfaces.console.output import format_count, format_time
from tallybook.projections.surfaces.selection.lift_questions import scoring_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallybook.projections.lift.verdict import Verdict

NOT_KNOWN: Final = "not known yet"
ARMS: Final = ("told", "held")
_GROUPS: Final = {view.PLAYBOOK: "the playbook", view.NEW: "new entries"}
CHANGED: Final = f"{NOT_KNOWN}: the configuration of the scores is not the one with which it was asked; ask again"


def describe(question: view.Question) -> str:
    """Return what a question asks."""
    event = question.event
    if event.question == view.PLAYBOOK:
        return "does the playbook help?"
    if event.question == view.NEW:
        return f"do the new entries help ({', '.join(event.names)})?"
    return "which of these entries help?" if len(event.names) > 1 else f"does {event.names[0]} help?"


def verdicts_of(state: view.Lift, question: view.Question) -> dict[str, Verdict] | None:
    """Return the verdict on each unit; None where the scores are not computed as when it was asked."""
    return (
        # Another outcome is another question: scores of two configurations are no series.
        question.verdicts(view.now_of(state))
        if question.event.scoring == scoring_of(question.event.outcome, state.config)
        else None
    )


def say_verdict(verdict: Verdict | None) -> str:
    """Return a verdict in one clause: "helps", "hurts", or "not known yet" and what that takes."""
    if verdict is None:
        return CHANGED
    if verdict.word != NOT_KNOWN:
        return verdict.word
    if verdict.needed is not None:
        return f"{NOT_KNOWN}: about {format_count(verdict.needed, 'more session')} at this rate"
    # Without an estimate there are too few sessions, or the arms cannot be compared: the reason says which.
    if verdict.estimate is None or not verdict.reason.startswith("the evidence"):
        return f"{NOT_KNOWN}: {verdict.reason}"
    return f"{NOT_KNOWN}: thousands of sessions more at this rate"


def _figures(verdict: Verdict) -> Iterator[str]:
    """Yield what there is besides the verdict; nothing with few sessions."""
    if verdict.estimate is None:
        return
    way = "higher" if verdict.estimate >= 0 else "lower"
    span = ""
    if verdict.interval is not None:
        # The interval inverts the test for a constant difference, and is labelled so.
        low, high = verdict.interval
        span = f"; if the difference is the same in every session, from {low:+.1f} to {high:+.1f}"
    yield f"sessions with it scored {abs(verdict.estimate):.1f} points {way} on average{span}"
    yield (
        f"{verdict.told} with it and {verdict.held} without it have an outcome; "
        f"{verdict.missing_told} and {verdict.missing_held} have none"
    )


def _work_lines(work: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield what sessions of both arms did on average: an entry can make calls succeed that nobody needs."""
    if len(work) == len(ARMS):
        arms = [", ".join(f"{name} {value:g}" for name, value in work[arm].items()) for arm in ARMS]
        yield f"a session on average: {arms[0]} with it; {arms[1]} without it"


def question_lines(state: view.Lift, question: view.Question) -> Iterator[str]:
    """Yield a question and its verdicts as lines for people."""
    state_word = f"open since {format_time(question.asked.at)}"
    if question.stopped is not None:
        state_word = f"closed {format_time(question.stopped.at)}"
    yield f"Question {question.number}, {state_word}: {describe(question)} By {question.event.outcome}."
    verdicts = verdicts_of(state, question)
    if verdicts is None:
        yield f"  {CHANGED}"
        return
    for unit, verdict in verdicts.items():
        name = f"{unit}: " if question.event.question == view.NAMES else ""
        yield f"  {name}{say_verdict(verdict)}"
        work = {} if verdict.estimate is None else question.work(unit, view.now_of(state))
        yield from (f"    {line}" for line in (*_figures(verdict), *_work_lines(work)))


def question_of(state: view.Lift, name: str) -> tuple[view.Question, str] | None:
    """Return the last question that is about an entry, and the unit that it belongs to; None without one."""
    # A verdict on the whole playbook says nothing of one of its entries.
    for question in reversed(state.questions.values()):
        if question.event.question == view.PLAYBOOK:
            continue
        if name in question.event.names:
            return question, name if question.event.question == view.NAMES else view.NEW
    return None


def entry_line(state: view.Lift, name: str) -> str:
    """Return what is known of an entry in one line; empty where nothing was asked about it."""
    about = question_of(state, name)
    if about is None:
        return ""
    question, unit = about
    verdicts = verdicts_of(state, question)
    group = "" if unit == name else " as one of the new entries"
    return f"{say_verdict(verdicts[unit] if verdicts else None)}{group} (question {question.number})"


def summary_lines(state: view.Lift) -> list[str]:
    """Return each question with its verdicts, a line for each unit, for places with little room."""
    lines = []
    for question in state.questions.values():
        verdicts = verdicts_of(state, question)
        for unit in question.units:
            about = unit if question.event.question == view.NAMES else _GROUPS[unit]
            closed = "" if question.stopped is None else ", closed"
            words = say_verdict(verdicts[unit] if verdicts else None)
            lines.append(f"{about}: {words} (question {question.number}{closed})")
    return lines


def hurting_names(state: view.Lift) -> frozenset[str]:
    """Return the entries of which their last question says that they hurt."""
    asked = {name for question in state.questions.values() for name in question.event.names}
    hurting = set()
    for name in asked:
        about = question_of(state, name)
        verdicts = verdicts_of(state, about[0]) if about is not None else None
        if about is not None and verdicts is not None and verdicts[about[1]].word == "hurts":
            hurting.add(name)
    return frozenset(hurting)


def question_json(state: view.Lift, question: view.Question) -> dict[str, Any]:
    """Return a question with its verdicts."""
    event = question.event
    verdicts = verdicts_of(state, question)
    return {
        "number": question.number,
        "question": event.question,
        "names": list(event.names),
        "outcome": event.outcome,
        "share": event.share,
        "asked": brief(question.asked),
        "stopped": None if question.stopped is None else brief(question.stopped),
        "drawn": len(question.lineages),
        "verdicts": None
        if verdicts is None
        else [
            {
                "unit": unit,
                **verdict._asdict(),
                "evidence": verdict.evidence._asdict(),
                "work": question.work(unit, view.now_of(state)),
            }
            for unit, verdict in verdicts.items()
        ],
    }
