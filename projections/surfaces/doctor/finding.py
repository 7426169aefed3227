"""What a check of the doctor takes and yields, how checks run, and how findings are printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
import os
from subprocess import SubprocessError
from typing import TYPE_CHECKING, TypeAlias

import attrs

from tallybook.ledger.errors import EXIT_DAMAGED, EXIT_NO, CannotWriteError, DamagedLedgerError, TallybookError
from tallybook.projections.surfaces.console.output import format_count, reply
from tallybook.projections.surfaces.history.reading import open_own_log
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Sequence


OK, NOTE, BAD = "ok", "note", "bad"

# Checks read files that other programs may have written, so they can fail in all these ways.
_FAILURES = (TallybookError, OSError, ValueError, LookupError, TypeError, RuntimeError, MemoryError, SubprocessError)
# A terminal shows so many findings of one check; JSON has them all.
_MAX_LINES_PER_CHECK = 8


@attrs.frozen
class Finding:
    """One result of a check. Printed, it reads: what is wrong, why it matters; the fix.

    Attributes:
        level: ``ok``; ``note``, better changed; or ``bad``, someone has to act.
        message: What the check found and, where it is not plain, why that matters.
        fix: The command or edit that fixes it; a check that is not ok always has one.
        check: Name of the check, ``spool``; the runner fills it in from the table of checks.
        is_damage: Whether acknowledged bytes are gone or changed.
    """

    level: str
    message: str
    fix: str = ""
    check: str = ""
    is_damage: bool = False


Check: TypeAlias = Callable[[Project], Iterator[Finding]]
"""A check: yields what it finds and changes nothing on disk."""


def run_checks(project: Project, table: Mapping[str, Check]) -> tuple[Finding, ...]:
    """Run every check of a table by its name, in order, changing nothing; one without a finding has passed."""
    try:
        # Told once, because every check would fail for it.
        for folder in (project.claude, project.ledger):
            if folder.exists() and not folder.is_dir():
                return (Finding(BAD, f"{folder} is not a folder", f"run: mv {folder} {folder}.old", "project"),)
            if folder.exists() and not os.access(folder, os.R_OK | os.X_OK):
                message = f"you have no permission to read {folder}"
                return (Finding(BAD, message, "ask its owner for access", "project"),)
    except (CannotWriteError, OSError) as error:
        return (Finding(BAD, _reason(error), check="project"),)
    findings: list[Finding] = []
    for name, check in table.items():
        _run(name, check, project, findings)
    return tuple(findings)


def _run(name: str, check: Check, project: Project, findings: list[Finding]) -> None:
    """Add the findings of one check; a failure becomes a finding, unless another check failed for the same reason."""
    before = len(findings)
    try:
        findings.extend(attrs.evolve(finding, check=name) for finding in check(project))
        if len(findings) == before and open_own_log(project).exists():
            findings.append(Finding(OK, "passed", check=name))
    except DamagedLedgerError as error:
        # The check of the ledger has named the damage to its line; the others only meet it.
        is_reported = any(finding.is_damage for finding in findings)
        message = "not checked, because the ledger is damaged" if is_reported else str(error)
        findings.append(Finding(NOTE if is_reported else BAD, message, check=name, is_damage=not is_reported))
    except _FAILURES as error:
        message = f"could not be checked: {_reason(error)}"
        if all(finding.message != message for finding in findings):
            findings.append(Finding(BAD, message, check=name))


def _reason(error: BaseException) -> str:
    if isinstance(error, TallybookError):
        # What follows only concerns commands that write.
        return str(error).partition("; nothing was recorded")[0]
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return f"{type(error).__name__}: {error}"


def exit_code(findings: Sequence[Finding]) -> int:
    """Return 3 where acknowledged bytes are gone or changed, 1 where something else is bad, else 0."""
    if any(finding.is_damage for finding in findings):
        return EXIT_DAMAGED
    return EXIT_NO if any(finding.level == BAD for finding in findings) else 0


def format_findings(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield findings as lines for people: what is bad, what else can be acted on, and how many checks passed."""
    counts: dict[str, int] = {}
    for finding in sorted(findings, key=lambda finding: (BAD, NOTE, OK).index(finding.level)):
        # A fact that a person can change has its line, although nothing is wrong.
        if finding.level != OK or finding.fix:
            counts[finding.check] = counts.get(finding.check, 0) + 1
            if counts[finding.check] <= _MAX_LINES_PER_CHECK:
                fix = f"; {finding.fix}" if finding.fix else ""
                yield f"{finding.level:<5} {finding.check}: {finding.message}{fix}"
    for name, count in counts.items():
        if count > _MAX_LINES_PER_CHECK:
            yield f"{'':<5} {name}: and {count - _MAX_LINES_PER_CHECK:,} more; --json lists them all"
    failed = {finding.check for finding in findings if finding.level != OK}
    if passed := {finding.check for finding in findings} - failed:
        yield f"{format_count(len(passed), 'check')} passed"


def print_findings(findings: Sequence[Finding], *, as_json: bool) -> int:
    """Print findings, as JSON ``{ok, findings}`` of ``{check, level, message, hint}``; return the exit code."""
    rows = [
        {"check": finding.check, "level": finding.level, "message": finding.message, "hint": finding.fix}
        for finding in findings
    ]
    value = {"ok": all(finding.level != BAD for finding in findings), "findings": rows}
    reply(value, format_findings(findings), as_json=as_json)
    return exit_code(findings)
