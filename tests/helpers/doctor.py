"""What the tests of `doctor` share: its findings, printed lines, and the state of files on disk."""

from __future__ import annotations

from pathlib import Path

from helpers.commands import CommandResult
from tallybook.projections.surfaces.cli.doctor import CHECKS, Finding, run_checks
from tallybook.projections.surfaces.workspace.project import Project


def examine(project: Project) -> list[Finding]:
    """Return the findings of every check."""
    return run_checks(project, CHECKS)


def findings_of(project: Project, check: str) -> list[tuple[str, str]]:
    """Return level and message of the findings of one check."""
    return [(finding.level, finding.message) for finding in examine(project) if finding.check == check]


def levels(project: Project) -> dict[str, str]:
    """Return each check that is not ok with its level, leaving out git, which may be missing here."""
    found = {finding.check: finding.level for finding in examine(project) if finding.level != "ok"}
    return {check: level for check, level in found.items() if check != "git"}


def file_states(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the content and the time of change of every file in a folder, folders included."""
    return {
        str(path): (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns)
        for path in (folder, *folder.rglob("*"))
    }


def lines_of(answer: CommandResult, code: int) -> list[str]:
    """Check that a command printed to standard output only and ended with this code; return its lines."""
    assert (code, "") == (answer.code, answer.err)
    return answer.out.splitlines()
