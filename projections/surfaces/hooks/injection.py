"""Injection: a session gets the playbook once, and again after a compaction, or entries that fit with each prompt.

The person's own playbook is given with the project's, and recorded in its own ledger under the same key, after the
project's and only if that was new: a hook that ends in between loses a record and adds no false one. Standard library
only.
"""

from __future__ import annotations

from contextlib import suppress
import os

from tallybook.ledger import clock
from tallybook.ledger.errors import BadInputError, TallybookError
from tallybook.ledger.fast_stdlib import NamedTuple, dumps, import_lazily, loads
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.hooks import ledger_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from tallybook.ledger.line import Draft
    from tallybook.projections.playbook import inject
    from tallybook.projections.playbook.inject import Draw, Selection
    from tallybook.projections.surfaces.agents.table import Agent, Payload
    from tallybook.projections.surfaces.hooks import blocks, citations, draws
    from tallybook.projections.surfaces.workspace import personal, settings
    from tallybook.projections.surfaces.workspace.project import ProjectPaths
    from tallybook.projections.surfaces.workspace.settings import Settings
else:
    # Most hooks end before they need these.
    [inject] = import_lazily("tallybook.projections.playbook.inject")
    _HERE, _THERE = "tallybook.projections.surfaces.hooks.", "tallybook.projections.surfaces.workspace."
    [blocks, citations, draws] = import_lazily(*(_HERE + name for name in ("blocks", "citations", "draws")))
    [personal, settings] = import_lazily(*(_THERE + name for name in ("personal", "settings")))

SUBAGENT_START = "SubagentStart"
PROMPT = "UserPromptSubmit"
_TOLD = "told-"
_COMPACTED = "-compacted"
"""How a session's marker ends from the beginning of a compaction to the next prompt."""
MARKS_OFF = "off"
MARKS_BUDGET_CHARS = 2_000
"""Of a smaller budget the request for marks would take too much."""
RESUMED = "resumed"
"""Marker that holds the id of the session that was resumed last and has had no prompt since."""
_MORE = "More key points of this project's playbook, for this prompt:\n\n"
"""Before what a later prompt is given: the session has the template's explanations."""
# Two automatic compactions in one turn have the prompt's id in common; two hooks of the same one fire together.
_COMPACTION_US = 10 * clock.MICROSECONDS


class _Event(NamedTuple):
    """An event at which a session may be given something.

    Attributes:
        project: The project.
        payload: The event.
        agent: The agent that takes the answer.
        chosen: The settings.
        marker: The file that says what the conversation has.
        template: The text around the entries.
    """

    project: ProjectPaths
    payload: Payload
    agent: Agent
    chosen: Settings
    marker: str
    template: str


def inject_playbook(project: ProjectPaths, payload: Payload) -> str:
    """Return the playbook as context for the model: once in a session, and again after a compaction.

    If the settings say so, each prompt is given the part that fits it and was not given yet, and after a compaction the
    session what it was given before; an agent that reports no end of a compaction begins anew at the next prompt.
    Nothing is injected, and nothing recorded, where the caller is not known to take an answer at this event.
    """
    agent = table.AGENTS.get(payload.agent)
    is_inside = payload.subagent and payload.event != SUBAGENT_START
    if agent is None and payload.session:
        _save_caller(project, payload)
    # An agent that ignores the answer would leave an injection in the ledger that no model saw.
    if not payload.session or is_inside or agent is None or payload.event not in agent.injects_at:
        return ""
    marker = ledger_access.marker_file(project, _TOLD, conversation(payload))
    # Copilot reports only that a compaction begins, so the next prompt counts as the first one after it.
    if not agent.reports_compacted and _take_compacted(marker):
        payload = payload._replace(source="compact")
    has_playbook = _has_playbook(project, payload, agent, marker)
    # A session that is given the playbook in parts has a marker that says which, and can get more with each prompt.
    is_divided = ledger_access.read_marker(marker) != ""
    if has_playbook and not (payload.event == PROMPT and is_divided):
        return ""
    chosen = settings.read(project)
    _begin_lineage(project, payload, agent, chosen.hold)
    template = load_template(chosen, attended=not table.is_unattended(payload))
    event = _Event(project, payload, agent, chosen, marker, template)
    # A subagent starts without a prompt by which its entries could be ranked.
    if chosen.by_task and payload.event != SUBAGENT_START:
        if payload.event == PROMPT:
            with ledger_access.lock_deliveries(project):
                return _answer_prompt(event)
        return _repeat(event) if payload.source == "compact" else ""
    # A session that began with parts has some of them, even if the settings no longer say so.
    selection = inject.Selection()
    if chosen.budget_chars and not is_divided and (chosen.subagents or not payload.subagent):
        entries = select_offered(project, ledger_access.read_entries(project), payload)
        selection = select(entries, None, agent, chosen.budget_chars, template)
    if not selection.chosen:
        return ""
    is_new, answer = _give(event, selection, "" if payload.source == "compact" else injection_key(payload))
    # Later hooks of the session need not ask the ledger, or could not.
    mark_injected(project, payload)
    # Where nothing records that this session has the playbook, only its start may give it, and not every prompt.
    return answer if is_new or (is_new is None and payload.event in {"SessionStart", SUBAGENT_START}) else ""


def _give(event: _Event, selection: Selection, key: str = "", *, entries: int = 0) -> tuple[bool | None, str]:
    """Record what a session is given of a selection, and return whether that is new, and the answer that gives it.

    Args:
        event: The event at which it is given.
        selection: What was selected.
        key: The idempotency key; empty after a compaction, which has no id.
        entries: How many entries the playbook has; 0 for those that were selected from.

    Returns:
        Whether it is new, None where nothing could be recorded; and the answer, empty where the draw withholds all.
    """
    project, payload = event.project, event.payload
    drawn = inject.Draw()
    # Withholding is off by default. The selection comes first: the place of an entry that is withheld stays empty.
    if hold := event.chosen.hold:
        entries = entries or len(inject.names_of(selection.candidates))
        drawn = draws.draw(project, payload.session, inject.names_of(selection.chosen), entries, hold)
    text = selection.text_without(drawn.held)
    answer = event.agent.answer(payload.name, text) if text else ""
    try:
        if key:
            return append(project, payload, selection, drawn, key), answer
        return _append_compaction(project, payload, selection, drawn), answer
    except TallybookError as error:
        ledger_access.save_error(project, error)
        # What no ledger can hold, as a session's id of any length, is recorded by no later hook either.
        return None, "" if isinstance(error, BadInputError) else answer


def _save_caller(project: ProjectPaths, payload: Payload) -> None:
    """Save for ``doctor`` that a caller was not recognised, and the variables of agents that it has."""
    variables = [name for row in table.AGENTS.values() for name in row.variables if os.environ.get(name)]
    what = f"was not recognised, with {' and '.join(variables) or 'no variable of an agent'}, and was given nothing"
    hint = "`tallybook show` and `tallybook mcp` give it the playbook"
    ledger_access.save_error(project, BadInputError(f"the caller of {payload.name}", what, hint))


def record_block(project: ProjectPaths, payload: Payload) -> str:
    """Record the entries that a block in a file gives a session that starts; there is no answer.

    So they can be cited and rated. Text that is not an entry's present one says nothing.
    """
    block = blocks.find_read(project, payload) if payload.session else None
    if block is not None and (read := [entry for entry in ledger_access.read_entries(project) if block.has(entry)]):
        key = f"offered:{payload.session}:{ledger_access.digest(dumps([*inject.names_of(read)]))}"
        drafts = [draft_event(inject.Selection(read, candidates=read), inject.Draw(), block.name)]
        ledger_access.append(project, drafts, payload.by, key)
    return ""


def expect_compaction(project: ProjectPaths, payload: Payload) -> str:
    """Note that a compaction begins, for an agent that does not report its end; there is no answer."""
    if payload.session and payload.agent and not table.AGENTS[payload.agent].reports_compacted:
        marker = ledger_access.marker_file(project, _TOLD, conversation(payload))
        with suppress(OSError):
            # Renamed and not removed: it says which parts of the playbook the session had.
            os.replace(marker, marker + _COMPACTED)
    return ""


def injection_key(payload: Payload, number: int = 0) -> str:
    """Return the idempotency key of a first injection, or of one at a prompt, by its number in the session.

    For other agents than Claude Code it names the agent, so that an injection that an earlier version recorded for
    another agent, which could not take it, can be told apart.
    """
    agent = "" if payload.agent == table.CLAUDE else f"{payload.agent}:"
    at_prompt, suffix = ("prompt:", f":{number}") if number else ("", "")
    return f"injected:{at_prompt}{agent}{conversation(payload)}{suffix}"


def conversation(payload: Payload) -> str:
    """Return the id of what has a memory of its own: the session, or a subagent in it."""
    return f"{payload.session}:{payload.subagent}" if payload.subagent else payload.session


def load_template(chosen: Settings, *, attended: bool = True) -> str:
    """Return the template around the entries; without any file, only the entries.

    It asks for marks only where a person watches the session, unless the settings say otherwise.
    """
    template = inject.PLACEHOLDER
    with suppress(OSError):
        template = personal.load_template() or template
        # A program, whose sessions nobody watches, gets answers without marks.
        has_room = chosen.budget_chars >= MARKS_BUDGET_CHARS
        if has_room and chosen.marks != MARKS_OFF and (attended or chosen.marks_unattended):
            lines = personal.load_template(personal.MARKS).splitlines()
            # An agent is not asked for lessons that the settings switch off.
            request = " ".join(line for line in lines if chosen.learned != MARKS_OFF or "kpt_new" not in line)
            template = f"{template.rstrip()}\n\n{request}\n"
    return template


def select(  # noqa: PLR0913 - what there is, a task, and what limits the answer
    entries: Sequence[Mapping[str, Any]],
    task: str | None,
    agent: Agent,
    budget_chars: int,
    template: str,
    *,
    part: HeldPart | None = None,
) -> Selection:
    """Return the entries that fit a task, or without one the best, in the largest room whose text an agent passes on.

    Args:
        entries: The entries.
        task: What is to be done: it may use a share of the budget; None for a session that is given all at once.
        agent: The agent.
        budget_chars: How many characters the session may be given.
        template: The text around the entries that the session is given first.
        part: What the session was given before.
    """
    part = part or HeldPart()
    room, is_first = budget_chars, not part.names
    if task is not None:
        # A prompt leaves room for what later prompts need.
        room = int((budget_chars - part.chars) * inject.PROMPT_SHARE)
        template = template if is_first else _MORE + inject.PLACEHOLDER
    room -= len(template)
    while room > 0:
        if task is None:
            selection = inject.choose(entries, room)
        else:
            selection = inject.select(entries, task, room, part.names, is_first=is_first)
        selection = selection._replace(template=template)
        size = agent.size(selection.text_without())
        if size <= agent.max_size:
            return selection
        # The agent counts otherwise than in characters.
        room = min(room - 1, room * agent.max_size // size)
    return inject.Selection()


def _begin_lineage(project: ProjectPaths, payload: Payload, agent: Agent, hold: float) -> None:
    """Begin a lineage for draws, unless something says that the session had the playbook or continues another.

    An agent that reports starts begins a session with one; without it the session may be an older one.
    """
    marker = ledger_access.marker_file(project, _TOLD, payload.session)
    if not hold or payload.source in {"compact", "resume", "fork"} or os.path.exists(marker):
        return
    if payload.event in {"SessionStart", SUBAGENT_START} or "SessionStart" not in agent.injects_at:
        draws.begin_lineage(project, payload.session, hold)


def draft_event(selection: Selection, drawn: Draw, file: str = "", *, own: bool = False) -> Draft:
    """Return the event of an injection, or of what a file gave; it holds names and numbers, nothing of a prompt.

    Args:
        selection: What was selected.
        drawn: What of it is withheld.
        file: The file that gave it.
        own: Whether to take the person's own entries, in place of the project's.
    """
    return ledger_access.draft(
        "playbook.injected",
        **drawn._asdict(),
        names=[name for name in inject.names_of(selection.chosen, own=own) if name not in drawn.held],
        left_out=dict(selection.left_out.get(own, {})),
        lowest=selection.lowest.get(own),
        candidates=ledger_access.digest(dumps([*inject.names_of(selection.candidates, own=own)])),
        file=file,
    )


def append(project: ProjectPaths, payload: Payload, selection: Selection, drawn: Draw, key: str) -> bool:
    """Append an injection, the person's own entries to their own ledger; return False if the project's had it.

    The project's has it even where none of its entries was selected: only there hooks see that a session was given the
    playbook, and reflection finds the sessions whose clients were killed.
    """
    is_new = ledger_access.append(project, [draft_event(selection, drawn)], payload.by, key)
    if is_new and inject.names_of(selection.chosen, own=True):
        append_own(project, [draft_event(selection, inject.Draw(), own=True)], payload, key)
    return is_new


def _append_compaction(project: ProjectPaths, payload: Payload, selection: Selection, drawn: Draw) -> bool:
    """Append an injection after a compaction; return False if another hook of the same compaction did."""
    # Codex names no turn here, so its compactions within ten seconds count as one.
    turn = f"{payload.session} {payload.prompt}"
    marker = ledger_access.marker_file(project, _TOLD, f"compact {turn}")
    now_us = clock.utc_now().unix_us
    # Settings and a plugin may both deliver it at the same moment, and no id of it could be a key.
    with ledger_access.lock_deliveries(project):
        before = ledger_access.read_marker(marker)
        if before.isdigit() and now_us - int(before) <= _COMPACTION_US:
            return False
        ledger_access.write_marker(marker, str(now_us))
        return append(project, payload, selection, drawn, f"injected:compact:{ledger_access.digest(turn)}:{now_us}")


def _has_playbook(project: ProjectPaths, payload: Payload, agent: Agent, marker: str) -> bool:
    """Return whether the conversation already holds the playbook; its own, or that of the session that it continues."""
    is_marked = os.path.exists(marker)
    parent = _take_resumed(project, payload, is_marked=is_marked)
    if is_marked or payload.subagent or payload.source == "compact":
        # A compaction drops the playbook from the context, whatever the marker says.
        return is_marked and not (payload.event == "SessionStart" and payload.source == "compact")
    has_transcript = os.path.isfile(payload.transcript)
    # Forks of Codex and branches of Claude Code name the session in their transcripts.
    if not parent and agent.transcripts and has_transcript:
        parent = table.load(payload.agent).TRANSCRIPTS.parent_of(payload.transcript)
    if parent:
        return _continue(project, payload, parent, marker)
    # A fork's transcript may not yet say which session it continues; it will at the first prompt.
    return payload.event == "SessionStart" and payload.source == "fork" and not has_transcript


def _take_resumed(project: ProjectPaths, payload: Payload, *, is_marked: bool) -> str:
    """Return the session that a fork continues, where its start said so; empty for none.

    The start of Claude Code's fork carries the id of the session that it continues; its own id comes with the first
    prompt, which no start announced.
    """
    path = ledger_access.marker_file(project, RESUMED)
    if payload.event == "SessionStart":
        if payload.source == "resume":
            ledger_access.write_marker(path, payload.session)
        return ""
    resumed = ledger_access.read_marker(path) if not payload.subagent else ""
    # Another session that runs meanwhile and has the playbook is not the fork: it leaves the marker.
    if resumed and (not is_marked or resumed == payload.session):
        with suppress(OSError):
            os.unlink(path)
    return resumed if resumed != payload.session else ""


def _continue(project: ProjectPaths, payload: Payload, parent: str, marker: str) -> bool:
    """Let a fork continue a session that was given the playbook, and record it; return False if it was given nothing.

    The marker of the session it continues only saves the question to the ledger.
    """
    before = ledger_access.marker_file(project, _TOLD, parent)
    was_given = os.path.exists(before)
    # A log that cannot be read must not keep the playbook from a session.
    with suppress(TallybookError):
        was_given = was_given or any(True for _ in citations.injections(project, parent))
    if not was_given:
        return False
    ledger_access.write_marker(marker, ledger_access.read_marker(before))
    # A fork that is drawn anew would count its lineage twice, and lift would claim what is false.
    if drawn := ledger_access.read_marker(draws.lineage_file(project, parent)):
        ledger_access.write_marker(draws.lineage_file(project, payload.session), drawn)
    try:
        # By this event citations and marks of the fork count for what its lineage was given.
        drafts = [draft_event(inject.Selection(), inject.Draw(lineage=parent))]
        ledger_access.append(project, drafts, payload.by, injection_key(payload))
    except TallybookError as error:
        ledger_access.save_error(project, error)
    return True


def mark_injected(project: ProjectPaths, payload: Payload) -> None:
    """Note for later hooks that a session has the playbook, or is not to be given it."""
    marker = ledger_access.marker_file(project, _TOLD, conversation(payload))
    # Another hook of the session may have written what it has.
    ledger_access.write_marker(marker, ledger_access.read_marker(marker))


def _take_compacted(marker: str) -> bool:
    """Return whether a compaction began since the last prompt; a divided playbook is begun anew."""
    compacted = marker + _COMPACTED
    with suppress(OSError):
        if ledger_access.read_marker(compacted):
            os.replace(compacted, marker)
        else:
            os.unlink(compacted)
        return True
    return False


# The person's own playbook


def read_own(project: ProjectPaths, theirs: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the entries of the person's own playbook that a project has neither by name nor by text.

    Args:
        project: The project.
        theirs: The project's entries.
    """
    mine = personal.find_paths(project)
    own: Sequence[Mapping[str, Any]] = ()
    if mine is not None:
        try:
            own = ledger_access.read_entries(mine)
        except TallybookError as error:
            # The project's entries must reach the session in any case.
            ledger_access.save_error(project, error)
    taken = {entry[field] for entry in theirs for field in ("name", "text")} if own else set()
    return [inject.OwnEntry(entry) for entry in own if entry["name"] not in taken and entry["text"] not in taken]


def select_offered(
    project: ProjectPaths, theirs: Sequence[Mapping[str, Any]], payload: Payload
) -> Sequence[Mapping[str, Any]]:
    """Return what of a project's entries, ``theirs``, and of the person's own can be given to a session.

    What a block in a file gives the agent already is left out. Newer entries come later, and are taken first; the own
    ones lie evenly among the project's, so that each playbook gets its share of the room.
    """
    today, block = clock.utc_now().at[:10], blocks.find_read(project, payload)
    own = inject.leave_out_expired(read_own(project, theirs), today)
    theirs = inject.leave_out_expired([entry for entry in theirs if block is None or not block.has(entry)], today)
    if not own:
        return theirs
    places = [(place / len(group), entry) for group in (own, theirs) for place, entry in enumerate(group, 1)]
    return [entry for _, entry in sorted(places, key=lambda pair: pair[0])]


def append_own(project: ProjectPaths, drafts: Sequence[Draft], payload: Payload, key: str) -> None:
    """Append what happened to the person's own entries, if anything did; an error is saved for ``doctor``."""
    mine = personal.find_paths(project) if drafts else None
    if mine is not None:
        try:
            ledger_access.append(mine, drafts, payload.by, key)
        except TallybookError as error:
            ledger_access.save_error(project, error)


# Injecting by task


class HeldPart(NamedTuple):
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


def _answer_prompt(event: _Event) -> str:
    """Return the answer to a prompt; call it under the lock of deliveries, because several hooks may get the prompt."""
    payload, budget_chars = event.payload, event.chosen.budget_chars
    part = _read_part(event.marker)
    if payload.source == "compact":
        part = part._replace(chars=0, names=(), delivery="")
    delivery = payload.prompt or ledger_access.digest(payload.text)
    # Of two hooks with the same prompt, the second would find the next best entries.
    if part.delivery == delivery or budget_chars <= part.chars:
        return ""
    entries = select_offered(event.project, ledger_access.read_entries(event.project), payload)
    selection = select(entries, payload.text, event.agent, budget_chars, event.template, part=part)
    if not selection.chosen:
        return ""
    is_new, answer = _give(event, selection, injection_key(payload, part.number + 1))
    # Nothing records what this prompt was given, so it is given nothing.
    if is_new is None:
        return ""
    # The ledger knows of more injections than the marker: which entries the session has is no longer known.
    chars = part.chars + len(selection.text_without()) if is_new else budget_chars
    names = (*part.names, *(entry["name"] for entry in selection.chosen))
    ledger_access.write_marker(event.marker, dumps(HeldPart(part.number + 1, chars, names, delivery)))
    return answer if is_new else ""


def _repeat(event: _Event) -> str:
    """Return what the session was given before a compaction, as far as it still is in the playbook and fits."""
    part = _read_part(event.marker)
    both = select_offered(event.project, ledger_access.read_entries(event.project), event.payload)
    entries = [entry for entry in both if entry["name"] in part.names]
    selection = select(entries, None, event.agent, event.chosen.budget_chars, event.template)
    is_new, answer = None, ""
    if selection.chosen:
        is_new, answer = _give(event, selection, entries=len(inject.names_of(both)))
    if is_new is not False:
        names = tuple(entry["name"] for entry in selection.chosen)
        part = part._replace(chars=len(selection.text_without()), names=names, delivery="")
        ledger_access.write_marker(event.marker, dumps(part))
    return answer if is_new is not False else ""


def _read_part(marker: str) -> HeldPart:
    """Return what a marker holds; nothing where there is none, or it is not readable."""
    with suppress(ValueError, TypeError):
        number, chars, names, delivery = loads(ledger_access.read_marker(marker))
        return HeldPart(int(number), int(chars), tuple(names), str(delivery))
    return HeldPart()
