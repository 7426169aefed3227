"""The functions of the specification under their own names (where it says ``src/hooks/common.py``).

Code written for the old functions becomes event-sourced by changing its import: load, update, save, in that order,
append events and lose nothing. Every function is looked up in this module when it is called, so a caller can replace
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
import copy
import json
import os
from pathlib import Path
from typing import Any
import warnings

from tallybook.api import check_type, read_json
from tallybook.ledger import clock, names, strict_json
from tallybook.ledger.decisions import update
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.decisions.update import Decision
from tallybook.ledger.errors import NOT_UNICODE, BadInputError, CannotWriteError, MissingLinesError
from tallybook.ledger.events import Entry, PointAdded, PointRated, ReflectionCompleted
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.names import is_usable_name, parse_number
from tallybook.ledger.playbook_constants import MAX_INT, STAMP, UNTIL
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.redacted_digests import Redactions
from tallybook.projections.playbook import inject, render
from tallybook.projections.playbook.entry import SPEC_POLICY, add_rating
from tallybook.projections.playbook.view import Playbook
from tallybook.projections.surfaces.history import playbook_file, reading
from tallybook.projections.surfaces.history.reading import Opened
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.workspace.project import Project, find_project
from tallybook.projections.surfaces.writing import record, secrets
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request, Update

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

DIAGNOSTIC_MODE = "diagnostic_mode"
"""File in the agent's folder of a project that wants diagnostics."""
_TEXT_SHOWN_CHARS = 80
_NO_UPDATES = {"playbook_update_on_exit": False, "playbook_update_on_clear": False}


def generate_keypoint_name(existing_names: Iterable[str]) -> str:
    """Return the next name: one above the highest number among the given names, else ``kpt_001``."""
    check_type(Iterable, existing_names=existing_names)
    given = list(existing_names)
    for name in given:
        check_type(str, existing_names=name)
    return names.generate_keypoint_name(given)


def load_template(name: str = personal.PLAYBOOK) -> str:
    """Return a template: the user's in ``~/.claude/prompts`` where it can be read, else the packaged one.

    Raises:
        BadInputError: There is no such template.
    """
    check_type(str, name=name)
    try:
        return personal.load_template(name)
    except (OSError, ValueError) as error:
        raise BadInputError("name", f"{name!r} is not a template", f"use {personal.PLAYBOOK}") from error


def get_project_dir() -> Path:
    """Return the project's folder, as every command finds it: from ``CLAUDE_PROJECT_DIR``, else from here.

    Raises:
        BadInputError: It would be the root folder or the home folder, which are no projects.
    """
    return find_project().root


def get_user_claude_dir() -> Path:
    """Return the user's own ``~/.claude``."""
    # Path.expanduser raises where the user has no home folder.
    return Path(os.path.expanduser("~/.claude"))  # noqa: PTH111


def is_diagnostic_mode() -> bool:
    """Return whether the project has the file ``.claude/diagnostic_mode``."""
    return (Project(get_project_dir()).claude / DIAGNOSTIC_MODE).exists()


def save_diagnostic(content: str, name: str) -> None:
    """Write a text to ``.claude/diagnostic/<time>_<name>.txt``.

    Raises:
        BadInputError: The name cannot be part of a file's name.
        CannotWriteError: The file cannot be written.
    """
    check_type(str, content=content, name=name)
    if not name or not names.UNPRINTABLE.isdisjoint(name) or {"/", os.sep} & set(name):
        raise BadInputError("name", "cannot be part of a file's name", "leave out slashes and control characters")
    folder = Project(get_project_dir()).claude / "diagnostic"
    disk.make_folder(folder)
    stamp = clock.utc_now().at.translate({ord(mark): None for mark in ":-."})
    path = folder / f"{stamp}_{name.encode('utf-8', 'backslashreplace').decode()}.txt"
    try:
        with os.fdopen(disk.create_file(path), "wb") as file:
            file.write(content.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error), "the diagnostic is not written") from error


def _session_file() -> Path:
    return Project(get_project_dir()).claude / "last_session.txt"


def is_first_message(session_id: str) -> bool:
    """Return whether the last call of ``mark_session`` was for another session, or ``clear_session`` followed it."""
    check_type(str, session_id=session_id)
    try:
        return session_id != _session_file().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return True


def mark_session(session_id: str) -> None:
    """Write a session's id to ``.claude/last_session.txt``."""
    check_type(str, session_id=session_id)
    path = _session_file()
    disk.make_folder(path.parent)
    disk.replace_file(path, session_id.encode("utf-8", "backslashreplace"))


def clear_session() -> None:
    """Delete ``.claude/last_session.txt``, so that the playbook is injected again."""
    path = _session_file()
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error), "it is unchanged") from error


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
    opened = Opened(project)
    try:
        state = opened.playbook()
    except MissingLinesError as error:
        last = playbook_file.last_rendering(project)
        if last is None:
            raise
        warnings.warn(f"{error}; this is the last rendering of playbook.json", stacklevel=2)
        return LoadedPlaybook(render.playbook_dict(last), last)
    file = playbook_file.examine(opened, state)
    if file.legacy is not None and (migrated := file.legacy.migrated) and is_diagnostic_mode():
        report = f"Migrated {len(migrated)} playbook entries:\n{json.dumps(migrated, indent=2)}"
        save_diagnostic(report, "playbook_migration")
    # Shown and not recorded, because a read-only project must be readable.
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

    Raises:
        BadInputError: The playbook has entries that are none, or the result is no mapping.
    """
    check_type(dict, playbook=playbook)
    check_type(Mapping, extraction_result=extraction_result)
    key_points = playbook.setdefault("key_points", [])
    _read_entries(key_points)
    loaded = playbook if isinstance(playbook, LoadedPlaybook) else None
    fields = {field: extraction_result.get(field) for field in ("new_key_points", "evaluations")}
    lists = {field: value if isinstance(value, list) else [] for field, value in fields.items()}
    # A plain dict is saved as a manual edit, which is not screened: there a model's words look like a person's.
    payload = secrets.mask_extraction(lists, [])
    decided, high_water = (loaded.decided, loaded.high_water) if loaded is not None else (Playbook(), 0)
    entries, pruned, given_names = apply_extraction(key_points, payload, decided, high_water)
    if loaded is not None:
        # Before the dict has the result: it compares its entries with those that it got from the ledger.
        loaded.apply(payload, given_names)
    playbook["key_points"] = entries
    if pruned and is_diagnostic_mode():
        details = "\n".join(
            f'  - {entry["name"]}: "{entry["text"][:_TEXT_SHOWN_CHARS]}" '
            f"(helpful={entry.get('helpful', 0)}, harmful={entry['harmful']}) reason: {SPEC_POLICY.rule}"
            for entry in pruned
        )
        save_diagnostic(f"Pruned {len(pruned)} key points:\n{details}", "playbook_pruning")
    return playbook


def format_playbook(playbook: Mapping[str, Any]) -> str:
    """Return the playbook as prompt text (REQ-SCORE-003), empty without entries.

    Raises:
        BadInputError: It has entries that are none.
    """
    check_type(Mapping, playbook=playbook)
    key_points = [render.entry_json(entry) for entry in _read_entries(playbook.get("key_points", []))]
    return inject.prompt(key_points, load_template(personal.PLAYBOOK)) if key_points else ""


def _read_entries(key_points: object) -> tuple[Entry, ...]:
    """Return the entries of a playbook's list, with counters of 0 where they have none.

    Raises:
        BadInputError: One lacks name or text, or has a field of another type.
    """
    entries = []
    for index, item in enumerate(key_points if isinstance(key_points, list) else [key_points]):
        fields: dict[str, Any] = {"helpful": 0, "harmful": 0, **item} if isinstance(item, dict) else {}
        name, text = fields.get("name"), fields.get("text")
        counts = [fields.get("helpful"), fields.get("harmful")]
        # A bool is an int as well.
        are_counts = all(type(count) is int and 0 <= count <= MAX_INT for count in counts)
        if not (isinstance(name, str) and name and isinstance(text, str) and are_counts):
            raise BadInputError(f"key_points[{index}]", "expected an entry with name, text, helpful and harmful")
        entries.append(_entry_of(fields))
    return tuple(entries)


def save_playbook(playbook: dict[str, Any]) -> None:
    """Append the changes of the playbook since it was loaded, and render ``playbook.json``.

    Updates become ratings and new entries; other changes become a manual edit. A name that another session used
    meanwhile is changed in the dict, in place. A save without an update prunes nothing (INV-SCORE-005). A dict that
    did not come from ``load_playbook`` counts as a manual edit of the last rendering.

    While another process holds the ledger, updates are spooled, and the dict keeps them until the next save. Other
    changes cannot be spooled.

    Raises:
        LockHeldError: Another process holds the ledger, and there is more to save than updates.
        TallybookError: The ledger is damaged or could not be written, or the playbook is not JSON.
    """
    check_type(dict, playbook=playbook)
    read_json(playbook=playbook)
    project = Project(get_project_dir())
    loaded = playbook if isinstance(playbook, LoadedPlaybook) else _as_edit(project, playbook)
    check_type(list, key_points=loaded.get("key_points"))
    report = record.write(project, list_requests(loaded))
    renamed: dict[str, str] = {}
    for outcome in report.outcomes:
        renamed |= outcome.renamed
    for entry in loaded["key_points"]:
        if isinstance(entry, dict) and isinstance(entry.get("name"), str):
            entry["name"] = renamed.get(entry["name"], entry["name"])
    # The ledger gave such a name to another entry, so a later rating of it would count for that one.
    loaded.known -= renamed.keys()
    _leave_out(loaded, report)
    # Spooled updates are saved again: their names are known only once they are recorded.
    if report.state is not None:
        playbook["last_updated"] = report.state.last_updated
        loaded.settle(report.state)


def _leave_out(playbook: LoadedPlaybook, report: record.Write) -> None:
    """Replace texts that were refused because they had been redacted by what the ledger has."""
    ignored = [part for outcome in report.outcomes for part in outcome.ignored]
    refused = {part.name: part for part in ignored if isinstance(part, update.RefusedText) and part.name is not None}
    if not refused or report.state is None:
        return
    recorded = report.state.entries
    entries = []
    for entry in playbook["key_points"]:
        name = entry.get("name") if isinstance(entry, dict) else None
        if name not in refused:
            entries.append(entry)
        elif name in recorded and name in {known["name"] for known in playbook.base}:
            entry["text"] = recorded[name].text
            entries.append(entry)
    playbook["key_points"][:] = entries
    for name, refusal in refused.items():
        warnings.warn(f"{name}: {refusal.reason}", stacklevel=3)


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
        BadInputError: The file cannot be read.
    """
    from tallybook.projections.surfaces.reflection import transcript

    check_type(str | os.PathLike | None, transcript_path=transcript_path)
    path = Path(transcript_path or "")
    try:
        return list(transcript.messages(path)) if path.is_file() else []
    except OSError as error:
        raise BadInputError(str(transcript_path), f"cannot be read: {disk.reason(error)}") from error


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
    from tallybook.projections.history.reflections import NO_RATER
    from tallybook.projections.surfaces.reflection import prompts, raters, transcript, worker
    from tallybook.projections.surfaces.workspace import settings

    check_type(Mapping, playbook=playbook)
    check_type(str, diagnostic_name=diagnostic_name)
    check_type(Iterable, messages=messages)
    session = []
    for message in messages:
        check_type(Mapping, messages=message)
        role, content = message.get("role"), message.get("content")
        check_type(str, role=role, content=content)
        session.append(transcript.format_message(str(role), str(content)))
    key_points = [render.entry_json(entry) for entry in _read_entries(playbook.get("key_points", []))]
    project = Project(get_project_dir())
    options = settings.read(project)
    if options.rater == NO_RATER:
        return {"new_key_points": [], "evaluations": []}
    pruned = [entry.text for entry in reading.current(reading.open_log(project)).gone.values()]
    prompt = prompts.write_prompt(key_points, pruned, "\n".join(session))
    spent = worker.load_reflections(project).tokens_by_day.get(clock.utc_now().at[:10], 0)
    if spent + raters.estimate_tokens(prompt.text) > options.tokens_per_day:
        raise BadInputError("tokens_per_day", "has too little left for this", "ask tomorrow, or raise it")
    reply, answer = raters.ask_rater(prompt.text, options)
    done = PlainEvents((ReflectionCompleted(options.rater, *reply.spent),))
    record.write(project, [Request(done, {"rater": "reflector", **({"model": reply.model} if reply.model else {})})])
    if is_diagnostic_mode():
        save_diagnostic(f"{prompt.text}\n\n{reply.text}", diagnostic_name)
    return answer.restrict(prompt.shown).payload


# The loaded playbook


class LoadedPlaybook(dict[str, Any]):
    """The playbook that ``load_playbook`` returns: a plain dict to its user, which remembers its origin.

    Attributes:
        base: The entries as they were loaded or last saved, with the updates since; what else differs is an edit.
        top: The other top-level keys as they were loaded or last saved.
        high_water: Highest number of a name ever used in the ledger or in this dict.
        updates: What was applied and not yet saved.
        known: Every name that the ledger had when this dict was loaded, and that this dict got since.
        decided: What is pinned, pardoned and merged; it is no part of the document.
    """

    def __init__(self, document: Mapping[str, Any], state: Playbook) -> None:
        """Take a canonical document of a playbook."""
        super().__init__(document)
        self.high_water = 0
        self.known = set(state.used)
        self.settle(state)

    def settle(self, state: Playbook) -> None:
        """Take the present content as loaded or saved."""
        # Programs change entries in place, and a save compares them with what they were.
        self.base: list[dict[str, Any]] = copy.deepcopy(self["key_points"])
        named = [entry.get("name") for entry in self["key_points"] if isinstance(entry, dict)]
        self.known |= {name for name in named if isinstance(name, str)}
        self.top = _top(self)
        self.high_water = max(self.high_water, state.high_water)
        self.updates: list[Request] = []
        self.decided = Playbook(pinned=state.pinned, pardons=state.pardons, merged=state.merged)

    def apply(self, payload: dict[str, Any], names: dict[str, str]) -> None:
        """Note an update for the next save; call it before the dict has its result.

        Left out are texts that a program put into the dict itself, which the save records as an edit, and evaluations
        of its entries, or of names that it never got from the ledger: there they can be another entry's names.
        """
        put_here = {entry["name"] for entry in self["key_points"]} - {entry["name"] for entry in self.base}
        texts = {entry["text"] for entry in self.base} | names.keys()
        self.known |= set(names.values())
        known = self.known - put_here
        fresh = [point for point in payload["new_key_points"] if update.text_fault(point) is not None or point in texts]
        ratings = [
            evaluation
            for evaluation in payload["evaluations"]
            if update.find_rating_fault(evaluation) is not None or evaluation["name"] in known
        ]
        applied = {"new_key_points": [*map(_json_or_none, fresh)], "evaluations": [*map(_json_or_none, ratings)]}
        self.base = apply_extraction(self.base, applied, self.decided, 0, names)[0]
        self.high_water = max([self.high_water, *(parse_number(name) or 0 for name in names.values())])
        # Its own key, so that an update that was spooled and is saved again counts once.
        key = f"save:{clock.new_id(clock.utc_now().unix_us)}"
        # As ratings and not as counts: two sessions that load before either saves both count (REQ-SCORE-002).
        self.updates.append(Request(Update(applied, names), {"rater": "reflector"}, key))


def _json_or_none(item: Any) -> Any:
    """Return a copy of an item; None where it is not JSON, so that it can wait in the spool and is ignored as well."""
    try:
        return json.loads(json.dumps(item, allow_nan=False, ensure_ascii=False).encode())
    except (ValueError, TypeError, RecursionError):
        return None


def _top(document: Mapping[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(
        {key: document[key] for key in document if key not in {"key_points", "last_updated", STAMP, UNTIL}}
    )


def apply_extraction(
    entries: list[dict[str, Any]],
    payload: Mapping[str, Any],
    decided: Playbook,
    high_water: int,
    wishes: Mapping[str, str] | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, str]]:
    """Return the entries that stay, those that are pruned, and the names given to new texts."""
    present = {entry["name"]: _entry_of(entry) for entry in entries}
    highest = max((parse_number(name) or 0 for name in present), default=0)
    state = Playbook(entries=present, high_water=max(highest, high_water), used=set(present))
    decision = update.decide_extraction(payload, state, "extraction_result", wishes=wishes or {})
    by_name = {entry["name"]: entry for entry in entries}
    names: dict[str, str] = {}
    for event in decision.events:
        if isinstance(event, PointAdded):
            entry = render.entry_json(Entry(event.name, event.text or ""))
            entries = [*entries, entry]
            by_name[event.name] = entry
            names[entry["text"]] = event.name
        elif isinstance(event, PointRated):
            meant = by_name.get(event.name) or by_name.get(decided.merged.get(event.name, ""))
            if meant is not None:
                after = add_rating(_entry_of(meant), event.rating)
                meant.update(helpful=after.helpful, harmful=after.harmful)
    pruned = [
        entry for entry in entries if SPEC_POLICY.prunes(_entry_of(entry)) and not decided.is_exempt(_entry_of(entry))
    ]
    return [entry for entry in entries if entry not in pruned], pruned, names


def _entry_of(entry: Mapping[str, Any]) -> Entry:
    return Entry(entry["name"], entry["text"], entry.get("helpful", 0), entry.get("harmful", 0))


def _entries(entries: list[Any]) -> tuple[Entry, ...]:
    """Return a dict's entries; those that a program left in another shape are read as a legacy file's."""
    if all(isinstance(entry, dict) and {"helpful", "harmful"} <= entry.keys() for entry in entries):
        with suppress(BadInputError):
            read = _read_entries(entries)
            if len({entry.name for entry in read}) == len(read) and all(is_usable_name(entry.name) for entry in read):
                return read
    document = json.dumps({"key_points": entries}).encode()
    return tuple(item.entry for item in read_legacy(document, "key_points").items)


def list_requests(playbook: LoadedPlaybook) -> list[Request]:
    """Return the requests of a save: each update, then all other changes as one edit.

    Raises:
        BadInputError: It has top-level keys that could be recorded but never rendered.
    """
    base, entries = tuple(map(_entry_of, playbook.base)), _entries(playbook["key_points"])
    top = _top(playbook)
    changed = json.dumps(top) if top != playbook.top else ""
    if playbook.updates and entries == base and not changed:
        return [*playbook.updates]
    if changed:
        try:
            dumps(strict_json.loads(changed.encode("utf-8", "surrogatepass"), "top")).encode()
        except UnicodeEncodeError as error:
            raise BadInputError("top", NOT_UNICODE) from error

    def decide(state: Playbook, redactions: Redactions, renamed: Mapping[str, str]) -> Decision:
        allowed = changed if redactions.refusal_in_json(changed) is None else ""
        return update.decide_edit(update.Edit(base, entries, allowed), state, renamed, redactions.refusal)

    return [*playbook.updates, Request(decide, {"rater": "agent"})]
