"""The verbs `doctor` and `check`: the tables of their checks, how checks run, and how findings are printed.

To add a check of `doctor`: write a function of the type `Check` in the module of its subject, and give it a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
import os
from subprocess import SubprocessError
from typing import TYPE_CHECKING, Any

import attrs
import click

from tallybook.ledger.errors import EXIT_DAMAGED, EXIT_NO, CannotWriteError, DamagedLedgerError, TallybookError
from tallybook.projections.scores.trends import GateQuery
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli.scores import gate_options
from tallybook.projections.surfaces.console.output import format_count, reply, write
from tallybook.projections.surfaces.console.parameters import Verb
from tallybook.projections.surfaces.doctor import agents, checks
from tallybook.projections.surfaces.doctor.checks import BAD, NOTE, OK, Finding
from tallybook.projections.surfaces.history.reading import open_own_log
from tallybook.projections.surfaces.scores import files as score_files
from tallybook.projections.surfaces.scores.configuration import load, score_named
from tallybook.projections.surfaces.scores.pages import ScorePage, Table, markdown
from tallybook.projections.surfaces.workspace import git
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    Check = Callable[[Project], Iterator[Finding]]
    """A check: yields what it finds and changes nothing on disk."""

CHECKS: Mapping[str, Check] = {
    "ledger": checks.check_ledger,
    "playbook.json": checks.check_playbook_file,
    "head": checks.check_head,
    "lock": checks.check_locks,
    "spool": checks.check_spool,
    "hooks": agents.check_hooks,
    "reflection": agents.check_reflection,
    "marks": agents.check_marks,
    "entries": checks.check_entries,
    "redaction": checks.check_redaction,
    "secrets": checks.check_secrets,
    "settings": checks.check_settings,
    "modes": checks.check_modes,
    "git": checks.check_git,
    "sharing": checks.check_sharing,
    "own playbook": checks.check_personal,
}
"""Name of a check, as findings show it → its function. Checks run in this order and do not depend on each other."""

# Checks read files that other programs may have written, so they can fail in all these ways.
_FAILURES = (TallybookError, OSError, ValueError, LookupError, TypeError, RuntimeError, MemoryError, SubprocessError)
# A terminal shows so many findings of one check; JSON has them all.
_MAX_LINES_PER_CHECK = 8
_COLUMNS = ("Check", "Result", "Finding", "Fix")


@click.command(cls=Verb, example="tallybook doctor --json")
def doctor(project: Project, /, *, as_json: bool) -> int:
    """Check the ledger, hooks and settings, and suggest fixes.

    Nothing is changed.

    --json answers {ok, findings}, a finding {check, level, message, hint}
    """
    return _print(run_checks(project, CHECKS), as_json=as_json)


@click.command(cls=Verb, example="tallybook check --min 75 --markdown")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown, for the summary of a job.")
@click.option("--if-present", is_flag=True, help="Pass where there is no ledger, for hooks of git.")
@gate_options
def check(project: Project, /, *, as_markdown: bool, if_present: bool, as_json: bool, **options: Any) -> int:
    """Run verify, replay --check and score gate at once, for CI.

    Exit code 1: a file differs from the ledger, the gate is closed, or there is no ledger. Exit code 3: the ledger is
    damaged. A project without measurements has no gate.

    --json answers as doctor
    """
    if options["score_id"] is not None:
        # A wrong name is an error of the command line, not a finding.
        score_named(load(project), options["score_id"], "--component")
    table: dict[str, Check] = {
        "ledger": partial(_check_tracked, if_present=if_present),
        "head": checks.check_head,
        "playbook.json": partial(_compare, commands.check),
        "score files": partial(_compare, score_files.check),
        "files of agents": _check_exports,
        "gate": partial(_check_gate, GateQuery(**options)),
    }
    findings = run_checks(project, table, needs_ledger=True)
    if not as_markdown or as_json:
        return _print(findings, as_json=as_json)
    code = exit_code(findings)
    write(markdown(page(findings, "failed" if code else "ok")))
    return code


def _check_tracked(project: Project, *, if_present: bool) -> Iterator[Finding]:
    """Verify the ledger; without one there is nothing that a check could rely on."""
    if open_own_log(project).exists():
        yield from checks.check_ledger(project)
    elif if_present:
        yield Finding(NOTE, "no ledger here, so nothing is checked")
    else:
        fix = "run `git add -f .claude/ledger/events.jsonl .claude/ledger/head` where the ledger is, and commit"
        yield Finding(BAD, "no ledger in this checkout: track it", fix)


def _compare(check: Callable[[Project], None], project: Project) -> Iterator[Finding]:
    """Report a file that differs from the ledger."""
    try:
        check(project)
    except commands.DriftError as error:
        message, _, fix = str(error).rpartition("; ")
        # Where git does not track the file, each machine renders its own.
        commit = "; then commit the file" if git.is_tracked(project, error.path) else ""
        yield Finding(BAD, message, fix + commit)


def _check_exports(project: Project) -> Iterator[Finding]:
    """Report a file of agents whose block is not what the playbook says."""
    from tallybook.projections.surfaces import selection

    for name, what, fix in selection.find_old_blocks(project):
        yield Finding(BAD, f"{name}: {what}", f"{fix}, then commit the file")


def _check_gate(query: GateQuery, project: Project) -> Iterator[Finding]:
    """Ask the gate, unless nothing was ever measured."""
    if not score_files.has_scores(project):
        yield Finding(NOTE, "nothing was measured, so there is no score to judge")
        return
    from tallybook.projections.scores.trends import METHODS
    from tallybook.projections.surfaces.scores.answers import FEED, ask_gate

    answered, _ = ask_gate(project, query)
    if answered.open:
        yield Finding(OK, "open", "`tallybook score gate` shows its bounds")
    for reason in answered.reasons:
        fix = f"`tallybook score baseline {reason.score_id}` acknowledges it" if reason.rule in METHODS else ""
        if reason.closes and reason.bound is None:
            fix = FEED
        yield Finding(BAD if reason.closes else NOTE, reason.text, fix)


# How checks run


def run_checks(project: Project, table: Mapping[str, Check], *, needs_ledger: bool = False) -> list[Finding]:
    """Run the checks of a table by their names, in order, changing nothing; one without a finding has passed.

    Args:
        project: The project.
        table: Name → check.
        needs_ledger: Whether only the first check runs where there is no ledger.
    """
    findings = _find_closed_folder(project)
    for name, check in () if findings else table.items():
        before = len(findings)
        try:
            if not (needs_ledger and findings) or open_own_log(project).exists():
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
    return findings


def _find_closed_folder(project: Project) -> list[Finding]:
    """Return why no check can run, once; nothing where the folders can be read."""
    try:
        for folder in (project.claude, project.ledger):
            if folder.exists() and not folder.is_dir():
                return [Finding(BAD, f"{folder} is not a folder", f"run: mv {folder} {folder}.old", "project")]
            if folder.exists() and not os.access(folder, os.R_OK | os.X_OK):
                message = f"you have no permission to read {folder}"
                return [Finding(BAD, message, "ask its owner for access", "project")]
    except (CannotWriteError, OSError) as error:
        return [Finding(BAD, _reason(error), check="project")]
    return []


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


# How findings are printed


def _print(findings: Sequence[Finding], *, as_json: bool) -> int:
    """Print findings, as JSON ``{ok, findings}`` of ``{check, level, message, hint}``; return the exit code."""
    rows = [
        {"check": finding.check, "level": finding.level, "message": finding.message, "hint": finding.fix}
        for finding in findings
    ]
    value = {"ok": all(finding.level != BAD for finding in findings), "findings": rows}
    reply(value, _lines(findings), as_json=as_json)
    return exit_code(findings)


def _lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield findings as lines for people: what is bad, what else can be acted on, and how many checks passed."""
    counts: Counter[str] = Counter()
    for finding in sorted(findings, key=lambda finding: (BAD, NOTE, OK).index(finding.level)):
        # A fact that a person can change has its line, although nothing is wrong.
        if finding.level != OK or finding.fix:
            counts[finding.check] += 1
            if counts[finding.check] <= _MAX_LINES_PER_CHECK:
                fix = f"; {finding.fix}" if finding.fix else ""
                yield f"{finding.level:<5} {finding.check}: {finding.message}{fix}"
    for name, count in counts.items():
        if count > _MAX_LINES_PER_CHECK:
            yield f"{'':<5} {name}: and {count - _MAX_LINES_PER_CHECK:,} more; --json lists them all"
    failed = {finding.check for finding in findings if finding.level != OK}
    if passed := {finding.check for finding in findings} - failed:
        yield f"{format_count(len(passed), 'check')} passed"


def page(findings: Sequence[Finding], result: str) -> ScorePage:
    """Return findings as a page."""
    rows = tuple((finding.check, finding.level, finding.message, finding.fix) for finding in findings)
    return ScorePage(f"Tallybook: {result}", tables=(Table("", _COLUMNS, rows),))
