"""Lift: does the playbook help? Questions are asked, judged and closed, and shown in other answers.

A draw withholds the entries of a question from some sessions. Its secret, which only its user has, repeats the draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import dropwhile
import json
from math import log
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tallybook.ledger import clock, events
from tallybook.ledger.codec import decode
from tallybook.ledger.errors import BadInputError, NothingToDoError
from tallybook.ledger.fast_stdlib import import_lazily, sha256
from tallybook.ledger.names import find_name
from tallybook.projections.history.event_rows import brief
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.playbook.render import entry_json
from tallybook.projections.playbook.view import Playbook
from tallybook.projections.surfaces.console.output import format_count, format_time
from tallybook.projections.surfaces.history import moments, reading
from tallybook.projections.surfaces.hooks import blocks, draws
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

if TYPE_CHECKING:
    from tallybook.projections.scores import lift as view
    from tallybook.projections.scores import lift_verdict as betting
    from tallybook.projections.scores.config import Config
    from tallybook.projections.scores.lift import Lift, Question
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.scores import configuration
    from tallybook.projections.surfaces.writing import requests
else:
    # `why` and other verbs load this module, and most ledgers have no question.
    betting, view, configuration, requests = import_lazily(
        "tallybook.projections.scores.lift_verdict",
        "tallybook.projections.scores.lift",
        "tallybook.projections.surfaces.scores.configuration",
        "tallybook.projections.surfaces.writing.requests",
    )

NOT_KNOWN: Final = "not known yet"
CHANGED: Final = f"{NOT_KNOWN}: the configuration of the scores is not the one with which it was asked; ask again"
Row = dict[str, Any]
"""A question or a verdict, as JSON has it."""
_LINE: Final = b'"kind":"lift.asked"'
_DIGEST_CHARS: Final = 32
_RECENT: Final = 200
"""By so many of the last sessions is said how many a verdict takes."""
_FEWEST_MEASURED: Final = 20
"""With fewer measured sessions nothing is said of how many a verdict takes."""


def load_state(project: Project, moment: Moment | None = None) -> Lift:
    """Return the questions of a ledger as of a moment, or now."""
    return fold_history(view.lift_view(configuration.load(project)), moments.history_at(project, moment))


# Asking, and closing


def ask(project: Project, words: Sequence[str], outcome: str, by: Mapping[str, str]) -> tuple[Lift, list[events.Entry]]:
    """Ask whether the playbook, its new entries or some entries help.

    Args:
        project: The project.
        words: ``playbook``, ``new``, or names of entries.
        outcome: By what sessions are compared: ``clean``, or a score.
        by: Who asks.

    Returns:
        The questions of the ledger, this one open, and the entries that its draws withhold.

    Raises:
        BadInputError: A question is open, nothing would be drawn, or there is nothing to withhold.
    """
    config = configuration.load(project)
    score = outcome if outcome == view.CLEAN else configuration.score_named(config, outcome, "--outcome")
    _require_hold(project)
    state = load_state(project)
    # One at a time: drawn apart at 0.2, all of ten entries are withheld together once in ten million sessions,
    # so that draws for single entries never answer whether the playbook helps.
    if state.open:
        question = state.questions[state.open]
        hint = "`tallybook lift stop` closes it; nothing was recorded"
        raise BadInputError("lift ask", f"question {question.number} is open, and only one can be", hint)
    book = reading.current(reading.open_log(project))
    # Every session reads the block in a file, so that no draw can withhold what it has.
    found = [block for name in blocks.FILES if (block := blocks.find(project, (name,))) is not None]
    rows = [entry_json(entry) for entry in book.entries.values()]
    exported = {row["name"]: block.name for row in rows for block in found if block.has(row)}
    about, names = _parse(words, book, exported)
    # Outcome and error share are named before the first draw, so that nobody chooses them by what came out.
    share = betting.budget(state.asked + 1)
    event = events.LiftAsked(about, names, score, share, _digest_scoring(score, config))
    commands.record_request(project, requests.Request(requests.PlainEvents((event,)), by))
    state = load_state(project)
    draws.save_secret(project, state.open, clock.new_secret(draws.SECRET_BYTES))
    draws.save_question(project)
    free = _free(reading.current(reading.open_log(project)), exported)
    return state, [entry for entry in free if about == view.PLAYBOOK or entry.name in names]


def _require_hold(project: Project) -> None:
    """Require that sessions are drawn.

    Raises:
        BadInputError: They are drawn with probability 0.
    """
    if not settings.read(project).hold:
        # A project's file comes with a clone: it may forbid to withhold, and never start it.
        hint = f"set hold = 0.2, at most 0.5, in {settings.users_file()}, unless a file of this project sets it to 0"
        raise BadInputError("[lift] hold", "is 0 or not valid, so nothing would be withheld", hint)


def _free(book: Playbook, exported: Mapping[str, str]) -> list[events.Entry]:
    """Return the entries that a draw may withhold."""
    return [entry for name, entry in book.entries.items() if name not in book.pinned and name not in exported]


def _parse(words: Sequence[str], book: Playbook, exported: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return what a question is about, and its entries.

    Raises:
        BadInputError: They are no such thing.
    """
    if not words:
        raise BadInputError("lift ask", "needs a question", "give playbook, new, or the names of entries")
    if len(book.entries) < draws.FEWEST_ENTRIES:
        what = f"has {len(book.entries)} entries, and nothing is withheld from fewer than {draws.FEWEST_ENTRIES}"
        raise BadInputError("the playbook", what, "ask again when it has grown; nothing was recorded")
    free = _free(book, exported)
    if list(words) == [view.PLAYBOOK]:
        if not free:
            what = "has only entries that are pinned or exported, and those are never withheld"
            raise BadInputError("the playbook", what, "unpin some")
        return view.PLAYBOOK, ()
    if list(words) == [view.NEW]:
        # As one group, because one comparison takes the fewest sessions.
        names = tuple(entry.name for entry in free if not (entry.helpful or entry.harmful))
        if not names:
            raise BadInputError("new", "no entry is without ratings", "give playbook, or the names of entries")
        return view.NEW, names
    return view.NAMES, tuple(dict.fromkeys(_entry(word, book, exported) for word in words))


def _entry(word: str, book: Playbook, exported: Mapping[str, str]) -> str:
    name = find_name(word, book.entries)
    if name is None:
        raise BadInputError(
            word or "''", "is not an entry of the playbook", "see `tallybook show`; nothing was recorded"
        )
    # People pin the rules that guard against damage.
    if name in book.pinned:
        raise BadInputError(name, "is pinned, and pinned entries are never withheld", f"`tallybook pin --off {name}`")
    if name in exported:
        raise BadInputError(name, f"is in {exported[name]}, which every session reads", "nothing was recorded")
    return name


def _digest_scoring(outcome: str, config: Config) -> str:
    """Return the digest of what decides an outcome by scores, not of how these are shown; empty for `clean`."""
    if outcome == view.CLEAN:
        return ""
    components = [
        {key: value for key, value in msgspec.to_builtins(component).items() if key != "name"}
        for component in config.components.values()
    ]
    weights = (dict(config.session_weights), {name: list(parts) for name, parts in config.sessions.items()})
    # An outcome stays what it was when the question was asked; how scores are shown does not matter.
    document = [components, weights, config.benchmarks.weight, config.feedback.weight]
    return sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:_DIGEST_CHARS]


def plan(state: Lift, question: Question, hold: float) -> str:
    """Return what a verdict takes, by the sessions so far; for another outcome than `clean` only time will tell."""
    if question.event.outcome != view.CLEAN:
        return ""
    from statistics import fmean

    # Sessions from before the first measurement could have no outcome, and are not missing.
    recent = list(dropwhile(lambda session: session not in state.measured, state.spoken))[-_RECENT:]
    outcomes = [view.outcome_of(state.measured[session]) for session in recent if session in state.measured]
    missing = 1 - len(outcomes) / len(recent) if recent else 0.0
    if len(outcomes) < _FEWEST_MEASURED:
        return f"Too few sessions are measured to say how many a verdict takes: {len(outcomes)} of {_FEWEST_MEASURED}."
    effect = (view.BOUNDS[1] - fmean(outcomes)) / 2
    world = betting.Assumptions(outcomes, effect, hold, (missing, missing), view.BOUNDS)
    if not effect:
        return "No verdict can come: no call of the last sessions failed, so nothing can be avoided."
    # Two over the error share are needed, and the bet on one size has only its part of the wealth.
    sessions = betting.count_sessions(world, log(2 * len(betting.SIZES) / question.event.share))
    most = f"{betting.greatest_missing(world):.0%}"
    what = "No verdict can come"
    if sessions is not None:
        difference = f"a difference of {effect:.1f} points, half of the failures"
        what = f"A verdict on {difference}, takes about {sessions} sessions"
    return f"{what} if {missing:.1%} of the sessions have no outcome, as of the last ones; above {most} none can come."


def stop(project: Project, by: Mapping[str, str]) -> Row:
    """Close the open question, and return it.

    Raises:
        NothingToDoError: None is open.
    """
    id_ = load_state(project).open
    if not id_:
        raise NothingToDoError("lift stop", "no question is open", "`tallybook lift` shows what was asked")
    commands.record_request(project, requests.Request(requests.PlainEvents((events.LiftStopped(id_),)), by))
    draws.save_question(project)
    state = load_state(project)
    return question_json(state, state.questions[id_])


# Draws, drawn again: with the secret, anyone who doubts a draw can repeat it


def draw_again(project: Project) -> Row:
    """Draw again for each recorded draw whose secret this user has.

    Returns:
        ``{again, unknown, different}``: how many injections were drawn again, how many were not because their secret is
        not here, and a line for each that came out otherwise; empty where nothing was drawn.
    """
    log = reading.open_own_log(project)
    known = draws.read_secrets(project)
    again, unknown, different = 0, 0, list[str]()
    # Line heads are decoded only where a batch injects, as that is slow.
    batches = (batch for batch in decode(log.read()) if events.PlaybookInjected in map(type, batch.events))
    for record in (record for batch in batches for record in batch.records):
        event: Any = record.event
        if not isinstance(event, events.PlaybookInjected) or not event.question:
            continue
        secret = known.get(event.question)
        # The secret stays with the user who asked: elsewhere a draw cannot be repeated, and that is no fault of it.
        if secret is None:
            unknown += 1
            continue
        again += 1
        draw = (secret, event.question, event.lineage)
        held = {unit for unit in event.units if draws.is_held(*draw, unit, event.probability)}
        if odd := [unit for unit in event.units if view.is_unit_held(event, unit) != (unit in held)]:
            different.append(f"event {record.seq}: {', '.join(odd)} came out otherwise when drawn again")
    return {"again": again, "unknown": unknown, "different": different} if again or unknown else {}


# Questions with their verdicts, as JSON and in plain words


def load_questions(project: Project, moment: Moment | None = None) -> list[Row]:
    """Return the questions of a ledger with their verdicts, in order, as of a moment or now."""
    state = load_state(project, moment)
    return [question_json(state, question) for question in state.questions.values()]


def _load_asked(project: Project, moment: Moment | None = None) -> list[Row]:
    """Return the same for an answer about something else: where nothing was asked, the ledger is not folded."""
    return load_questions(project, moment) if reading.open_own_log(project).may_contain(_LINE) else []


def question_json(state: Lift, question: Question) -> Row:
    """Return a question with the verdict on each unit; no verdicts where the scores are not computed as when asked."""
    event, now, rows = question.event, view.find_now(state), None
    # Another outcome is another question: scores of two configurations are no series.
    if event.scoring == _digest_scoring(event.outcome, state.config):
        rows = [
            {"unit": unit, **row._asdict(), "evidence": row.evidence._asdict(), "work": question.work(unit, now)}
            for unit, row in question.verdicts(now).items()
        ]
    return {
        "number": question.number,
        "question": event.question,
        "names": list(event.names),
        "outcome": event.outcome,
        "share": event.share,
        "asked": brief(question.asked),
        "stopped": None if question.stopped is None else brief(question.stopped),
        "drawn": len(question.lineages),
        "verdicts": rows,
    }


def describe(question: Row) -> str:
    """Return what a question asks."""
    names = question["names"]
    if question["question"] == view.PLAYBOOK:
        return "does the playbook help?"
    if question["question"] == view.NEW:
        return f"do the new entries help ({', '.join(names)})?"
    return "which of these entries help?" if len(names) > 1 else f"does {names[0]} help?"


def _say_verdict(verdict: Row | None) -> str:
    """Return a verdict in one clause: "helps", "hurts", or "not known yet" and what that takes."""
    if verdict is None:
        return CHANGED
    if verdict["word"] != NOT_KNOWN:
        return str(verdict["word"])
    if verdict["needed"] is not None:
        return f"{NOT_KNOWN}: about {format_count(verdict['needed'], 'more session')} at this rate"
    # Without an estimate there are too few sessions, and the reason says how few.
    if verdict["estimate"] is None:
        return f"{NOT_KNOWN}: {verdict['reason']}"
    return f"{NOT_KNOWN}: thousands of sessions more at this rate"


def question_lines(question: Row) -> Iterator[str]:
    """Yield a question and its verdicts as lines for people; what there is besides a verdict, where it has figures."""
    asked, stopped = question["asked"], question["stopped"]
    state_word = f"closed {format_time(stopped['at'])}" if stopped else f"open since {format_time(asked['at'])}"
    yield f"Question {question['number']}, {state_word}: {describe(question)} By {question['outcome']}."
    if question["verdicts"] is None:
        yield f"  {CHANGED}"
    for verdict in question["verdicts"] or ():
        name = f"{verdict['unit']}: " if question["question"] == view.NAMES else ""
        yield f"  {name}{_say_verdict(verdict)}"
        if verdict["estimate"] is None:
            continue
        way = "higher" if verdict["estimate"] >= 0 else "lower"
        span = ""
        if verdict["interval"] is not None:
            # The interval inverts the test for a constant difference, and is labelled so.
            low, high = verdict["interval"]
            span = f"; if the difference is the same in every session, from {low:+.1f} to {high:+.1f}"
        yield f"    sessions with it scored {abs(verdict['estimate']):.1f} points {way} on average{span}"
        counts = f"{verdict['told']} with it and {verdict['held']} without it have an outcome"
        yield f"    {counts}; {verdict['missing_told']} and {verdict['missing_held']} have none"
        arms = [", ".join(f"{name} {value:g}" for name, value in arm.items()) for arm in verdict["work"].values()]
        if len(arms) == len(("told", "held")):
            # An entry can make calls succeed that nobody needs.
            yield f"    a session on average: {arms[0]} with it; {arms[1]} without it"


def judge_entry(questions: Sequence[Row], name: str) -> tuple[Row, Row | None] | None:
    """Return the last question that is about an entry, and the verdict on it or on the group that it belongs to.

    Returns:
        None where nothing was asked about it; no verdict where the scores are not computed as when it was asked.
    """
    # A verdict on the whole playbook says nothing of one of its entries.
    for question in reversed(questions):
        if question["question"] != view.PLAYBOOK and name in question["names"]:
            verdicts = {verdict["unit"]: verdict for verdict in question["verdicts"] or ()}
            return question, verdicts.get(name, verdicts.get(view.NEW))
    return None


def say_judged(question: Row, verdict: Row | None) -> str:
    """Return what is known of an entry in one line."""
    group = " as one of the new entries" if question["question"] == view.NEW else ""
    closed = "" if question["stopped"] is None else ", closed"
    return f"{_say_verdict(verdict)}{group} (question {question['number']}{closed})"


# What other answers say of it: `why`, `what-if` and the page; nothing if unasked


def entry_lines(project: Project, name: str, moment: Moment | None = None) -> list[str]:
    """Return what lift knows of an entry as of a moment, in a line."""
    about = judge_entry(_load_asked(project, moment), name)
    return [] if about is None else [f"Lift: {say_judged(*about)}."]


def summary_lines(project: Project) -> list[str]:
    """Return what lift knows, a line for each unit of each question."""
    return [
        f"lift: {verdict['unit'] if verdict else describe(question)}: {say_judged(question, verdict)}"
        for question in _load_asked(project)
        for verdict in question["verdicts"] or [None]
    ]


def find_hurting_names(project: Project, moment: Moment | None = None) -> frozenset[str]:
    """Return the entries of which lift says that they hurt, by themselves or as one of the new entries."""
    questions = _load_asked(project, moment)
    judged = {name: judge_entry(questions, name) for question in questions for name in question["names"]}
    return frozenset(name for name, about in judged.items() if about and about[1] and about[1]["word"] == "hurts")


def page_section(project: Project) -> str:
    """Return the section of the page that says how sessions go and what lift knows; empty where there is neither."""
    lines = (*filter(None, [configuration.line(project)]), *summary_lines(project))
    items = "".join(f"<li>{escape(line.removeprefix('lift: '))}</li>" for line in lines)
    if not items:
        return ""
    title = '<h2 id="lift-title">Does it help?</h2>'
    return f'<section id="lift" aria-labelledby="lift-title">{title}<ul>{items}</ul></section>'
