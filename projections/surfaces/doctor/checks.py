"""The table of the doctor's checks, the runner, and how findings are printed.

To add a check: write a function of the type `Check` in the module of its subject, and add a row to CHECKS.
"""

from __future__ import annotations

import os
from subprocess import SubprocessError
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger import clock
from tallybook.ledger.errors import EXIT_DAMAGED, EXIT_NO, CannotWriteError, DamagedLedgerError, TallybookError
from tallybook.projections.surfaces.console.output import answer, format_count, say
from tallybook.projections.surfaces.doctor import (
    entries,
    hooks,
    ledger,
    reflection,
    settings,
    system,
)
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Context, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tallybook.projections.surfaces.doctor.finding import Check
    from tallybook.projections.surfaces.workspace.project import Project

CHECKS: tuple[tuple[str, Check, str], ...] = (
    ("ledger", ledger.check_ledger, ""),
    ("playbook.json", ledger.check_playbook_file, "equals the replay of the ledger"),
    ("head", ledger.check_head, "it is there"),
    ("lock", system.check_locks, "no process holds the ledger"),
    ("spool", ledger.check_spool, "nothing waits"),
    ("hooks", hooks.check_hooks, "no agent is here"),
    ("reflection", reflection.check_reflection, ""),
    ("marks", reflection.check_marks, "no session was given entries, or marks are off"),
    ("entries", entries.check_entries, "none looks stale"),
    ("texts", entries.check_texts, "no entry has invisible characters"),
    ("redaction", ledger.check_redaction, "none is pending"),
    ("secrets", ledger.check_secrets, "no text looks like one"),
    ("pages", ledger.check_pages, "none is in the project"),
    ("set aside", ledger.check_unreadable_playbooks, "none"),
    ("dates", ledger.check_dates, "no event is dated far ahead"),
    ("folder", settings.check_folder, "its own ledger is used"),
    ("settings", settings.check_settings, "every setting counts"),
    ("scores", settings.check_scores, "the configuration is valid"),
    ("files", system.check_files, "regular files and folders"),
    ("writing", system.check_write_access, "you may write"),
    ("modes", system.check_modes, "no more is shared than the project's folder"),
    ("cache", system.check_cache_folder, "the cache folder is yours alone"),
    ("git", system.check_git, "nothing of the ledger is tracked"),
    ("sharing", settings.check_sharing, ""),
    ("own playbook", entries.check_personal, ""),
)
"""Name of a check, as findings show it; its function; the message where it finds nothing in a project with a ledger.

Checks run in this order and do not depend on each other. One without a message says itself what is fine.
"""

# Checks read files that other programs may have written, so they can fail in all these ways.
_FAILURES = (
    TallybookError,
    OSError,
    ImportError,
    ValueError,
    LookupError,
    TypeError,
    RuntimeError,
    MemoryError,
    SubprocessError,
)

# What people have to act on comes first.
_LEVELS = (BAD, NOTE, OK)
# The end of a message from here on only concerns commands that write.
_NOT_RECORDED = "; nothing was recorded"
# A terminal shows so many findings of one check; JSON has them all.
_MAX_LINES_PER_CHECK = 8


def run_checks(
    project: Project,
    progress: Callable[[int, int], None] = lambda _done, _size: None,
    table: Sequence[tuple[str, Check, str]] | None = None,
) -> tuple[Finding, ...]:
    """Run every check of CHECKS, or of another table, changing nothing.

    Args:
        project: The project to check.
        progress: Called during long checks with the bytes done and the bytes in all.
        table: Rows as in CHECKS; None for CHECKS.
    """
    try:
        obstacle = _find_obstacle(project)
    except (CannotWriteError, OSError) as error:
        obstacle = Finding(BAD, _reason(error))
    if obstacle is not None:
        return (attrs.evolve(obstacle, check="project"),)
    context = Context(project, clock.utc_now(), progress)
    findings: list[Finding] = []
    for name, check, fine in CHECKS if table is None else table:
        _run(name, check, fine, context, findings)
    return tuple(findings)


def _find_obstacle(project: Project) -> Finding | None:
    """Return why no check could read anything, None where checks can run.

    Raises:
        CannotWriteError: A folder of the project is a link to another place.
        OSError: The project's own folder cannot be entered.
    """
    for folder in (project.claude, project.ledger):
        if folder.exists() and not folder.is_dir():
            return Finding(BAD, f"{folder} is not a folder", "move it away")
        if folder.exists() and not os.access(folder, os.R_OK | os.X_OK):
            return Finding(BAD, f"you have no permission to read {folder}", "ask its owner for access")
    return None


def _run(name: str, check: Check, fine: str, context: Context, findings: list[Finding]) -> None:
    """Add the findings of one check; a failure becomes a finding, unless another check failed for the same reason."""
    before = len(findings)
    try:
        findings.extend(attrs.evolve(finding, check=name) for finding in check(context))
        if fine and len(findings) == before and context.log.exists():
            findings.append(Finding(OK, fine, check=name))
    except DamagedLedgerError as error:
        is_reported = any(finding.is_damage for finding in findings)
        message = "not checked, because the ledger is damaged" if is_reported else str(error)
        findings.append(Finding(NOTE if is_reported else BAD, message, check=name, is_damage=not is_reported))
    except _FAILURES as error:
        message = f"could not be checked: {_reason(error)}"
        if all(finding.message != message for finding in findings):
            findings.append(Finding(BAD, message, check=name))


def _reason(error: BaseException) -> str:
    if isinstance(error, TallybookError):
        return str(error).partition(_NOT_RECORDED)[0]
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return f"{type(error).__name__}: {error}"


def exit_code(findings: Sequence[Finding]) -> int:
    """Return 3 where acknowledged bytes are gone or changed, 1 where something else is bad, else 0."""
    if any(finding.is_damage for finding in findings):
        return EXIT_DAMAGED
    return EXIT_NO if any(finding.level == BAD for finding in findings) else 0


def findings_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return ``{ok, findings}``, a finding as ``{check, level, message, hint}``; ``hint`` is the fix."""
    rows = [
        {"check": finding.check, "level": finding.level, "message": finding.message, "hint": finding.fix}
        for finding in findings
    ]
    return {"ok": all(finding.level != BAD for finding in findings), "findings": rows}


def format_findings(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield findings as lines for people: what is bad, what else can be acted on, and how many checks passed."""
    counts: dict[str, int] = {}
    for finding in sorted(findings, key=lambda finding: _LEVELS.index(finding.level)):
        if finding.level != OK or finding.fix:
            counts[finding.check] = counts.get(finding.check, 0) + 1
            if counts[finding.check] <= _MAX_LINES_PER_CHECK:
                yield _format_line(finding)
    for name, count in counts.items():
        if count > _MAX_LINES_PER_CHECK:
            yield f"{'':<5} {name}: and {count - _MAX_LINES_PER_CHECK:,} more; --json lists them all"
    failed = {finding.check for finding in findings if finding.level != OK}
    passed = {finding.check for finding in findings} - failed
    if passed:
        yield f"{format_count(len(passed), 'check')} passed"


def _format_line(finding: Finding) -> str:
    fix = f"; {finding.fix}" if finding.fix else ""
    return f"{finding.level:<5} {finding.check}: {finding.message}{fix}"


def print_findings(findings: Sequence[Finding], *, as_json: bool) -> int:
    """Print findings and return the exit code."""
    if as_json:
        answer(findings_json(findings))
    else:
        say(*format_findings(findings))
    return exit_code(findings)
