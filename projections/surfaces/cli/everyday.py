"""The verbs of every day, which agents, hooks and CI call again and again: what each does with its options.

Without Click and, where the answer is JSON, without Rich: ``cli`` has their help, and ``plain`` reads their options
where they are spelled out. A verb takes its options under the names of its parameters in ``cli``, returns its exit
code, and raises for whatever goes wrong.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tallybook.ledger.encoding import strict_json
from tallybook.ledger.errors import EXIT_DAMAGED, EXIT_NO
from tallybook.projections.playbook.render import playbook_dict
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console import output
from tallybook.projections.surfaces.console.progress import METER
from tallybook.projections.surfaces.writing.requests import Rating

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallybook.projections.surfaces.workspace.project import Project


def add(project: Project, options: Mapping[str, Any]) -> int:
    """Add a new key point."""
    text = output.given_text(options["text"], "the text of the entry") or ""
    done = commands.add(project, text, output.said_by(options), options["key"], again=options["again"])
    output.told(done, as_json=options["as_json"])
    return 0


def rate(project: Project, options: Mapping[str, Any]) -> int:
    """Rate entries, in one batch."""
    given = Rating(options["names"], options["rating"], options["reason"])
    done = commands.rate_all(project, given, output.said_by(options), options["key"])
    output.told(done, as_json=options["as_json"], with_counts=True)
    return 0


def record(project: Project, options: Mapping[str, Any]) -> int:
    """Record an extraction result as one batch."""
    by = output.said_by(options)
    payload = strict_json.loads(*output.read_input(options["file"], "an extraction result, a JSON object"))
    output.told(commands.record(project, payload, by, options["key"]), as_json=options["as_json"])
    return 0


def stood(project: Project, when: str | None) -> commands.Then | None:
    """Return the playbook at a moment, None without one; what a person should hear of it goes to standard error."""
    then = None if when is None else commands.at(project, when)
    for line in () if then is None else then.notes:
        output.note(line)
    return then


def show(project: Project, options: Mapping[str, Any]) -> int:
    """Show the playbook, now or as it stood."""
    then = stood(project, options["when"])
    playbook = commands.show(project) if then is None else playbook_dict(then.playbook)
    if waits := commands.waiting(project):
        output.note(waits)
    if options["as_json"]:
        output.answer(playbook)
    else:
        _table(playbook, None if then is None else then.told)
    return 0


def _table(playbook: Mapping[str, Any], told: str | None = None) -> None:
    """Show a playbook to a person."""
    from tallybook.projections.surfaces.console import terminal

    terminal.playbook_table(terminal.console_for(sys.stdout), playbook["key_points"], playbook["last_updated"], told)


def verify(project: Project, options: Mapping[str, Any]) -> int:
    """Verify the ledger, from its first byte to its last."""
    from tallybook.projections.surfaces.console import verdict as verdicts

    verdict = commands.verify(project, METER.update, options["expect"])
    salvaged = commands.salvage(project) if options["salvaging"] else None
    drift = commands.drift(project) if verdict.ok else None
    code = EXIT_DAMAGED if not verdict.ok else 0 if drift is None else EXIT_NO
    if options["as_json"]:
        saved = {} if salvaged is None else {"missing": verdict.missing, "salvaged": salvaged}
        output.answer(verdicts.verdict_json(verdict, drift) | saved)
        return code
    for line in verdicts.verdict_lines(verdict, drift):
        output.say(line)
    if salvaged is not None:
        for first, last in verdict.missing:
            if last is None or last >= first:
                output.say(f"missing: seq {first} to {'the end' if last is None else last}")
        _table(salvaged)
    return code
