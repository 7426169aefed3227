"""Calls of the hook as an agent makes them, and what they leave in the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
import json
import os
from pathlib import Path
import subprocess
import sys
from tempfile import TemporaryFile
from typing import Any

import attrs
import pytest

from helpers.events import HUMAN
from tallybook.ledger.codec import decode
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.hooks import handler
from tallybook.projections.surfaces.reflection import worker
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

HOOK = [sys.executable, "-c", "from tallybook.__main__ import main; main()", "hook"]
START = {"hook_event_name": "SessionStart", "source": "startup"}


@attrs.frozen
class Called:
    """What a hook printed and how it ended."""

    returncode: int
    stdout: bytes
    stderr: bytes


def call_hook(data: bytes, variables: Mapping[str, str] | None = None) -> Called:
    """Handle a payload on standard input in this process, with further variables of the environment."""
    before = dict(os.environ)
    with TemporaryFile() as given, TemporaryFile() as said, TemporaryFile() as errors:
        given.write(data)
        given.seek(0)
        streams = [os.dup(number) for number in range(3)]
        try:
            os.environ.update(variables or {})
            for number, file in enumerate((given, said, errors)):
                os.dup2(file.fileno(), number)
            code = handler.run([])
        finally:
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            os.environ.clear()
            os.environ.update(before)
        said.seek(0)
        errors.seek(0)
        return Called(code, said.read(), errors.read())


def call(payload: Mapping[str, Any] | bytes, session: str = "s1") -> str:
    """Let an agent call the hook in the project of CLAUDE_PROJECT_DIR, and return what it prints."""
    done = call_hook(_encode(payload, session))
    assert (0, b"") == (done.returncode, done.stderr)
    return done.stdout.decode()


def call_apart(payload: Mapping[str, Any] | bytes, session: str = "s1") -> str:
    """Do the same in a process of its own, so that several can be called at once."""
    done = subprocess.run(HOOK, input=_encode(payload, session), capture_output=True, timeout=60, check=False)
    assert (0, b"") == (done.returncode, done.stderr)
    return done.stdout.decode()


def _encode(payload: Mapping[str, Any] | bytes, session: str) -> bytes:
    return payload if isinstance(payload, bytes) else json.dumps({"session_id": session, **payload}).encode()


def read_context(answer: str) -> str:
    """Return the context that an answer hands to the model, empty without an answer."""
    said = json.loads(answer or '{"hookSpecificOutput":{"additionalContext":""}}')
    context: str = said["hookSpecificOutput"]["additionalContext"]
    return context


def events(project: Project, *kinds: type[Any]) -> list[Any]:
    """Return the events of these kinds, in order."""
    return [event for batch in decode(open_log(project).read()) for event in batch.events if isinstance(event, kinds)]


@contextmanager
def without_workers(folder: Path) -> Iterator[Project]:
    """Make a project with two entries, in which the processes that hooks leave behind find another one at work."""
    made = Project(folder)
    for text in ("Use type hints", "Write tests"):
        commands.add(made, text, HUMAN)
    fd = disk.open_file(made.ledger / worker.LOCK, write=True, create=True)
    assert disk.try_lock(fd)
    yield made
    os.close(fd)


@pytest.fixture
def here(project: Path) -> Iterator[Project]:
    """Return such a project."""
    with without_workers(project) as made:
        yield made


def set_to(project: Project, text: str) -> None:
    """Write a project's settings."""
    path = Path(project.claude, "config", "tallybook.toml")
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
