"""The tables of checks: those of `doctor`, and those of a checkout for the verb `check`.

To add a check of `doctor`: write a function of the type `Check` in the module of its subject, and give it a row.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.doctor import agents, ledger, settings
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding
from tallybook.projections.surfaces.scores import files as score_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tallybook.projections.scores.trends import GateQuery
    from tallybook.projections.surfaces.doctor.finding import Check, Context
    from tallybook.projections.surfaces.workspace.project import Project

CHECKS: Mapping[str, Check] = {
    "ledger": ledger.check_ledger,
    "playbook.json": ledger.check_playbook_file,
    "head": ledger.check_head,
    "lock": ledger.check_locks,
    "spool": ledger.check_spool,
    "hooks": agents.check_hooks,
    "reflection": agents.check_reflection,
    "marks": agents.check_marks,
    "entries": ledger.check_entries,
    "redaction": ledger.check_redaction,
    "secrets": ledger.check_secrets,
    "settings": settings.check_settings,
    "modes": settings.check_modes,
    "git": settings.check_git,
    "sharing": settings.check_sharing,
    "own playbook": settings.check_personal,
}
"""Name of a check, as findings show it → its function. Checks run in this order and do not depend on each other."""


def checkout_checks(query: GateQuery, *, if_present: bool = False) -> dict[str, Check]:
    """Return what `verify`, `replay --check` and `score gate` check in a checkout, as a table like CHECKS.

    Args:
        query: The question to the gate.
        if_present: Whether a checkout without a ledger passes.
    """
    table: dict[str, Check] = {
        "head": ledger.check_head,
        "playbook.json": partial(_compare, commands.check),
        "score files": partial(_compare, score_files.check),
        "files of agents": _check_exports,
        "gate": partial(_check_gate, query),
    }
    present = {name: partial(_where_present, check) for name, check in table.items()}
    return {"ledger": partial(_check_tracked, if_present=if_present), **present}


def _where_present(check: Check, context: Context) -> Iterator[Finding]:
    if context.log.exists():
        yield from check(context)


def _check_tracked(context: Context, *, if_present: bool) -> Iterator[Finding]:
    """Verify the ledger; without one there is nothing that a check could rely on."""
    if context.log.exists():
        yield from ledger.check_ledger(context)
    elif if_present:
        yield Finding(NOTE, "no ledger here, so nothing is checked")
    else:
        fix = "run `git add -f .claude/ledger/events.jsonl .claude/ledger/head` where the ledger is, and commit"
        yield Finding(BAD, "no ledger in this checkout: track it", fix)


def _compare(check: Callable[[Project], None], context: Context) -> Iterator[Finding]:
    """Report a file that differs from the ledger."""
    try:
        check(context.project)
    except commands.DriftError as error:
        message, _, fix = str(error).rpartition("; ")
        yield Finding(BAD, message, f"{fix}; then commit the file")


def _check_exports(context: Context) -> Iterator[Finding]:
    """Report a file of agents whose block is not what the playbook says."""
    from tallybook.projections.surfaces.selection import exported

    for name, what, fix in exported.find_old(context.project):
        yield Finding(BAD, f"{name}: {what}", f"{fix}, then commit the file")


def _check_gate(query: GateQuery, context: Context) -> Iterator[Finding]:
    """Ask the gate, unless nothing was ever measured."""
    if not score_files.has_scores(context.project):
        yield Finding(NOTE, "nothing was measured, so there is no score to judge")
        return
    from tallybook.projections.scores.trends import METHODS
    from tallybook.projections.surfaces.scores.answers import FEED, ask_gate

    answered, _ = ask_gate(context.project, query)
    if answered.open:
        yield Finding(OK, "open", "`tallybook score gate` shows its bounds")
    for reason in answered.reasons:
        fix = f"`tallybook score baseline {reason.score_id}` acknowledges it" if reason.rule in METHODS else ""
        if reason.closes and reason.bound is None:
            fix = FEED
        yield Finding(BAD if reason.closes else NOTE, reason.text, fix)
