"""The doctor: every check of a project's health, run one after another, and told in plain words."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger import clock
from tallybook.ledger.errors import EXIT_DAMAGED, EXIT_NO, CannotWriteError, DamagedLedgerError, TallybookError
from tallybook.projections.surfaces.console.output import answer, say
from tallybook.projections.surfaces.console.terminal import harmless
from tallybook.projections.surfaces.doctor import hooks, ledger, reflection, settings, system
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, Patient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tallybook.projections.surfaces.doctor.finding import Check
    from tallybook.projections.surfaces.workspace.project import Project

CHECKS: tuple[tuple[str, Check], ...] = (
    ("ledger", ledger.ledger),
    ("playbook.json", ledger.playbook),
    ("head", ledger.head),
    ("lock", system.locks),
    ("spool", ledger.waiting),
    ("hooks", hooks.hooks),
    ("reflection", reflection.reflection),
    ("quarantine", ledger.quarantine),
    ("redaction", ledger.redaction),
    ("secrets", ledger.secrets),
    ("set aside", ledger.set_aside),
    ("left over", ledger.leftovers),
    ("clock", ledger.time),
    ("folder", settings.folder),
    ("settings", settings.in_force),
    ("scores", settings.scores),
    ("files", system.files),
    ("writing", system.writing),
    ("modes", system.modes),
    ("cache", system.cache_folder),
    ("marks", system.flags),
    ("disk", system.room),
    ("file system", system.kind),
    ("git", system.git),
)
"""What is looked at → the check that does; each stands for itself, and one that fails ends no other."""

FIRST = CHECKS[0][0]

_FAULTS = (
    TallybookError,
    OSError,
    ImportError,
    ValueError,
    LookupError,
    TypeError,
    RuntimeError,
    MemoryError,
    subprocess.SubprocessError,
)
"""How a check can fail on files that anybody may have written: it says so instead of what it would have found."""

_TRY_AGAIN = "; nothing was recorded, try again"
# Findings of one check that are printed; JSON has them all.
_SHOWN = 8


def examine(project: Project, progress: Callable[[int, int], None] = lambda _done, _size: None) -> tuple[Finding, ...]:
    """Run every check of CHECKS, changing nothing.

    Args:
        project: Whose health it is.
        progress: Called now and then with bytes done and bytes in all.
    """
    try:
        closed = _closed(project)
    except (CannotWriteError, OSError) as error:
        closed = Finding(BAD, _reason(error))
    if closed is not None:
        return (attrs.evolve(closed, check="project"),)
    patient = Patient(project, clock.utc_now(), progress)
    found: list[Finding] = []
    for name, check in CHECKS:
        _run(name, check, patient, found)
    return tuple(found)


def _closed(project: Project) -> Finding | None:
    """Say why no check could look at anything, None where the way is open.

    Raises:
        CannotWriteError: A folder leads elsewhere.
        OSError: The project's own folder is closed.
    """
    for folder in (project.claude, project.ledger):
        if folder.exists() and not folder.is_dir():
            return Finding(BAD, f"{folder} is no folder", "move it away")
        if folder.exists() and not os.access(folder, os.R_OK | os.X_OK):
            return Finding(BAD, f"you may not look into {folder}", "ask whoever owns it for the right to")
    return None


def _run(name: str, check: Check, patient: Patient, found: list[Finding]) -> None:
    """Add what a check finds; where it fails, that it does, unless another failed for the very same reason."""
    try:
        found.extend(attrs.evolve(one, check=name) for one in check(patient))
    except DamagedLedgerError as error:
        told = any(one.damage for one in found)
        what = "not looked at, as the ledger is damaged" if told else str(error)
        found.append(Finding(NOTE if told else BAD, what, check=name, damage=not told))
    except _FAULTS as error:
        what = f"could not be looked at: {_reason(error)}"
        if all(one.message != what for one in found):
            found.append(Finding(BAD, what, check=name))


def _reason(error: BaseException) -> str:
    if isinstance(error, TallybookError):
        return str(error).removesuffix(_TRY_AGAIN)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return f"{type(error).__name__}: {error}"


def exit_code(findings: Sequence[Finding]) -> int:
    """Return 3 where acknowledged bytes are gone or changed, 1 where something else is bad, else 0."""
    if any(one.damage for one in findings):
        return EXIT_DAMAGED
    return EXIT_NO if any(one.level == BAD for one in findings) else 0


def findings_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return findings in their stable shape."""
    fields = ("check", "level", "message", "hint")
    said = [{field: getattr(one, field) for field in fields} for one in findings]
    return {"ok": all(one.level != BAD for one in findings), "findings": said}


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield findings as lines for people: what is fine in few words, then what is not, in the order of the checks."""
    said = [one for one in findings if one.level == OK and (one.told or one.check == FIRST)]
    yield from map(_line, said)
    # Of the others a person wants to hear no more than that nothing is wrong.
    ailing = {one.check for one in findings if one.level != OK}
    fine = dict.fromkeys(one.check for one in findings if one not in said and one.check not in ailing)
    if fine:
        yield f"{OK:<5} nothing wrong with {', '.join(fine)}"
    printed: dict[str, int] = {}
    for one in findings:
        if one.level != OK:
            printed[one.check] = printed.get(one.check, 0) + 1
            if printed[one.check] <= _SHOWN:
                yield _line(one)
    for name, number in printed.items():
        if number > _SHOWN:
            yield f"{'':<5} {name}: and {number - _SHOWN:,} more; --json lists them all"


def _line(one: Finding) -> str:
    return harmless(f"{one.level:<5} {one.check}: {one.message}{f'; {one.hint}' if one.hint else ''}")


def tell(findings: Sequence[Finding], *, as_json: bool) -> int:
    """Print findings and return the exit code."""
    if as_json:
        answer(findings_json(findings))
    else:
        for line in lines(findings):
            say(line)
    return exit_code(findings)
