"""The functions of the specification under their own names (where it says ``src/hooks/common.py``).

Code written for the old functions becomes event-sourced by changing its import: load, update, save, in that order,
append events and lose nothing. Every function is looked up in this module when it is called, so a caller can replace
one.
"""

from __future__ import annotations

import copy
from importlib import resources
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledger import clock, disk
from ledger.decide import Known, decide_extraction, rating_fault, read_extraction, read_points, text_fault
from ledger.errors import BadInputError
from ledger.events import KeyPoint, PointAdded, PointRated, ReflectionCompleted
from ledger.names import STAMP, generate_keypoint_name, number_of, usable_name
from ledger.seeds import read_legacy
from projections import render
from projections.playbook import Playbook
from projections.points import rated
from projections.prune import SPEC_POLICY
from projections.surfaces import playbook_file, reading, record, screen
from projections.surfaces.project import Project, find_project
from projections.surfaces.requests import Change, Facts, Request, Update

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "extract_keypoints",
    "format_playbook",
    "generate_keypoint_name",
    "get_project_dir",
    "get_user_claude_dir",
    "is_diagnostic_mode",
    "load_playbook",
    "load_template",
    "load_transcript",
    "save_diagnostic",
    "save_playbook",
    "update_playbook_data",
]

TEMPLATE = "playbook.txt"
_TEXT_SHOWN_CHARS = 80


class LoadedPlaybook(dict[str, Any]):
    """A playbook as ``load_playbook`` gives it: a plain dict to its user, that remembers what it came from.

    Attributes:
        base: The entries as they were loaded or last saved, with the updates since; what else differs is an edit.
        top: The other top-level keys as they were loaded or last saved.
        high_water: Highest number of a name that ever stood in the ledger or in this dict.
        updates: What was applied and not yet saved: (extraction result, text → name in this dict, its key).
        known: Every name that the ledger had when this dict was loaded, and that this dict got since.
        decided: What is pinned, pardoned and merged; it is no part of the document.
    """

    def __init__(self, document: Mapping[str, Any], state: Playbook) -> None:
        """Take a canonical document of a playbook."""
        super().__init__(document)
        self.base: list[dict[str, Any]] = []
        self.top: dict[str, Any] = {}
        self.high_water = 0
        self.updates: list[tuple[dict[str, Any], dict[str, str], str]] = []
        self.known = set(state.used)
        self.decided = Playbook()
        self.settle(state)

    def settle(self, state: Playbook) -> None:
        """Take what stands here now as loaded or saved."""
        self.base = copy.deepcopy(self["key_points"])
        self.known |= {entry["name"] for entry in self["key_points"] if isinstance(entry, dict) and "name" in entry}
        self.top = _top(self)
        self.high_water = max(self.high_water, state.high_water)
        self.updates = []
        self.decided = Playbook(pinned=state.pinned, pardoned=state.pardoned, merged=state.merged)

    def apply(self, payload: dict[str, Any], names: dict[str, str]) -> None:
        """Note an update that was applied to this dict, so that the next save appends it.

        Left out is what only this dict knows, and what the save brings as an edit: a text that a program put into
        the dict, and an evaluation of a name that it never got from the ledger. By then it can be another entry's name.
        """
        texts = {entry["text"] for entry in self.base} | names.keys()
        self.known |= set(names.values())
        fresh = [one for one in payload["new_key_points"] if text_fault(one) is not None or one in texts]
        rated = [one for one in payload["evaluations"] if rating_fault(one) is not None or one["name"] in self.known]
        said = copy.deepcopy({"new_key_points": fresh, "evaluations": rated})
        self.base = _updated(self.base, said, self.decided, 0, names)[0]
        self.high_water = max([self.high_water, *(number_of(name) or 0 for name in names.values())])
        # Its own key, so that an update that was spooled and is saved again counts once.
        self.updates.append((said, names, f"save:{clock.new_id(clock.utc_now().unix_us)}"))


def _top(document: Mapping[str, Any]) -> dict[str, Any]:
    return copy.deepcopy({key: document[key] for key in document if key not in {"key_points", "last_updated", STAMP}})


def get_project_dir() -> Path:
    """Return the project's folder, as every command finds it: from ``CLAUDE_PROJECT_DIR``, else from here."""
    return find_project().root


def get_user_claude_dir() -> Path:
    """Return the user's own ``~/.claude``."""
    return Path.home() / ".claude"


def is_diagnostic_mode() -> bool:
    """Say whether the project's ``.claude/diagnostic_mode`` is there."""
    return (get_project_dir() / ".claude" / "diagnostic_mode").exists()


def save_diagnostic(content: str, name: str) -> None:
    """Write a text to ``.claude/diagnostic/<time>_<name>.txt``."""
    folder = Project(get_project_dir()).claude / "diagnostic"
    disk.make_folder(folder)
    stamp = clock.utc_now().at.translate({ord(mark): None for mark in ":-."})
    with os.fdopen(disk.create_file(folder / f"{stamp}_{name}.txt"), "wb") as file:
        file.write(content.encode("utf-8", "backslashreplace"))


def load_template(name: str = TEMPLATE) -> str:
    """Return a prompt template: the user's in ``~/.claude/prompts``, else the packaged one."""
    own = get_user_claude_dir() / "prompts" / name
    if own.is_file():
        return own.read_text(encoding="utf-8")
    return resources.files("prompts").joinpath(name).read_text(encoding="utf-8")


def load_playbook() -> dict[str, Any]:
    """Return the playbook in canonical form, legacy entries migrated (REQ-SCORE-004 to 006).

    It is what ``playbook.json`` says, on top of what came into the ledger since that was written. Nothing is written
    to the ledger: the next save takes in what was found. Empty where there is neither a readable file nor a ledger.

    Raises:
        DamagedLedgerError: The ledger is damaged.
    """
    project = Project(get_project_dir())
    log = reading.open_log(project)
    state = reading.current(log)
    found = playbook_file.examine(project, state, log.read)
    if found.legacy is not None and found.legacy.migrated and is_diagnostic_mode():
        migrated = found.legacy.migrated
        summary = json.dumps(migrated, indent=2)
        # OBS-SCORE-001
        save_diagnostic(f"Migrated {len(migrated)} playbook entries:\n{summary}", "playbook_migration")
    state = playbook_file.with_found(state, found, clock.utc_now().at)
    document = render.playbook_dict(state)
    if found.legacy is not None and found.events:
        document["last_updated"] = found.legacy.top_keys.get("last_updated")
    return LoadedPlaybook(document, state)


def update_playbook_data(playbook: dict[str, Any], extraction_result: Mapping[str, Any]) -> dict[str, Any]:
    """Add new key points, count ratings, then drop what the pruning rule condemns (REQ-SCORE-002, -007).

    Args:
        playbook: A playbook, changed in place; a plain dict needs no ledger.
        extraction_result: ``{"new_key_points": [...], "evaluations": [...]}``; parts that cannot be used are passed
            over.

    Returns:
        The same playbook.
    """
    loaded = playbook if isinstance(playbook, LoadedPlaybook) else None
    found = {field: extraction_result.get(field) for field in ("new_key_points", "evaluations")}
    lists = {field: value if isinstance(value, list) else [] for field, value in found.items()}
    # A plain dict is saved as a change, where nobody can tell a model's words from a person's any more.
    payload, _ = screen.masked_payload(lists)
    decided, high_water = (loaded.decided, loaded.high_water) if loaded is not None else (Playbook(), 0)
    kept, pruned, names = _updated(playbook["key_points"], payload, decided, high_water)
    playbook["key_points"] = kept
    if loaded is not None:
        loaded.apply(payload, names)
    if pruned and is_diagnostic_mode():
        # OBS-SCORE-002
        details = "\n".join(
            f'  - {entry["name"]}: "{entry["text"][:_TEXT_SHOWN_CHARS]}" '
            f"(helpful={entry['helpful']}, harmful={entry['harmful']}) reason: {SPEC_POLICY.rule}"
            for entry in pruned
        )
        save_diagnostic(f"Pruned {len(pruned)} key points:\n{details}", "playbook_pruning")
    return playbook


def _updated(
    entries: list[dict[str, Any]],
    payload: Mapping[str, Any],
    decided: Playbook,
    high_water: int,
    wishes: Mapping[str, str] | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, str]]:
    """Return the entries that stay, those that are pruned, and the names given to new texts."""
    points = {entry["name"]: _point(entry) for entry in entries}
    highest = max((number_of(name) or 0 for name in points), default=0)
    extraction = read_extraction(payload, "extraction_result")
    decision = decide_extraction(extraction, Known(points, max(highest, high_water), points.keys()), wishes)
    by_name = {entry["name"]: entry for entry in entries}
    names: dict[str, str] = {}
    for event in decision.events:
        if isinstance(event, PointAdded):
            entry = render.entry(KeyPoint(event.name, event.text or ""))
            entries = [*entries, entry]
            by_name[event.name] = entry
            names[entry["text"]] = event.name
        elif isinstance(event, PointRated):
            meant = by_name.get(event.name) or by_name.get(decided.merged.get(event.name, ""))
            if meant is not None:
                point = rated(_point(meant), event.rating)
                meant.update(helpful=point.helpful, harmful=point.harmful)
    pruned = [entry for entry in entries if SPEC_POLICY.condemns(_point(entry)) and not decided.spares(_point(entry))]
    return [entry for entry in entries if entry not in pruned], pruned, names


def _point(entry: Mapping[str, Any]) -> KeyPoint:
    return KeyPoint(entry["name"], entry["text"], entry.get("helpful", 0), entry.get("harmful", 0))


def format_playbook(playbook: Mapping[str, Any]) -> str:
    """Return the playbook as prompt text (REQ-SCORE-003); empty where it has no entries."""
    key_points = playbook["key_points"]
    return render.prompt(key_points, load_template(TEMPLATE)) if key_points else ""


def save_playbook(playbook: dict[str, Any]) -> None:
    """Append what was done to the playbook since it was loaded, and render ``playbook.json``.

    Updates become ratings and new points; what else was changed becomes an edit. A name that another session took
    meanwhile is changed in the dict, in place. A save that brings no update prunes nothing (INV-SCORE-005). A dict
    that did not come from ``load_playbook`` counts as an edit of the last rendering.

    Updates do not wait for a ledger that another process holds: they are spooled, and the dict keeps them until the
    next save. What was changed beside them cannot be spooled.

    Raises:
        LockHeldError: Another process holds the ledger, and there is more to save than updates.
        TallybookError: The ledger is damaged or could not be written.
    """
    project = Project(get_project_dir())
    loaded = playbook if isinstance(playbook, LoadedPlaybook) else _adopted(project, playbook)
    report = record.write(project, _requests(loaded))
    renamed: dict[str, str] = {}
    for outcome in report.outcomes:
        renamed |= outcome.renamed
    for entry in loaded["key_points"]:
        if isinstance(entry, dict) and "name" in entry:
            entry["name"] = renamed.get(entry["name"], entry["name"])
    # What was spooled stays to be saved again: only then are the names known that it got.
    if report.state is not None:
        playbook["last_updated"] = report.state.last_updated
        loaded.settle(report.state)


def _adopted(project: Project, playbook: Mapping[str, Any]) -> LoadedPlaybook:
    """Return a plain dict as a change of the last rendering; its entries are shared, not copied."""
    rendered = playbook_file.last_rendered(project)
    state = reading.current(reading.open_log(project), rendered.seq if rendered else None)
    loaded = LoadedPlaybook(render.playbook_dict(state), state)
    loaded.update(playbook)
    return loaded


def _entries(entries: list[Any]) -> tuple[KeyPoint, ...]:
    """Return a dict's entries, read as a file's would be where a program left them in another shape."""
    try:
        points = read_points(entries, "key_points")
        if len({point.name for point in points}) == len(points) and all(usable_name(point.name) for point in points):
            return points
    except BadInputError:
        pass
    document = json.dumps({"key_points": entries}).encode()
    return tuple(item.point for item in read_legacy(document, "key_points").items)


def _requests(playbook: LoadedPlaybook) -> list[Request]:
    """Return what is to be recorded: each update, then the rest as an edit."""
    by = {"rater": "reflector"}
    requests = [Request(Update(payload, names), by, key) for payload, names, key in playbook.updates]
    base, found = tuple(map(_point, playbook.base)), _entries(playbook["key_points"])
    top = _top(playbook)
    changed = json.dumps(top) if top != playbook.top else ""
    if not requests or found != base or changed:
        requests.append(Request(Change(base, found, changed), {"rater": "agent"}))
    return requests


def load_transcript(transcript_path: str | os.PathLike[str]) -> list[dict[str, str]]:
    """Return what was said in a session, its subagents included, in the order of the files.

    Left out are our own playbook, what the agent's program put in, thoughts, and the middle of long texts; secrets are
    masked.

    Returns:
        ``{"role", "content"}`` each; the role is user, assistant, or tool for what tools were asked and answered.

    Raises:
        OSError: It cannot be read.
    """
    from projections.surfaces.reflection import transcript

    return [
        {
            "role": turn.role if turn.role in {"user", "assistant"} else "tool",
            "content": transcript.told(turn, subagent=bool(file) or line.sidechain),
        }
        for file, path in transcript.files_of(Path(transcript_path)).items()
        for line in transcript.lines(path)
        for turn in line.turns
    ]


def extract_keypoints(
    messages: Sequence[Mapping[str, str]], playbook: Mapping[str, Any], diagnostic_name: str = "reflection"
) -> dict[str, Any]:
    """Return what the rater of the settings says of a session: an extraction result for ``update_playbook_data``.

    It keeps to the day's tokens, and what it cost is recorded.

    Args:
        messages: As ``load_transcript`` returns them.
        playbook: The playbook that the session was told.
        diagnostic_name: In diagnostic mode, what is asked and answered is kept under this name.

    Returns:
        ``{"new_key_points": [...], "evaluations": [...]}``; both empty where the rater is ``none``.

    Raises:
        TallybookError: Nothing came of asking, or the answer could not be used. It is never an empty result.
    """
    from projections.reflections import NO_RATER
    from projections.surfaces import settings
    from projections.surfaces.reflection import due, prompt, raters

    project = Project(get_project_dir())
    found = settings.read(project)
    if found.rater == NO_RATER:
        return {"new_key_points": [], "evaluations": []}
    pruned = [point.text for point in reading.current(reading.open_log(project)).gone.values()]
    said = "\n".join(screen.mask(message["content"]).text for message in messages)
    template, entries = load_template(prompt.TEMPLATE), playbook["key_points"]
    asked = prompt.ask(template, entries, pruned, said)
    today = clock.utc_now().at[:10]
    if due.look(project).spent.get(today, 0) + raters.tokens(found.rater, asked) > found.tokens_per_day:
        raise BadInputError("tokens_per_day", "has too little left for this", "ask tomorrow, or raise it")
    reply, judged = raters.judge(found.rater, found.model, asked)
    done = Facts((ReflectionCompleted(found.rater, reply.input_tokens, reply.output_tokens),))
    record.write(project, [Request(done, {"rater": "reflector", **({"model": reply.model} if reply.model else {})})])
    if is_diagnostic_mode():
        save_diagnostic(f"{asked}\n\n{reply.text}", diagnostic_name)
    return prompt.of_names(judged, prompt.shown_names(template, entries)).payload
