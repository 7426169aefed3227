"""Sessions of Claude Code for tests: transcripts in its own shape, and stand-ins for those who are asked of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
import json
import os
from pathlib import Path
import re
import stat
import subprocess
import sys
from typing import Any

import attrs

from helpers.commands import ROOT
from helpers.events import give
from tallybook.ledger.events import ReflectionRequested
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, record
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

RECORDED = Path(__file__).parents[1] / "data" / "transcripts"
"""A session with a subagent, a sidechain, a failing tool, a compaction and a half-written last line."""
COMMAND = [sys.executable, "-P", "-m", "tallybook"]


@attrs.define
class Script:
    """A transcript that is being written, by a subagent where ``sidechain`` is set."""

    path: Path
    session: str = "s1"
    sidechain: bool = False
    _ids: Any = attrs.field(factory=lambda: count(1))

    def line(self, kind: str, content: Any = None, **fields: Any) -> Script:
        """Append a line; a user's or an agent's message where there is content."""
        number = next(self._ids)
        made: dict[str, Any] = {
            "parentUuid": None if number == 1 else f"{self.session}-{number - 1}",
            "isSidechain": self.sidechain,
            "userType": "external",
            "cwd": "/home/me/shop",
            "sessionId": self.session,
            "version": "2.1.244",
            "gitBranch": "main",
            "type": kind,
            "uuid": f"{self.session}-{number}",
            "timestamp": f"2026-11-21T10:{number // 60 % 60:02d}:{number % 60:02d}.250Z",
        }
        if content is not None:
            made["message"] = {"role": kind, "content": content}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(made | fields) + "\n")
        return self

    def user(self, text: str, **fields: Any) -> Script:
        """Append what a person said."""
        return self.line("user", text, **fields)

    def agent(self, *blocks: str | Mapping[str, Any], **fields: Any) -> Script:
        """Append what the agent said, a text a block unless it is another kind of block."""
        made = [{"type": "text", "text": block} if isinstance(block, str) else dict(block) for block in blocks]
        return self.line("assistant", made, **fields)

    def tool(self, name: str, asked: Mapping[str, Any], answered: Any, *, failed: bool = False) -> Script:
        """Append what the agent asked of a tool, and what that answered."""
        use = f"toolu_{next(self._ids)}"
        self.agent({"type": "tool_use", "id": use, "name": name, "input": dict(asked)})
        result = {"type": "tool_result", "tool_use_id": use, "content": answered, "is_error": failed}
        return self.line("user", [result])


def answer(*texts: str, **ratings: str) -> str:
    """Return a model's answer: new key points, and ratings by name."""
    evaluations = [{"name": name, "rating": rating, "quote": f"because of {name}"} for name, rating in ratings.items()]
    return json.dumps({"new_key_points": list(texts), "evaluations": evaluations})


STAND_IN = """\
#!{python}
import json, os, pathlib, signal, sys, time
here = pathlib.Path({folder!r})
asked = here / "asked"
asked.mkdir(exist_ok=True)
number = len(list(asked.iterdir()))
(asked / f"{{number:04d}}").write_text(json.dumps({{
    "prompt": sys.stdin.read(), "words": sys.argv[1:], "inside": os.environ.get("TALLYBOOK_REFLECTING"),
    "cwd": os.getcwd(), "beside": os.listdir(), "environment": dict(os.environ),
}}))
plan = json.loads((here / "plan.json").read_text())
step = plan[min(number, len(plan) - 1)]
time.sleep(step.get("sleep_s", 0))
if step.get("dies"):
    os.kill(os.getppid(), signal.SIGKILL)
sys.stderr.write(step.get("stderr", ""))
sys.stdout.write(step["stdout"])
sys.exit(step.get("code", 0))
"""


@attrs.frozen
class ScriptedClient:
    """A stand-in for the agent's own client: it does what a plan says, and keeps what it was asked."""

    folder: Path

    def plans(self, *steps: Mapping[str, Any] | str) -> None:
        """Let it answer so from its next call on, the last answer again and again; a text is what its model says."""
        made = [say(step) if isinstance(step, str) else dict(step) for step in steps]
        (self.folder / "plan.json").write_text(json.dumps(made), encoding="utf-8")

    @property
    def asked(self) -> list[dict[str, Any]]:
        """Return what it was asked, in order."""
        folder = self.folder / "asked"
        return (
            [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.iterdir())]
            if folder.exists()
            else []
        )


def say(text: str, **fields: Any) -> dict[str, Any]:
    """Return what the client prints where its model says this."""
    usage = {"input_tokens": 1000, "cache_read_input_tokens": 200, "output_tokens": 50}
    result = {"type": "result", "subtype": "success", "is_error": False, "result": text, "usage": usage}
    return {"stdout": json.dumps(result | {"modelUsage": {"claude-haiku-4-5": {}}} | fields)}


def client_in(folder: Path, name: str = "claude") -> ScriptedClient:
    """Put a stand-in of this name into a folder, which the caller puts on PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / name
    script.write_text(STAND_IN.format(python=sys.executable, folder=str(folder)), encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return ScriptedClient(folder)


def find_transcripts(folder: Path) -> Path:
    """Return where the agent keeps the transcripts of the sessions in a folder."""
    return Path.home() / ".claude" / "projects" / re.sub("[^A-Za-z0-9]", "-", str(folder))


def asked_for(folder: Path, script: Script) -> Project:
    """Return a project with one entry that a session was given, and in which it is to be reflected on."""
    project = Project(folder)
    if not project.playbook.exists():
        commands.add(project, "Use type hints", {"rater": "human"})
    give(project, script.session, "kpt_001")
    ask_again(project, script)
    return project


def ask_again(project: Project, script: Script) -> None:
    """Ask for a reflection on all of a session so far, as a hook does."""
    end = script.path.stat().st_size
    asked = PlainEvents((ReflectionRequested(end, "SessionEnd", str(script.path)),))
    by = {"rater": "tallybook", "session": script.session}
    record.write(project, [Request(asked, by, f"reflect:{script.session}:{end}")])


def run(words: Sequence[str], given: Any = None, **fields: Any) -> subprocess.CompletedProcess[str]:
    """Run the command as its own process."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    stdin = given if isinstance(given, str) else "" if given is None else json.dumps(given)
    return subprocess.run(
        [*COMMAND, *words], input=stdin, capture_output=True, text=True, check=False, env=environment, **fields
    )


def choose(**values: Any) -> None:
    """Write the user's settings of reflection."""
    path = Path.home() / ".claude" / "config" / "tallybook.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    path.write_text("\n".join(["[reflection]", *lines, ""]), encoding="utf-8")
