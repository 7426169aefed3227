"""The verb `lift`: does the playbook help? Asked, answered and closed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import click

from tallybook.ledger.errors import BadInputError, NothingToDoError
from tallybook.ledger.names import find_name
from tallybook.projections.lift import CLEAN, Lift, Question
from tallybook.projections.surfaces.console.output import reply, say
from tallybook.projections.surfaces.console.parameters import Verb, at_when, find_moment, provenance_of
from tallybook.projections.surfaces.selection import lift_questions
from tallybook.projections.surfaces.selection.lift_questions import Asked
from tallybook.projections.surfaces.workspace.project import Project

_ASK: Final = "`tallybook lift ask playbook` asks whether the playbook helps"


@click.command(cls=Verb, rater="human", example="tallybook lift ask playbook")
@click.argument("words", metavar="[ask playbook|new|NAME... | stop | NAME]", nargs=-1)
@click.option("--outcome", metavar="OUTCOME", default=CLEAN, help="Compare by clean, or by a score; for ask.")
@at_when
def lift(project: Project, /, *, words: Sequence[str], outcome: str, when: str | None, **options: Any) -> None:
    """Show whether the playbook helps, or ask that.

    `ask` begins a question: from some of the sessions that begin later, what it is about is withheld, and their shares
    of tool calls that did not fail are compared, or another score. `stop` closes it. Without a word, every question is
    shown; with a NAME, what is known of that entry.

    --json answers [{number, question, names, outcome, share, asked, stopped, drawn, verdicts}]; ask: one of them, with
    hold, withheld and plan
    """
    as_json = options.pop("as_json")
    verb = words[0] if words else ""
    if verb in {"ask", "stop"} and when is not None:
        raise BadInputError("--at", f"does not go with {verb}", "leave it out; nothing was recorded")
    if verb == "ask":
        asked = lift_questions.ask(project, words[1:], outcome, provenance_of(options))
        details = {"hold": asked.hold, "withheld": [entry.name for entry in asked.withheld], "plan": asked.plan}
        value = lift_questions.question_json(asked.state, asked.question) | details
        reply(value, _asked_lines(asked), as_json=as_json)
        return
    if len(words) > 1:
        raise BadInputError(" ".join(words), "is too much at once", "give one NAME, or `lift ask NAME...`")
    if verb == "stop":
        state, question = lift_questions.stop(project, provenance_of(options))
        _print(state, [question], as_json=as_json)
        return
    state = lift_questions.load_state(project, find_moment(project, when))
    if verb:
        _print_entry(state, verb, as_json=as_json)
        return
    if not state.questions and not as_json:
        say(f"Nothing was asked; {_ASK}.")
    _print(state, list(state.questions.values()), as_json=as_json)


def _print(state: Lift, shown: Sequence[Question], *, as_json: bool) -> None:
    lines = (line for question in shown for line in lift_questions.question_lines(state, question))
    reply([lift_questions.question_json(state, question) for question in shown], lines, as_json=as_json)


def _print_entry(state: Lift, word: str, *, as_json: bool) -> None:
    """Print what is known of an entry."""
    asked = {name: None for question in state.questions.values() for name in question.event.names}
    name = find_name(word, asked)
    about = None if name is None else lift_questions.judge_entry(state, name)
    if about is None:
        raise NothingToDoError(word, lift_questions.ASKED, f"`tallybook lift ask {word}` asks whether it helps")
    lines = [f"{name}: {lift_questions.entry_line(state, str(name))}"]
    reply([lift_questions.question_json(state, about[0])], lines, as_json=as_json)


def _asked_lines(asked: Asked) -> Iterator[str]:
    """Yield a new question as lines for people: what is withheld, and what to pin first."""
    question = asked.question
    yield f"Question {question.number} is open: {lift_questions.describe(question)} By {question.event.outcome}."
    each = "each of these entries is withheld by a draw of its own" if question.event.question == "names" else ""
    yield f"From {asked.hold:.0%} of the sessions that begin from now on, {each or 'these entries are withheld'}:"
    yield from (f"  {entry.name}  {' '.join(entry.text.split())}" for entry in asked.withheld)
    # Some of the next sessions lack these entries, and a rule among them may guard against damage.
    yield "Pin each rule that guards against damage before the next session; a pinned entry is never withheld:"
    yield f"  tallybook pin {asked.withheld[0].name}"
    yield from filter(None, [asked.plan])
    yield "`tallybook lift` shows what is known, and `tallybook lift stop` closes the question."
