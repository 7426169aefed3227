"""The verb `playbook`: what a session is given, by a task or at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tallybook.ledger.errors import BadInputError
from tallybook.projections.event_rows import CAUSES
from tallybook.projections.surfaces.agents.inside import find_agent
from tallybook.projections.surfaces.console.options import Verb, read_text
from tallybook.projections.surfaces.console.output import answer, note, say
from tallybook.projections.surfaces.selection import answers

if TYPE_CHECKING:
    from tallybook.projections.surfaces.workspace.project import Project


@click.command(cls=Verb, example='tallybook playbook --for "fix the failing tests" --explain')
@click.option("--for", "task", metavar="TEXT", help="Rank the entries by this task; - reads it.")
@click.option("--explain", is_flag=True, help="Show the parts of each score.")
@click.option("--session", metavar="ID", help="Show what this session is given.")
def playbook(project: Project, /, *, task: str | None, explain: bool, session: str | None, as_json: bool) -> None:
    """Show what a session is given, for a task or at its start.

    The score of an entry is the relevance of the task's words plus the proof of its ratings. Inside an agent the
    answer is recorded as an injection.
    """
    if task is None and explain:
        raise BadInputError("--explain", "needs a task", "give --for TEXT")
    task = None if task is None else read_text(task, "the task")
    found = answers.answer_task(project, task, session)
    if as_json:
        sizes = {"chars": len(found.text), "budget_chars": found.budget_chars}
        answer({"entries": answers.rows(found), "left_out": dict(found.left_out), **sizes})
        return
    if explain:
        for entry in found.entries:
            say(f"{entry['name']}  {answers.explain(entry, found.scores[entry['name']])}", f"    {entry['text']}")
    elif found.text:
        say(*found.text.split("\n"))
    if found.left_out and (explain or not found.text):
        causes = [f"{number} {CAUSES.get(cause, cause)}" for cause, number in found.left_out.items()]
        note(f"left out: {', '.join(causes)}")
    elif not found.text:
        note("nothing is given" + ("" if found.budget_chars else ": budget_chars is 0"))
    if find_agent() is None:
        from tallybook.projections.surfaces.scores import work

        note(*filter(None, [work.line(project)]))
