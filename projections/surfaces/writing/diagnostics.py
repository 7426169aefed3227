"""Diagnostics: what a project with the file ``.claude/diagnostic_mode`` writes about migrations and prunes."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from tallybook.ledger import clock
from tallybook.ledger.errors import BadInputError, CannotWriteError, Problem, TallybookError
from tallybook.ledger.names import UNPRINTABLE
from tallybook.ledger.storage import disk
from tallybook.projections.playbook.prune import SPEC_POLICY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from tallybook.ledger.decisions.legacy_import import LegacyFile
    from tallybook.ledger.events import Entry
    from tallybook.projections.surfaces.workspace.project import Project

MIGRATION = "playbook_migration"
PRUNING = "playbook_pruning"
_TEXT_SHOWN_CHARS = 80


def save(project: Project, content: str, name: str) -> None:
    """Write a text to ``.claude/diagnostic/<time>_<name>.txt``.

    Raises:
        BadInputError: The name cannot be part of a file's name.
        CannotWriteError: The file cannot be written.
    """
    if not name or not UNPRINTABLE.isdisjoint(name) or {"/", os.sep} & set(name):
        raise BadInputError("name", "cannot be part of a file's name", "leave out slashes and control characters")
    folder = project.claude / "diagnostic"
    disk.make_folder(folder)
    stamp = clock.utc_now().at.translate({ord(mark): None for mark in ":-."})
    path = folder / f"{stamp}_{name.encode('utf-8', 'backslashreplace').decode()}.txt"
    try:
        with os.fdopen(disk.create_file(path), "wb") as file:
            file.write(content.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error), "the diagnostic is not written") from error


def describe_migration(legacy: LegacyFile) -> str:
    """Return the diagnostic of the entries that were migrated (OBS-SCORE-001)."""
    return f"Migrated {len(legacy.migrated)} playbook entries:\n{json.dumps(legacy.migrated, indent=2)}"


def describe_pruning(entries: Sequence[Entry]) -> str:
    """Return the diagnostic of the entries that were pruned (OBS-SCORE-002)."""
    details = "\n".join(
        f'  - {entry.name}: "{entry.text[:_TEXT_SHOWN_CHARS]}" '
        f"(helpful={entry.helpful}, harmful={entry.harmful}) reason: {SPEC_POLICY.rule}"
        for entry in entries
    )
    return f"Pruned {len(entries)} key points:\n{details}"


def report(
    project: Project, files: Iterable[LegacyFile | None], pruned: Iterable[Entry], reported: Collection[str]
) -> tuple[Problem, ...]:
    """Write the diagnostics of a write; return a problem where one could not be written.

    Args:
        project: The project, whose diagnostic mode is on.
        files: The files that were recorded.
        pruned: The entries that were pruned.
        reported: What has its diagnostic already: the SHA-256 of a migrated file, and names of pruned entries.
    """
    migrated = [legacy for legacy in files if legacy and legacy.migrated and legacy.sha256 not in reported]
    texts = [(describe_migration(legacy), MIGRATION) for legacy in migrated]
    if pruned := [entry for entry in pruned if entry.name not in reported]:
        texts.append((describe_pruning(pruned), PRUNING))
    try:
        for text, name in texts:
            save(project, text, name)
    except TallybookError as error:
        return (Problem("diagnostic", str(error)),)
    return ()
