"""``--record``: the payloads of a client as fixtures of the tests, without ids, times and paths of this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
import json
import os
from pathlib import Path
import re
import tempfile
from typing import Any

from agents import projects
from agents.clients import CLAUDE, COPILOT, Installed, InstalledClient
from agents.projects import ClientFolders, ClientHookCall
from agents.runs import session
from helpers.agent_payloads import FOLDER, HOME, PROJECT, observe, place_transcripts
from helpers.hook_calls import without_workers
from helpers.stub_models import ModelReply
from tallybook.projections.surfaces.workspace.project import Project

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SUBAGENT = re.compile(r"\ba[0-9a-f]{16}\b")
_TIMES = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "2026-11-23T10:00:00.000Z"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d(-\d\d)?"), "2026-11-23T10-00"),
    (re.compile(r"\d{4}/\d\d/\d\d/"), "2026/11/23/"),
    (re.compile(r'"timestamp": \d{13}'), '"timestamp": 1795428000000'),
    (re.compile(r'"duration_ms": \d+'), '"duration_ms": 5'),
)
_DIFFERS_BY = ("source", "trigger", "tool_name", "toolName", "reason")


def record(installed: Installed) -> None:
    """Write the payloads of a client's own events that differ; the caller is known, so none is taken for another's."""
    client = installed.client
    rows = list(_calls(installed, client))
    if client is COPILOT:
        # It runs the hooks in Claude Code's settings as well, with payloads of another shape.
        rows += _calls(installed, CLAUDE)
    text = json.dumps(list(_distinct(rows)), indent=2, ensure_ascii=True)
    made = json.loads(_neutralise_ids(text))
    for row in made:
        with _new_project() as project:
            place_transcripts(row, project.root)
            row["expected"] = {**observe(row, project), "caller": client.agent}
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{client.agent}.json").write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")


def _calls(installed: Installed, form: InstalledClient) -> Iterable[dict[str, Any]]:
    """Run a client whose hooks are installed in a client's form, and yield a row for each call."""
    client = installed.client
    with projects.new_place() as place, session(installed, place) as at_work:
        path = place.project / form.settings
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(form.hooks(form.events, "tallybook hook")), encoding="utf-8")
        at_work.ask("hello", goes_on=False, reply=ModelReply("I run it.", client.tool))
        at_work.ask("go on", reply=ModelReply("I ask another.", client.subagent) if client.subagent else None)
        at_work.ask("and on")
        if client.compact:
            at_work.run(client.compact)
        at_work.ask("and now")
        for call in place.calls():
            yield _row(call, place, set(at_work.environment))


@contextmanager
def _new_project() -> Iterator[Project]:
    """Make a project and a home folder for one payload."""
    kept = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="tallybook-payload-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        for below in ("home", "shop/.claude"):
            (folder / below).mkdir(parents=True)
        os.environ.update(HOME=str(folder / "home"), CLAUDE_PROJECT_DIR=str(folder / "shop"))
        try:
            with without_workers(folder / "shop") as project:
                yield project
        finally:
            os.environ.clear()
            os.environ.update(kept)


def _row(call: ClientHookCall, place: ClientFolders, switches: set[str]) -> dict[str, Any]:
    """Return a row without what only this run had."""
    environment = {
        name: value
        for name, value in call.environment.items()
        if name not in switches and not (value.startswith("/") and str(place.folder) not in value)
    }
    text = json.dumps({"environment": environment, "payload": json.loads(call.payload)})
    for here, there in ((str(place.project), PROJECT), (str(place.home), HOME), (_slug(place.project), _slug(PROJECT))):
        text = text.replace(here, there)
    row: dict[str, Any] = json.loads(text)
    return {"event": row["payload"].get("hook_event_name", ""), **row}


def _slug(path: object) -> str:
    """Return the name that Claude Code gives a project's folder of transcripts."""
    return re.sub("[^A-Za-z0-9]", "-", str(path))


def _neutralise_ids(text: str) -> str:
    """Return a text in which ids and times are neutral."""
    for pattern, instead in _TIMES:
        text = pattern.sub(instead, text)
    for match in _UUID.findall(text):
        # Gemini's transcripts have the first digits of the session's id in their names.
        text = text.replace(f"-{match[:8]}.", "-00000000.")
    return _number_ids(_SUBAGENT, _number_ids(_UUID, text, "00000000-0000-4000-8000-{:012d}"), "a{:016d}")


def _number_ids(pattern: re.Pattern[str], text: str, shape: str) -> str:
    """Replace each id by a number of its own."""
    numbers = count(1)
    known: dict[str, str] = {}
    return pattern.sub(lambda match: known.setdefault(match[0], shape.format(next(numbers))), text)


def _distinct(rows: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Yield the first row of each event, fields and kind of occasion."""
    seen = set()
    for row in rows:
        payload = row["payload"]
        key = (row["event"], *sorted(payload), *(str(payload.get(field)) for field in _DIFFERS_BY))
        if key not in seen:
            seen.add(key)
            yield row
