"""What a session is given by other ways than hooks, under its draw: the answer to a task, and what MCP gives out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import attrs

from tallybook.ledger import clock
from tallybook.ledger.errors import TallybookError
from tallybook.projections.playbook import inject
from tallybook.projections.playbook.inject import TaskFit
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.agents.table import Payload, find_agent
from tallybook.projections.surfaces.hooks import citations, draws, injection, ledger_access
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.project import Project, find_paths


@attrs.frozen
class SelectionAnswer:
    """What a session is given.

    Attributes:
        text: The text as the model reads it; empty where nothing is given.
        entries: The entries that it has, in its order.
        scores: Name → the score; empty without a task.
        left_out: Cause → how many entries were left out.
        budget_chars: How many characters a session is given at most.
    """

    text: str
    entries: tuple[Mapping[str, Any], ...]
    scores: Mapping[str, TaskFit]
    left_out: Mapping[str, int]
    budget_chars: int


def answer_task(project: Project, task: str | None, session: str | None = None) -> SelectionAnswer:
    """Return what a session is given for its first prompt, or without a task at its start.

    A session is given no entry that a question of lift withholds from it. What an agent asks for is recorded as an
    injection, in the session if the agent says which it is; what a person asks for is not recorded.
    """
    chosen, running = settings.read(project), find_agent()
    # An agent is not given what is withheld from it under the name of another session.
    session = (running.session if running else "") or session or ""
    # The limits of Claude Code hold where it is not known who reads the answer.
    agent = table.load(running.agent if running and table.load(running.agent).max_size else table.CLAUDE)
    paths = find_paths(None, str(project.root))
    by_hook = Payload(injection.PROMPT, session, agent=running.agent if running else table.CLAUDE)
    mine, theirs = injection.select_offered(paths, ledger_access.entries_of(commands.show(project)), by_hook)
    entries = [*mine, *theirs]
    template = injection.load_template(chosen, attended=not (running and agent.is_unattended(Payload("", session))))
    if not chosen.budget_chars:
        selection = inject.Selection()
    elif task is None:
        selection = injection.select_best(entries, template, agent, chosen.budget_chars)
    else:
        selection = injection.select_for(entries, task, agent, chosen.budget_chars, template=template)
    # The selection comes first: an entry that filled the place of a withheld one would be measured by lift as well.
    drawn = draws.draw(project, session, inject.names_of(selection.chosen), len(theirs), chosen.hold)
    if running and selection.chosen:
        # An answer does not wait for the ledger, nor for a sandbox that lets the agent write nothing.
        with suppress(TallybookError, OSError):
            injection.append(paths, by_hook, selection, drawn, f"playbook:{clock.new_id(clock.utc_now().unix_us)}")
    given = tuple(entry for entry in selection.chosen if entry["name"] not in drawn.held)
    scores = {} if task is None else {entries[score.place]["name"]: score for score in inject.rank(entries, task)}
    # Of both playbooks.
    left_out = sum(map(Counter, selection.left_out.values()), Counter[str]())
    return SelectionAnswer(selection.text_without(drawn.held), given, scores, left_out, chosen.budget_chars)


def explain(entry: Mapping[str, Any], score: TaskFit) -> str:
    """Return a score as the sum that it is."""
    # A score adds its parts, because a person can check a sum in one line.
    words = [f"{word} {points:.2f}" for word, points in score.words.items()]
    counts = f"ratings {score.proof:.2f} ({entry['helpful']} helpful, {entry['harmful']} harmful)"
    return f"{score.total:.2f} = {' + '.join([*words, counts])}"


def rows(answer: SelectionAnswer) -> Sequence[Mapping[str, Any]]:
    """Return the entries for JSON, each with the parts of its score where there was a task."""
    result = []
    for entry in answer.entries:
        row = {field: entry[field] for field in ("name", "text", "helpful", "harmful")}
        if (score := answer.scores.get(entry["name"])) is not None:
            words = {word: round(points, 4) for word, points in score.words.items()}
            row |= {"score": round(score.total, 4), "words": words, "proof": round(score.proof, 4)}
        result.append(row)
    return result


# What MCP gives out, under the session's draw


def withheld(project: Project, session: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return which entries of a playbook a session is not given."""
    return draws.draw(project, session, names, len(names), settings.read(project).hold).held


def record_given(project: Project, session: str, selected: Sequence[str], candidates: Sequence[str]) -> tuple[str, ...]:
    """Record that a session was given what was selected, and return what its draw withholds of it.

    Nothing is recorded where no question is open and the session was given all of it before. A session whose lineage no
    hook began is given all, without a draw, and does not count.
    """
    # A citation counts only for what a session was given, so that what this gives is recorded where it is new.
    if draws.read_question(project) is None and citations.find_given(project, session, selected).issuperset(selected):
        return ()
    drawn = draws.draw(project, session, selected, len(candidates), settings.read(project).hold)
    # A place stays empty: refilled, an entry without effect seemed to hurt in 80 of 80 simulated histories.
    left_out = {False: {"room": len(candidates) - len(selected)}}
    rows = [[{"name": name} for name in names] for names in (selected, candidates)]
    selection = inject.Selection(chosen=rows[0], candidates=rows[1], left_out=left_out)
    # An answer does not wait for the ledger.
    with suppress(TallybookError):
        key = f"given:{clock.new_id(clock.utc_now().unix_us)}"
        ledger_access.append(project, [injection.draft_event(selection, drawn)], Payload("", session).by, key)
    return drawn.held
