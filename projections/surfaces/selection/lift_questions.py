"""Questions about lift: asked, closed, their draws drawn again, and their verdicts in plain words and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile
import json
from math import log
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import clock, events
from tallybook.ledger.codec import decode
from tallybook.ledger.errors import BadInputError, NothingToDoError
from tallybook.ledger.fast_stdlib import sha256
from tallybook.ledger.names import find_name
from tallybook.projections import lift
from tallybook.projections.event_rows import brief
from tallybook.projections.fold import fold_history
from tallybook.projections.lift_verdict import SIZES, Verdict, World, budget, count_sessions, greatest_missing
from tallybook.projections.playbook.render import entry_json
from tallybook.projections.playbook.view import Playbook
from tallybook.projections.scores.config import Config
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.agents.table import require_person
from tallybook.projections.surfaces.console.output import format_count, format_time
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.hooks import blocks, draws
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from tallybook.projections.surfaces.history.moments import Moment


ASKED: Final = "nothing was asked"
_DIGEST_CHARS: Final = 32
_RECENT: Final = 200
"""By so many of the last sessions is said how many a verdict takes."""
_FEWEST_MEASURED: Final = 20
"""With fewer measured sessions nothing is said of how many a verdict takes."""


class Asked(NamedTuple):
    """A question that was asked.

    Attributes:
        state: The questions of the ledger.
        question: The question.
        withheld: The entries that its draws withhold.
        hold: With which probability.
        plan: What a verdict takes, in words.
    """

    state: lift.Lift
    question: lift.Question
    withheld: tuple[events.Entry, ...]
    hold: float
    plan: str


def scoring_of(outcome: str, config: Config) -> str:
    """Return the digest of what decides an outcome by scores, not of how these are shown; empty for `clean`."""
    if outcome == lift.CLEAN:
        return ""
    components = [
        attrs.asdict(component, filter=lambda field, _: field.init and field.name != "name")
        | {"metrics": [attrs.asdict(metric) for metric in component.metrics]}
        for component in config.components.values()
    ]
    weights = (dict(config.session_weights), {name: list(parts) for name, parts in config.sessions.items()})
    # An outcome stays what it was when the question was asked; how scores are shown does not matter.
    document = [components, weights, config.benchmarks.weight, config.feedback.weight]
    return sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:_DIGEST_CHARS]


def load_state(project: Project, moment: Moment | None = None) -> lift.Lift:
    """Return the questions of a ledger as of a moment, or now."""
    return fold_history(lift.lift_view(configuration.load(project)), commands.history_at(project, moment))


def ask(project: Project, words: Sequence[str], outcome: str, by: Mapping[str, str]) -> Asked:
    """Ask whether the playbook, its new entries or some entries help.

    Args:
        project: The project.
        words: ``playbook``, ``new``, or names of entries.
        outcome: By what sessions are compared: ``clean``, or a score.
        by: Who asks.

    Raises:
        PersonsOnlyError: An agent asks; what is withheld is withheld from a person's sessions.
        BadInputError: A question is open, nothing would be drawn, or there is nothing to withhold.
    """
    # What a question withholds is withheld from a person's sessions, and an agent once could ask and stop it.
    require_person("lift ask", by.get("rater"))
    config = configuration.load(project)
    score = lift.CLEAN if outcome == lift.CLEAN else configuration.score_named(config, outcome, "--outcome")
    hold = _require_hold(project)
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
    share = budget(state.asked + 1)
    event = events.LiftAsked(about, names, score, share, scoring_of(score, config))
    commands.record_request(project, Request(PlainEvents((event,)), by))
    state = load_state(project)
    draws.save_secret(project, state.open, clock.new_secret(draws.SECRET_BYTES))
    draws.save_question(project)
    book = reading.current(reading.open_log(project))
    question = state.questions[state.open]
    asked = book.entries.keys() if about == lift.PLAYBOOK else names
    withheld = tuple(
        entry
        for name, entry in book.entries.items()
        if name in asked and name not in book.pinned and name not in exported
    )
    return Asked(state, question, withheld, hold, _plan(state, question, hold))


def _plan(state: lift.Lift, question: lift.Question, hold: float) -> str:
    """Return what a verdict takes, by the sessions so far; for another outcome than `clean` only time will tell."""
    if question.event.outcome != lift.CLEAN:
        return ""
    # Sessions from before the first measurement could have no outcome, and are not missing.
    recent = list(dropwhile(lambda session: session not in state.measured, state.spoken))[-_RECENT:]
    outcomes = [lift.outcome_of(state.measured[session]) for session in recent if session in state.measured]
    missing = 1 - len(outcomes) / len(recent) if recent else 0.0
    if len(outcomes) < _FEWEST_MEASURED:
        return f"Too few sessions are measured to say how many a verdict takes: {len(outcomes)} of {_FEWEST_MEASURED}."
    effect = (lift.BOUNDS[1] - fmean(outcomes)) / 2
    world = World(outcomes, effect, hold, (missing, missing), lift.BOUNDS)
    if not effect:
        return "No verdict can come: no call of the last sessions failed, so nothing can be avoided."
    # Two over the error share are needed, and the bet on one size has only its part of the wealth.
    sessions = count_sessions(world, log(2 * len(SIZES) / question.event.share))
    most = f"{greatest_missing(world):.0%}"
    seen = f"if {missing:.1%} of the sessions have no outcome, as of the last ones"
    if sessions is None:
        return f"No verdict can come {seen}; at most {most} may have none, where half of the failures are avoided."
    difference = f"a difference of {effect:.1f} points, half of the failures"
    return f"A verdict on {difference}, takes about {sessions} sessions {seen}; above {most} none can come."


def _require_hold(project: Project) -> float:
    """Return the probability with which sessions are drawn.

    Raises:
        BadInputError: It is 0.
    """
    hold = settings.read(project).hold
    if hold:
        return hold
    users = settings.users_file()
    # A project's file comes with a clone: it may forbid to withhold, and never start it.
    own = settings.load(users).values.get("hold", 0)
    what = "a settings file of this project forbids it" if own else "is 0, so nothing would be withheld"
    hint = "it counts as it is" if own else f"set hold = 0.2 under [lift] in {users}"
    raise BadInputError("[lift] hold", what, f"{hint}; nothing was recorded")


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
    free = [entry for name, entry in book.entries.items() if name not in book.pinned and name not in exported]
    if list(words) == [lift.PLAYBOOK]:
        if not free:
            what = "has only entries that are pinned or exported, and those are never withheld"
            raise BadInputError("the playbook", what, "unpin some")
        return lift.PLAYBOOK, ()
    if list(words) == [lift.NEW]:
        # As one group, because one comparison takes the fewest sessions.
        names = tuple(entry.name for entry in free if not (entry.helpful or entry.harmful))
        if not names:
            raise BadInputError("new", "no entry is without ratings", "give playbook, or the names of entries")
        return lift.NEW, names
    return lift.NAMES, tuple(dict.fromkeys(_entry(word, book, exported) for word in words))


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


def stop(project: Project, by: Mapping[str, str]) -> tuple[lift.Lift, lift.Question]:
    """Close the open question, and return it after the questions of the ledger.

    Raises:
        PersonsOnlyError: An agent closes it.
        NothingToDoError: None is open.
    """
    require_person("lift stop", by.get("rater"))
    state = load_state(project)
    if not state.open:
        raise NothingToDoError("lift stop", "no question is open", "`tallybook lift` shows what was asked")
    id_ = state.open
    commands.record_request(project, Request(PlainEvents((events.LiftStopped(id_),)), by))
    state = load_state(project)
    draws.save_question(project)
    return state, state.questions[id_]


# Draws, drawn again: with the secret, anyone who doubts a draw can repeat it


class Redrawn(NamedTuple):
    """The draws of a ledger, drawn again.

    Attributes:
        again: How many injections were drawn again.
        unknown: How many were not, because their secret is not here.
        different: Those that came out otherwise, a line each.
    """

    again: int = 0
    unknown: int = 0
    different: tuple[str, ...] = ()


def draw_again(project: Project) -> Redrawn:
    """Draw again for each recorded draw whose secret this user has."""
    log = reading.open_own_log(project)
    known = draws.read_secrets(project)
    again, unknown, different = 0, 0, []
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
        drawn = {
            unit: draws.is_held(secret, event.question, event.lineage, unit, event.probability) for unit in event.units
        }
        odd = [unit for unit, is_held in drawn.items() if lift.is_unit_held(event, unit) != is_held]
        if odd:
            different.append(f"event {record.seq}: {', '.join(odd)} came out otherwise when drawn again")
    return Redrawn(again, unknown, tuple(different))


# Verdicts in plain words and as JSON

NOT_KNOWN: Final = "not known yet"
ARMS: Final = ("told", "held")
_GROUPS: Final = {lift.PLAYBOOK: "the playbook", lift.NEW: "new entries"}
CHANGED: Final = f"{NOT_KNOWN}: the configuration of the scores is not the one with which it was asked; ask again"


def describe(question: lift.Question) -> str:
    """Return what a question asks."""
    event = question.event
    if event.question == lift.PLAYBOOK:
        return "does the playbook help?"
    if event.question == lift.NEW:
        return f"do the new entries help ({', '.join(event.names)})?"
    return "which of these entries help?" if len(event.names) > 1 else f"does {event.names[0]} help?"


def verdicts_of(state: lift.Lift, question: lift.Question) -> dict[str, Verdict] | None:
    """Return the verdict on each unit; None where the scores are not computed as when it was asked."""
    # Another outcome is another question: scores of two configurations are no series.
    if question.event.scoring != scoring_of(question.event.outcome, state.config):
        return None
    return question.verdicts(lift.now_of(state))


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


def question_lines(state: lift.Lift, question: lift.Question) -> Iterator[str]:
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
        name = f"{unit}: " if question.event.question == lift.NAMES else ""
        yield f"  {name}{say_verdict(verdict)}"
        yield from (f"    {line}" for line in _figures(verdict))
        work = {} if verdict.estimate is None else question.work(unit, lift.now_of(state))
        if len(work) == len(ARMS):
            # An entry can make calls succeed that nobody needs.
            arms = [", ".join(f"{name} {value:g}" for name, value in work[arm].items()) for arm in ARMS]
            yield f"    a session on average: {arms[0]} with it; {arms[1]} without it"


def judge_entry(state: lift.Lift, name: str) -> tuple[lift.Question, str, Verdict | None] | None:
    """Return the last question that is about an entry, the unit that it belongs to, and the verdict on that.

    Returns:
        None where nothing was asked about it; no verdict where the scores are not computed as when it was asked.
    """
    # A verdict on the whole playbook says nothing of one of its entries.
    for question in reversed(state.questions.values()):
        if question.event.question != lift.PLAYBOOK and name in question.event.names:
            unit = name if question.event.question == lift.NAMES else lift.NEW
            verdicts = verdicts_of(state, question)
            return question, unit, verdicts[unit] if verdicts else None
    return None


def entry_line(state: lift.Lift, name: str) -> str:
    """Return what is known of an entry in one line; empty where nothing was asked about it."""
    about = judge_entry(state, name)
    if about is None:
        return ""
    question, unit, verdict = about
    group = "" if unit == name else " as one of the new entries"
    return f"{say_verdict(verdict)}{group} (question {question.number})"


def summary_lines(state: lift.Lift) -> list[str]:
    """Return each question with its verdicts, a line for each unit, for places with little room."""
    lines = []
    for question in state.questions.values():
        verdicts = verdicts_of(state, question)
        for unit in question.units:
            about = unit if question.event.question == lift.NAMES else _GROUPS[unit]
            closed = "" if question.stopped is None else ", closed"
            words = say_verdict(verdicts[unit] if verdicts else None)
            lines.append(f"{about}: {words} (question {question.number}{closed})")
    return lines


def hurting_names(state: lift.Lift) -> frozenset[str]:
    """Return the entries of which their last question says that they hurt."""
    asked = {name for question in state.questions.values() for name in question.event.names}
    judged = {name: judge_entry(state, name) for name in asked}
    verdicts = {name: about[2] for name, about in judged.items() if about is not None}
    return frozenset(name for name, verdict in verdicts.items() if verdict is not None and verdict.word == "hurts")


def question_json(state: lift.Lift, question: lift.Question) -> dict[str, Any]:
    """Return a question with its verdicts."""
    event, now = question.event, lift.now_of(state)
    verdicts = verdicts_of(state, question)
    rows = [
        {"unit": unit, **verdict._asdict(), "evidence": verdict.evidence._asdict(), "work": question.work(unit, now)}
        for unit, verdict in (verdicts or {}).items()
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
        "verdicts": None if verdicts is None else rows,
    }
