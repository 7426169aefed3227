"""A project with a secret in it, and the search for the secret in its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
import json
import os
from pathlib import Path
from typing import Any

import pytest

from helpers.authors import HUMAN
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing.erasure import RedactionResult
from tallybook.projections.surfaces.writing.redact import NothingToRedactError, RedactionTarget, redact

PRIVATE = "hunter2 & 'ключ'\n🔑"
TOLD = f"the key is {PRIVATE}, keep it"


def spellings(text: str) -> set[bytes]:
    """Return the spellings of a text in a file: unchanged, in JSON, and in JSON within JSON."""
    found = {text}
    for _ in range(2):
        found |= {json.dumps(spelling, ensure_ascii=plain)[1:-1] for spelling, plain in product(found, (True, False))}
    return {spelling.encode() for spelling in found}


def holding(here: Project, text: str = PRIVATE) -> list[str]:
    """Return the files in the agent's folder that hold a text in any spelling."""
    files = (path for path in sorted(here.claude.rglob("*")) if path.is_file() and not path.is_symlink())
    return [path.name for path in files if any(spelling in path.read_bytes() for spelling in spellings(text))]


def content(here: Project) -> dict[Path, bytes]:
    """Return every file in the agent's folder except those of locks and caches."""
    files = (path for path in here.claude.rglob("*") if path.is_file() and not path.name.endswith("lock"))
    return {path: path.read_bytes() for path in files}


def strike(here: Project, text: str | None = PRIVATE, event: str | None = None) -> RedactionResult:
    """Redact a text or an event."""
    return redact(here, RedactionTarget(event, text), "it was private", HUMAN)


def texts(here: Project) -> list[str]:
    """Return the texts that the playbook shows."""
    return [entry["text"] for entry in commands.show(here)["key_points"]]


def counts(here: Project) -> list[tuple[Any, ...]]:
    """Return the playbook apart from its texts."""
    return [(entry["name"], entry["helpful"], entry["harmful"]) for entry in commands.show(here)["key_points"]]


@contextmanager
def held(here: Project) -> Iterator[None]:
    """Hold the ledger's lock."""
    fd = os.open(here.ledger / "lock", os.O_RDWR)
    try:
        assert disk.try_lock(fd)
        yield
    finally:
        os.close(fd)


def project_with_secret(root: Path) -> Project:
    """Return a project with a secret between two other texts, and some ratings."""
    here = Project(root)
    for text in ("Use type hints", TOLD, "Test the edges"):
        commands.add(here, text, HUMAN)
    for name in ("kpt_001", "kpt_002", "kpt_002"):
        commands.rate(here, name, "helpful", HUMAN)
    return here


def strike_nothing(here: Project) -> tuple[str, ...]:
    """Redact a text that is erased already, and return nothing."""
    with pytest.raises(NothingToRedactError):
        strike(here)
    return ()
