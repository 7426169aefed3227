"""The verbs `doctor` and `check`, each with the table of its checks.

To add a check of `doctor`: write a function of the type `Check` in the module of its subject, and give it a row.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tallybook.projections.scores.trends import GateQuery
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli.scores import gate_options
from tallybook.projections.surfaces.console.output import write
from tallybook.projections.surfaces.console.parameters import Verb
from tallybook.projections.surfaces.doctor import agents, checks
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, exit_code, print_findings, run_checks
from tallybook.projections.surfaces.history.reading import open_own_log
from tallybook.projections.surfaces.scores import files as score_files
from tallybook.projections.surfaces.scores.configuration import load, score_named
from tallybook.projections.surfaces.scores.pages import Page, Table, markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tallybook.projections.surfaces.doctor.finding import Check
    from tallybook.projections.surfaces.workspace.project import Project

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


def checkout_checks(query: GateQuery, *, if_present: bool = False) -> dict[str, Check]:
    """Return what `verify`, `replay --check` and `score gate` check in a checkout, as a table like CHECKS.

    Args:
        query: The question to the gate.
        if_present: Whether a checkout without a ledger passes.
    """
    table: dict[str, Check] = {
        "head": checks.check_head,
        "playbook.json": partial(_compare, commands.check),
        "score files": partial(_compare, score_files.check),
        "files of agents": _check_exports,
        "gate": partial(_check_gate, query),
    }
    present = {name: partial(_where_present, check) for name, check in table.items()}
    return {"ledger": partial(_check_tracked, if_present=if_present), **present}


def _where_present(check: Check, project: Project) -> Iterator[Finding]:
    if open_own_log(project).exists():
        yield from check(project)


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
        yield Finding(BAD, message, f"{fix}; then commit the file")


def _check_exports(project: Project) -> Iterator[Finding]:
    """Report a file of agents whose block is not what the playbook says."""
    from tallybook.projections.surfaces.selection import exported

    for name, what, fix in exported.find_old(project):
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


@click.command(cls=Verb, example="tallybook doctor --json")
def doctor(project: Project, /, *, as_json: bool) -> int:
    """Check the ledger, hooks and settings, and suggest fixes.

    Nothing is changed.

    --json answers {ok, findings}, a finding {check, level, message, hint}
    """
    return print_findings(run_checks(project, CHECKS), as_json=as_json)


_COLUMNS = ("Check", "Result", "Finding", "Fix")


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
    table = checkout_checks(GateQuery(**options), if_present=if_present)
    findings = run_checks(project, table)
    if not as_markdown or as_json:
        return print_findings(findings, as_json=as_json)
    code = exit_code(findings)
    write(markdown(page(findings, "failed" if code else "ok")))
    return code


def page(findings: Sequence[Finding], result: str) -> Page:
    """Return findings as a page."""
    rows = tuple((finding.check, finding.level, finding.message, finding.fix) for finding in findings)
    return Page(f"Tallybook: {result}", tables=(Table("", _COLUMNS, rows),))
