"""The functions of the specification under their own names (where it says ``src/hooks/common.py``).

Code written for the old functions becomes event-sourced by changing its import: load, update, save, in that order,
append events and lose nothing. Every function is looked up in this module when it is called, so a caller can replace
one.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
import warnings

from tallybook.ledger import clock
from tallybook.ledger.decisions.update import RefusedText
from tallybook.ledger.errors import BadInputError, MissingLinesError
from tallybook.ledger.events import ReflectionCompleted
from tallybook.ledger.names import generate_keypoint_name
from tallybook.ledger.storage import disk
from tallybook.projections.playbook import inject, render
from tallybook.projections.playbook.prune import SPEC_POLICY
from tallybook.projections.playbook.view import Playbook
from tallybook.projections.surfaces.history import as_of, playbook_file, reading
from tallybook.projections.surfaces.workspace.project import Project, find_project
from tallybook.projections.surfaces.workspace.templates import PLAYBOOK, load_template
from tallybook.projections.surfaces.writing import record, secrets
from tallybook.projections.surfaces.writing.loaded_playbook import LoadedPlaybook, apply_extraction, list_requests
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "clear_session",
    "extract_keypoints",
    "format_playbook",
    "generate_keypoint_name",
    "get_project_dir",
    "get_user_claude_dir",
    "is_diagnostic_mode",
    "is_first_message",
    "load_playbook",
    "load_settings",
    "load_template",
    "load_transcript",
    "mark_session",
    "save_diagnostic",
    "save_playbook",
    "update_playbook_data",
]

_TEXT_SHOWN_CHARS = 80
_NO_UPDATES = {"playbook_update_on_exit": False, "playbook_update_on_clear": False}


def get_project_dir() -> Path:
    """Return the project's folder, as every command finds it: from ``CLAUDE_PROJECT_DIR``, else from here."""
    return find_project().root


def get_user_claude_dir() -> Path:
    """Return the user's own ``~/.claude``."""
    return Path.home() / ".claude"


def is_diagnostic_mode() -> bool:
    """Return whether the project has the file ``.claude/diagnostic_mode``."""
    return (get_project_dir() / ".claude" / "diagnostic_mode").exists()


def save_diagnostic(content: str, name: str) -> None:
    """Write a text to ``.claude/diagnostic/<time>_<name>.txt``."""
    folder = Project(get_project_dir()).claude / "diagnostic"
    disk.make_folder(folder)
    stamp = clock.utc_now().at.translate({ord(mark): None for mark in ":-."})
    with os.fdopen(disk.create_file(folder / f"{stamp}_{name}.txt"), "wb") as file:
        file.write(content.encode("utf-8", "backslashreplace"))


def _session_file() -> Path:
    return Project(get_project_dir()).claude / "last_session.txt"


def is_first_message(session_id: str) -> bool:
    """Return whether the last call of ``mark_session`` was for another session, or ``clear_session`` followed it."""
    try:
        return session_id != _session_file().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return True


def mark_session(session_id: str) -> None:
    """Write a session's id to ``.claude/last_session.txt``."""
    path = _session_file()
    disk.make_folder(path.parent)
    disk.replace_file(path, session_id.encode("utf-8", "backslashreplace"))


def clear_session() -> None:
    """Delete ``.claude/last_session.txt``, so that the playbook is injected again."""
    _session_file().unlink(missing_ok=True)


def load_settings() -> dict[str, Any]:
    """Return the user's ``~/.claude/settings.json``; if it cannot be read, settings that switch both updates off."""
    try:
        settings = json.loads((get_user_claude_dir() / "settings.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        settings = None
    return settings if isinstance(settings, dict) else dict(_NO_UPDATES)


def load_playbook() -> dict[str, Any]:
    """Return the playbook in canonical form, legacy entries migrated (REQ-SCORE-004 to 006).

    It is the playbook of the ledger with the manual edits of ``playbook.json``. Nothing is recorded: the next save
    records the edits. Without a readable file and a ledger it is empty. Where lines of a shared book are missing, it
    is the last rendering, and a warning says so.

    Raises:
        DamagedLedgerError: The ledger is damaged.
    """
    project = Project(get_project_dir())
    log = reading.open_log(project)
    try:
        state = reading.current(log)
    except MissingLinesError as error:
        last = as_of.last_rendering(project)
        if last is None:
            raise
        warnings.warn(f"{error}; this is the last rendering of playbook.json", stacklevel=2)
        return LoadedPlaybook(render.playbook_dict(last), last)
    file = playbook_file.examine(project, state, log.read)
    if file.legacy is not None and file.legacy.migrated and is_diagnostic_mode():
        migrated = file.legacy.migrated
        summary = json.dumps(migrated, indent=2)
        # OBS-SCORE-001
        save_diagnostic(f"Migrated {len(migrated)} playbook entries:\n{summary}", "playbook_migration")
    state = playbook_file.with_edit(state, file, clock.utc_now().at)
    document = render.playbook_dict(state)
    if file.legacy is not None and file.events:
        document["last_updated"] = file.legacy.top_keys.get("last_updated")
    return LoadedPlaybook(document, state)


def update_playbook_data(playbook: dict[str, Any], extraction_result: Mapping[str, Any]) -> dict[str, Any]:
    """Add new key points, count ratings, then prune by the specification's rule (REQ-SCORE-002, -007).

    Args:
        playbook: A playbook, changed in place; a plain dict needs no ledger.
        extraction_result: ``{"new_key_points": [...], "evaluations": [...]}``; parts that cannot be used are ignored.

    Returns:
        The same playbook.
    """
    loaded = playbook if isinstance(playbook, LoadedPlaybook) else None
    fields = {field: extraction_result.get(field) for field in ("new_key_points", "evaluations")}
    lists = {field: value if isinstance(value, list) else [] for field, value in fields.items()}
    # A plain dict is saved as a manual edit, which is not screened: there a model's words look like a person's.
    payload, _ = secrets.mask_payload(lists)
    decided, high_water = (loaded.decided, loaded.high_water) if loaded is not None else (Playbook(), 0)
    entries, pruned, names = apply_extraction(playbook["key_points"], payload, decided, high_water)
    if loaded is not None:
        # Before the dict has the result: it compares its entries with those that it got from the ledger.
        loaded.apply(payload, names)
    playbook["key_points"] = entries
    if pruned and is_diagnostic_mode():
        # OBS-SCORE-002
        details = "\n".join(
            f'  - {entry["name"]}: "{entry["text"][:_TEXT_SHOWN_CHARS]}" '
            f"(helpful={entry['helpful']}, harmful={entry['harmful']}) reason: {SPEC_POLICY.rule}"
            for entry in pruned
        )
        save_diagnostic(f"Pruned {len(pruned)} key points:\n{details}", "playbook_pruning")
    return playbook


def format_playbook(playbook: Mapping[str, Any]) -> str:
    """Return the playbook as prompt text (REQ-SCORE-003), empty without entries."""
    key_points = playbook["key_points"]
    return inject.prompt(key_points, load_template(PLAYBOOK)) if key_points else ""


def save_playbook(playbook: dict[str, Any]) -> None:
    """Append the changes of the playbook since it was loaded, and render ``playbook.json``.

    Updates become ratings and new entries; other changes become a manual edit. A name that another session used
    meanwhile is changed in the dict, in place. A save without an update prunes nothing (INV-SCORE-005). A dict that
    did not come from ``load_playbook`` counts as a manual edit of the last rendering.

    While another process holds the ledger, updates are spooled, and the dict keeps them until the next save. Other
    changes cannot be spooled.

    Raises:
        LockHeldError: Another process holds the ledger, and there is more to save than updates.
        TallybookError: The ledger is damaged or could not be written.
    """
    project = Project(get_project_dir())
    loaded = playbook if isinstance(playbook, LoadedPlaybook) else _as_edit(project, playbook)
    report = record.write(project, list_requests(loaded))
    renamed: dict[str, str] = {}
    for outcome in report.outcomes:
        renamed |= outcome.renamed
    for entry in loaded["key_points"]:
        if isinstance(entry, dict) and "name" in entry:
            entry["name"] = renamed.get(entry["name"], entry["name"])
    # The ledger gave such a name to another entry, so a later rating of it would count for that one.
    loaded.known -= renamed.keys()
    _leave_out(loaded, report)
    # Spooled updates are saved again: their names are known only once they are recorded.
    if report.state is not None:
        playbook["last_updated"] = report.state.last_updated
        loaded.settle(report.state)


def _leave_out(playbook: LoadedPlaybook, report: record.WriteResult) -> None:
    """Replace texts that were refused because they had been redacted by what the ledger has."""
    ignored = [one for outcome in report.outcomes for one in outcome.ignored]
    refused = {one.name: one for one in ignored if isinstance(one, RefusedText) and one.name is not None}
    if not refused or report.state is None:
        return
    recorded = report.state.entries
    entries = []
    for entry in playbook["key_points"]:
        name = entry.get("name") if isinstance(entry, dict) else None
        if name not in refused:
            entries.append(entry)
        elif name in recorded and name in {one["name"] for one in playbook.base}:
            entry["text"] = recorded[name].text
            entries.append(entry)
    playbook["key_points"][:] = entries
    for name, one in refused.items():
        warnings.warn(f"{name}: {one.reason}", stacklevel=3)


def _as_edit(project: Project, playbook: Mapping[str, Any]) -> LoadedPlaybook:
    """Return a plain dict as an edit of the last rendering; its entries are shared, not copied."""
    rendered = playbook_file.last_rendered(project)
    state = reading.current(reading.open_log(project), rendered.seq if rendered else None)
    loaded = LoadedPlaybook(render.playbook_dict(state), state)
    loaded.update(playbook)
    return loaded


def load_transcript(transcript_path: str | os.PathLike[str] | None) -> list[dict[str, str]]:
    """Return the messages of a session's transcript, in order, each with its exact text.

    Messages without text, such as tool calls and their answers, and those of the agent's program are left out.

    Args:
        transcript_path: The session's JSON lines; lines that are not JSON are skipped.

    Returns:
        ``{"role", "content"}`` each; the texts of a list of blocks are joined by line breaks. Empty for an empty path
        or a missing file.

    Raises:
        OSError: The file cannot be read.
    """
    from tallybook.projections.surfaces.reflection import transcript

    if not transcript_path or not Path(transcript_path).is_file():
        return []
    return list(transcript.messages(Path(transcript_path)))


async def extract_keypoints(
    messages: Sequence[Mapping[str, str]], playbook: Mapping[str, Any], diagnostic_name: str = "reflection"
) -> dict[str, Any]:
    """Let the rater of the settings rate a session; return an extraction result for ``update_playbook_data``.

    It keeps to the day's budget, and records its cost. Secrets, lines of the playbook and the middle of long messages
    are not sent. Nothing else runs in the event loop until the rater has answered.

    Args:
        messages: As ``load_transcript`` returns them.
        playbook: The playbook that the session was given.
        diagnostic_name: In diagnostic mode, prompt and answer are saved under this name.

    Returns:
        ``{"new_key_points": [...], "evaluations": [...]}``; both empty where the rater is ``none``.

    Raises:
        TallybookError: The rater gave no answer, or one that cannot be used.
    """
    from tallybook.projections.reflections import NO_RATER
    from tallybook.projections.surfaces.reflection import prompt, raters, schedule, transcript
    from tallybook.projections.surfaces.workspace import settings

    project = Project(get_project_dir())
    options = settings.read(project)
    if options.rater == NO_RATER:
        return {"new_key_points": [], "evaluations": []}
    pruned = [entry.text for entry in reading.current(reading.open_log(project)).gone.values()]
    session = "\n".join(transcript.format_message(message["role"], message["content"]) for message in messages)
    template, entries = load_template(prompt.TEMPLATE), playbook["key_points"]
    text = prompt.render_prompt(template, entries, pruned, session)
    spent = schedule.load_reflections(project).tokens_by_day.get(clock.utc_now().at[:10], 0)
    if spent + raters.estimate_tokens(options.rater, text) > options.tokens_per_day:
        raise BadInputError("tokens_per_day", "has too little left for this", "ask tomorrow, or raise it")
    reply, answer = raters.ask_rater(options.rater, options.model, text, options.address, options.key_variable)
    done = PlainEvents((ReflectionCompleted(options.rater, reply.input_tokens, reply.output_tokens),))
    record.write(project, [Request(done, {"rater": "reflector", **({"model": reply.model} if reply.model else {})})])
    if is_diagnostic_mode():
        save_diagnostic(f"{text}\n\n{reply.text}", diagnostic_name)
    return answer.about(prompt.shown_names(template, entries)).payload
