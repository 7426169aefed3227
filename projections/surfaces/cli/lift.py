"""The verb `lift`: asks whether the playbook helps, shows what is known, and closes a question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from tallybook.ledger import events
from tallybook.ledger.errors import BadInputError, NothingToDoError, UnknownEntryError
from tallybook.ledger.names import find_name
from tallybook.projections.scores import lift as view
from tallybook.projections.scores.lift import Lift
from tallybook.projections.surfaces.agents.table import require_person
from tallybook.projections.surfaces.cli.parameters import Verb, at_when, find_moment, provenance_of
from tallybook.projections.surfaces.console.output import reply
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.scores import lift as questions
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.project import Project


@click.command(cls=Verb, rater="human", example="tallybook lift ask playbook")
@click.argument("words", metavar="[ask playbook|new|NAME... | stop | NAME]", nargs=-1)
@click.option("--outcome", metavar="OUTCOME", default="clean", help="With ask: compare by clean calls, or by a score.")
@at_when
def lift(project: Project, /, *, words: Sequence[str], outcome: str, when: str | None, **options: Any) -> None:
    """Measure whether the playbook and its entries help.

    `ask` begins a question: some later sessions go without the entries in question, and their scores are compared with
    those of the others. The score is the share of tool calls that did not fail, or --outcome. `stop` closes the
    question. Without arguments, every question is shown; with a NAME, the results for that entry.

    --json answers [{number, question, names, outcome, share, asked, stopped, drawn, verdicts}]; ask: one such object,
    with hold, withheld and plan
    """
    as_json = options.pop("as_json")
    verb = words[0] if words else ""
    by = provenance_of(options)
    if verb in {"ask", "stop"}:
        if when is not None:
            raise BadInputError("--at", f"does not go with {verb}", "leave it out; nothing was recorded")
        # What a question withholds is withheld from a person's sessions, and an agent once could ask and stop it.
        require_person(f"lift {verb}", by.get("rater"))
    if verb == "ask":
        _print_asked(project, *questions.ask(project, words[1:], outcome, by), as_json=as_json)
        return
    if len(words) > 1:
        raise BadInputError(" ".join(words), "is too much at once", "give one NAME, or `lift ask NAME...`")
    moment = find_moment(project, when)
    shown = [questions.stop(project, by)] if verb == "stop" else questions.load_questions(project, moment)
    lines: Iterable[str] = (line for question in shown for line in questions.question_lines(question))
    if verb not in {"", "stop"}:
        # What is known of an entry
        name = find_name(verb, {name: None for question in shown for name in question["names"]})
        about = None if name is None else questions.judge_entry(shown, name)
        if about is None:
            if find_name(verb, reading.current(reading.open_log(project)).used) is None:
                raise UnknownEntryError(verb)
            raise NothingToDoError(verb, "nothing was asked", f"`tallybook lift ask {verb}` asks whether it helps")
        shown, lines = [about[0]], [f"{name}: {questions.say_judged(*about)}"]
    if not shown:
        lines = ["Nothing was asked; `tallybook lift ask playbook` asks whether the playbook helps."]
    reply(shown, lines, as_json=as_json)


def _print_asked(project: Project, state: Lift, withheld: Sequence[events.Entry], *, as_json: bool) -> None:
    """Print a new question: what is withheld, and what to pin first."""
    question, hold = state.questions[state.open], settings.read(project).hold
    document, plan = questions.question_json(state, question), questions.plan(state, question, hold)
    each = "each of these entries is withheld by a draw of its own" if question.event.question == view.NAMES else ""
    lines = [
        f"Question {question.number} is open: {questions.describe(document)} By {question.event.outcome}.",
        f"From {hold:.0%} of the sessions that begin from now on, {each or 'these entries are withheld'}:",
        *(f"  {entry.name}  {' '.join(entry.text.split())}" for entry in withheld),
        # Some of the next sessions lack these entries, and a rule among them may guard against damage.
        "Pin each rule that guards against damage before the next session; a pinned entry is never withheld:",
        f"  tallybook pin {withheld[0].name}",
        *filter(None, [plan]),
        "`tallybook lift` shows what is known, and `tallybook lift stop` closes the question.",
    ]
    details = {"hold": hold, "withheld": [entry.name for entry in withheld], "plan": plan}
    reply(document | details, lines, as_json=as_json)
