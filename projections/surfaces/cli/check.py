"""The verb `check`: what `verify`, `replay --check` and `score gate` find, in one answer for CI and for git hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallybook.projections.scores.trends import GateQuery
from tallybook.projections.surfaces.cli.scores import gate_options
from tallybook.projections.surfaces.console.options import Verb
from tallybook.projections.surfaces.console.output import METER, write
from tallybook.projections.surfaces.doctor.checks import checkout_checks
from tallybook.projections.surfaces.doctor.finding import exit_code, print_findings, run_checks
from tallybook.projections.surfaces.scores.configuration import load, score_named
from tallybook.projections.surfaces.scores.pages import Page, Table, markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.projections.surfaces.doctor.finding import Finding
    from tallybook.projections.surfaces.workspace.project import Project

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
    findings = run_checks(project, table, METER.update)
    if not as_markdown or as_json:
        return print_findings(findings, as_json=as_json)
    code = exit_code(findings)
    write(markdown(page(findings, "failed" if code else "ok")))
    return code


def page(findings: Sequence[Finding], result: str) -> Page:
    """Return findings as a page."""
    rows = tuple((finding.check, finding.level, finding.message, finding.fix) for finding in findings)
    return Page(f"Tallybook: {result}", tables=(Table("", _COLUMNS, rows),))
