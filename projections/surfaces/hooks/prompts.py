"""Injecting by task: each prompt of a session is given the entries that fit it. Standard library only."""

from __future__ import annotations

from contextlib import suppress
import os

from tallybook.ledger.errors import TallybookError
from tallybook.ledger.fast_stdlib import NamedTuple, dumps, loads
from tallybook.ledger.storage import disk
from tallybook.projections.playbook import inject, ranking
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.hooks import draws, injection, ledger_access, own_playbook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tallybook.projections.surfaces.agents.agent import Agent, Payload
    from tallybook.projections.surfaces.hooks.injection import Selection
    from tallybook.projections.surfaces.workspace.project import ProjectPaths
    from tallybook.projections.surfaces.workspace.settings import Settings

MORE = f"More key points of this project's playbook, for this prompt:\n\n{inject.PLACEHOLDER}"
"""The text around what a later prompt is given: the session has the template's explanations."""


class Part(NamedTuple):
    """What a session has of the playbook, since its start or its last compaction; its marker holds it.

    Attributes:
        number: How many injections the session had, those before the compaction included.
        chars: How many characters they took, and those that a draw withheld.
        names: The entries that were selected, those that a draw withheld included.
        delivery: The last prompt that was answered, by its id, or by a digest of its text where it has none.
    """

    number: int = 0
    chars: int = 0
    names: tuple[str, ...] = ()
    delivery: str = ""


def inject_part(project: ProjectPaths, payload: Payload, agent: Agent, marker: str, chosen: Settings) -> str:
    """Return what fits a prompt and the session was not given yet; after a compaction, what it was given before.

    An agent that reports no end of a compaction begins anew at the next prompt.
    """
    if payload.event == injection.PROMPT:
        with ledger_access.lock_deliveries(project):
            return _answer_prompt(project, payload, agent, marker, chosen)
    return _repeat(project, payload, agent, marker, chosen) if payload.source == "compact" else ""


def select_for(  # noqa: PLR0913 - the candidates are of two playbooks
    entries: Sequence[Mapping[str, Any]],
    task: str,
    agent: Agent,
    budget_chars: int,
    part: Part | None = None,
    *,
    template: str,
    own: tuple[str, ...] = (),
) -> Selection:
    """Return the entries that fit a task, within the share of the budget that one prompt may use.

    Those that ``own`` names are the person's own.
    """
    part = part or Part()
    is_first = not part.names
    template = template if is_first else MORE
    candidates = injection.theirs(entries, own)

    def choose(room: int) -> Selection:
        space = room - inject.headings_size(entries)
        best = ranking.select(entries, task, space, part.names, is_first=is_first, own=own)
        chosen = [entries[score.place] for score in best.scores]
        names = tuple(entry["name"] for entry in chosen)
        choice = inject.Choice(names, best.lines, len(entries) - len(names), inject.sections_of(chosen))
        return injection.Selection(
            template, candidates, choice, best.left_out, best.lowest, own, best.own_left_out, best.own_lowest
        )

    room = int((budget_chars - part.chars) * ranking.PROMPT_SHARE) - len(template) - injection.heading_chars(own)
    return injection.fit(agent, room, choose)


def _answer_prompt(project: ProjectPaths, payload: Payload, agent: Agent, marker: str, chosen: Settings) -> str:
    """Return the answer to a prompt; call it under the lock of deliveries, because several hooks may get the prompt."""
    part = _read(marker)
    if payload.source == "compact":
        part = part._replace(chars=0, names=(), delivery="")
    delivery = payload.prompt or injection.digest(payload.text)
    if part.delivery == delivery or chosen.budget_chars <= part.chars:
        return ""
    entries, own = own_playbook.read_both(project, payload)
    template = injection.load_template(chosen, attended=not agent.is_unattended(payload))
    selection = select_for(entries, payload.text, agent, chosen.budget_chars, part, template=template, own=own)
    if not selection.choice.names:
        return ""
    # The selection comes first: the place of an entry that is withheld stays empty.
    drawn = draws.draw(project, payload.session, selection.names, len(selection.candidates), chosen.hold)
    text = selection.text_without(drawn.held)
    try:
        is_new = injection.append(project, payload, selection, drawn, _key(payload, part.number + 1))
    except TallybookError as error:
        # Nothing records what this prompt was given, so it is given nothing.
        ledger_access.save_error(project, error)
        return ""
    # The ledger knows of more injections than the marker: which entries the session has is no longer known.
    chars = part.chars + len(selection.text) if is_new else chosen.budget_chars
    _write(marker, Part(part.number + 1, chars, (*part.names, *selection.choice.names), delivery))
    return agent.answer(payload.name, text) if is_new and text else ""


def _repeat(project: ProjectPaths, payload: Payload, agent: Agent, marker: str, chosen: Settings) -> str:
    """Return what the session was given before a compaction, as far as it still is in the playbook and fits."""
    part = _read(marker)
    both, own = own_playbook.read_both(project, payload)
    entries = [entry for entry in both if entry["name"] in part.names]
    given_own = tuple(name for name in own if name in part.names)
    template = injection.load_template(chosen, attended=not agent.is_unattended(payload))
    selection = injection.select_best(entries, template, agent, chosen.budget_chars, given_own)
    if not selection.choice.names:
        _write(marker, part._replace(chars=0, names=(), delivery=""))
        return ""
    drawn = draws.draw(project, payload.session, selection.names, len(both) - len(own), chosen.hold)
    text = selection.text_without(drawn.held)
    try:
        is_new = injection.append_compaction(project, payload, selection, drawn)
    except TallybookError as error:
        ledger_access.save_error(project, error)
        is_new = True
    if is_new:
        _write(marker, part._replace(chars=len(selection.text), names=selection.choice.names, delivery=""))
    return agent.answer(payload.name, text) if is_new and text else ""


def _key(payload: Payload, number: int) -> str:
    """Return the idempotency key of an injection, by its number in the session."""
    agent = "" if payload.agent == table.CLAUDE else f"{payload.agent}:"
    return f"injected:prompt:{agent}{injection.conversation(payload)}:{number}"


def _read(marker: str) -> Part:
    """Return what a marker holds; nothing where there is none, or it is not readable."""
    with suppress(OSError, ValueError, TypeError, TallybookError):
        number, chars, names, delivery = loads(disk.read_file(marker).decode("utf-8", "surrogatepass"))
        return Part(int(number), int(chars), tuple(names), str(delivery))
    return Part()


def _write(marker: str, part: Part) -> None:
    with suppress(OSError, TallybookError):
        data = dumps([part.number, part.chars, list(part.names), part.delivery]).encode("utf-8", "surrogatepass")
        disk.make_folder(os.path.dirname(marker), durable=False)
        disk.replace_cache_file(marker, data)
