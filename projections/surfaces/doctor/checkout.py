"""The checks of a checkout, for the verb `check`: what `verify`, `replay --check` and `score gate` find in it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.doctor import ledger
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding
from tallybook.projections.surfaces.scores import rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallybook.projections.scores.trends import GateQuery
    from tallybook.projections.surfaces.doctor.finding import Check, Context
    from tallybook.projections.surfaces.workspace.project import Project

_TRACK = "run `git add -f .claude/ledger/events.jsonl .claude/ledger/head` where the ledger is, and commit"


def checks(query: GateQuery, *, if_present: bool = False) -> tuple[tuple[str, Check, str], ...]:
    """Return the table of the checks, as `checks.CHECKS` is one.

    Args:
        query: The question to the gate.
        if_present: Whether a checkout without a ledger passes.
    """
    return (
        ("ledger", partial(check_ledger, if_present=if_present), ""),
        ("head", ledger.check_head, "it is there"),
        ("playbook.json", partial(compare, commands.check), "equals the replay of the ledger"),
        ("score files", partial(compare, rebuild.check), "equal the replay of the ledger"),
        ("files of agents", check_exports, ""),
        ("gate", partial(check_gate, query), ""),
    )


def check_ledger(context: Context, *, if_present: bool) -> Iterator[Finding]:
    """Verify the ledger; without one there is nothing that a check could rely on."""
    if context.log.exists():
        yield from ledger.check_ledger(context)
    elif if_present:
        yield Finding(NOTE, "no ledger here, so nothing is checked")
    else:
        yield Finding(BAD, "no ledger in this checkout: track it", _TRACK)


def compare(check: Callable[[Project], None], context: Context) -> Iterator[Finding]:
    """Report a file that differs from the ledger."""
    if not context.log.exists():
        return
    try:
        check(context.project)
    except commands.DriftError as error:
        message, _, fix = str(error).rpartition("; ")
        yield Finding(BAD, message, f"{fix}; then commit the file")


def check_exports(context: Context) -> Iterator[Finding]:
    """Report a file of agents whose block is not what the playbook says."""
    if context.log.exists():
        from tallybook.projections.surfaces.selection import exported

        for name, what in exported.find_old(context.project):
            yield Finding(BAD, f"{name}: {what}", f"`tallybook export agents-md {name}`, then commit the file")


def check_gate(query: GateQuery, context: Context) -> Iterator[Finding]:
    """Ask the gate, unless nothing was ever measured."""
    if not context.log.exists():
        return
    if not rebuild.has_scores(context.project):
        yield Finding(NOTE, "nothing was measured, so there is no score to judge")
        return
    from tallybook.projections.scores.trends import METHODS
    from tallybook.projections.surfaces.scores.cli import FEED, ask

    answered, _ = ask(context.project, query)
    if answered.open:
        yield Finding(OK, "open", "`tallybook score gate` shows its bounds")
    for reason in answered.reasons:
        fix = f"`tallybook score baseline {reason.score_id}` acknowledges it" if reason.rule in METHODS else ""
        if reason.closes and reason.bound is None:
            fix = FEED
        yield Finding(BAD if reason.closes else NOTE, reason.text, fix)
