"""The verbs that check and rebuild: doctor, verify, replay, import."""

from __future__ import annotations

import os
from pathlib import Path
import sys
from typing import TYPE_CHECKING

import click

from tallybook.ledger.errors import EXIT_DAMAGED, EXIT_NO, BadInputError, CannotWriteError
from tallybook.ledger.storage.disk import reason
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.options import as_json, at_when, read_input
from tallybook.projections.surfaces.console.output import METER, answer, format_count, note, say

if TYPE_CHECKING:
    from tallybook.projections.surfaces.workspace.project import Project


@click.command(epilog="Example: tallybook doctor --json")
@as_json
@click.pass_obj
def doctor(project: Project, /, *, as_json: bool) -> int:
    """Check the ledger, hooks and settings, and suggest fixes.

    Nothing is changed.
    """
    from tallybook.projections.surfaces.doctor import checks

    return checks.print_findings(checks.run_checks(project, METER.update), as_json=as_json)


@click.command(epilog="Example: tallybook verify --json")
@click.option("--expect", metavar="SEQ:CHAIN", help="Require this event and chain, noted elsewhere before.")
@click.option("--salvage", "salvaging", is_flag=True, help="Show the playbook folded from the undamaged events.")
@as_json
@click.pass_obj
def verify(project: Project, /, *, expect: str | None, salvaging: bool, as_json: bool) -> int:
    """Verify every event of the ledger.

    Exit code 1: playbook.json differs from the ledger. Exit code 3: the ledger is damaged.
    """
    from tallybook.projections.surfaces.console import verdict as verdicts

    verdict = commands.verify(project, METER.update, expect)
    salvaged = commands.salvage(project) if salvaging else None
    drift = commands.drift(project) if verdict.ok else None
    code = EXIT_DAMAGED if not verdict.ok else 0 if drift is None else EXIT_NO
    if as_json:
        saved = {} if salvaged is None else {"missing": verdict.missing, "salvaged": salvaged}
        answer(verdicts.verdict_json(verdict, drift) | saved)
        return code
    for line in verdicts.verdict_lines(verdict, drift):
        say(line)
    if salvaged is not None:
        from tallybook.projections.surfaces.console import terminal

        for first, last in verdict.missing:
            if last is None or last >= first:
                say(f"missing: events {first} to {'the end' if last is None else last}")
        console = terminal.console_for(sys.stdout)
        terminal.playbook_table(console, salvaged["key_points"], salvaged["last_updated"])
    return code


@click.command(epilog="Example: tallybook replay --at 2d --output before.json")
@at_when
@click.option("--output", metavar="FILE", help="Write to FILE instead; - is standard output.")
@click.option("--check", "checking", is_flag=True, help="Write nothing; exit with 1 if a file differs.")
@click.option("--no-verify", "unverified", is_flag=True, help="Skip the chain: faster, but changes go unnoticed.")
@as_json
@click.pass_obj
def replay(project: Project, /, *, when: str | None, output: str | None, as_json: bool, **how: bool) -> None:
    """Rebuild playbook.json from the ledger.

    With --at, the playbook as of that moment is printed, or written to --output. So it is with --no-verify, which
    never writes playbook.json.
    """
    unverified = how["unverified"]
    if how["checking"]:
        if not (when is None and output is None):
            raise BadInputError("--check", "excludes --at and --output", "leave them out")
        if unverified:
            raise BadInputError("--check", "verifies the ledger first", "leave out --no-verify")
        _check(project, as_json=as_json)
        return
    then = _unverified(project, when) if unverified else None if when is None else commands.at(project, when)
    note(*(() if then is None else then.notes))
    if output == "-" or (then is not None and output is None):
        sys.stdout.buffer.write(commands.replay_bytes(project, then))
    elif output is not None:
        commands.write_replay(project, then, Path(output))
        if as_json:
            answer({"path": output, "result": "written"} | ({"verified": False} if unverified else {}))
        else:
            moment = "" if then is None else f", as of {then.told}"
            say(f"{output} written{moment}{', not verified' if unverified else ''}")
    else:
        _rebuild(project, as_json=as_json)


def _unverified(project: Project, when: str | None) -> commands.Then:
    """Return the playbook now or as of a moment, without comparing any chain value."""
    from tallybook.projections.surfaces.history.as_of import unproven

    found = unproven(project, when)
    return commands.Then(found.state, found.told, found.notes)


def _check(project: Project, *, as_json: bool) -> None:
    """Compare playbook.json and the score files with the ledger."""
    from tallybook.projections.surfaces.scores import rebuild

    commands.check(project)
    rebuild.check(project)
    _print_result(project, "is what the ledger says", as_json=as_json)


def _rebuild(project: Project, *, as_json: bool) -> None:
    """Write playbook.json and the score files."""
    from tallybook.projections.surfaces.scores import rebuild

    try:
        commands.replay(project)
        # The score files come before the answer, so that no error follows an answer that says all is well.
        notes = list(rebuild.rebuild(project))
    except OSError as error:
        # `run_guarded` excuses an error once an edit is recorded; who asks for a replay asks for the files.
        raise CannotWriteError(project.playbook, reason(error), "the ledger is intact; try again") from error
    if os.path.lexists(project.playbook):
        _print_result(project, "written", as_json=as_json)
    else:
        _print_result(project, "not begun", ": the ledger has no event of a playbook", as_json=as_json)
    note(*notes)


def _print_result(project: Project, result: str, why: str = "", *, as_json: bool) -> None:
    if as_json:
        answer({"path": str(project.playbook), "result": result})
    else:
        say(f"{project.playbook} {result}{why}")


@click.command("import", epilog="Example: tallybook import .claude/playbook.json")
@click.argument("file")
@as_json
@click.pass_obj
def import_(project: Project, /, *, file: str, as_json: bool) -> None:
    """Import an existing playbook.json.

    Its entries become events of the ledger. The same file a second time adds nothing.
    """
    data, source = read_input(file, "a playbook, as JSON")
    done = commands.import_file(project, data, source)
    if as_json:
        answer({"imported": done.imported, "skipped": done.skipped, "problems": list(done.problems)})
        return
    entries = f"{format_count(done.imported, 'entry', 'entries')} imported from {source}"
    again = "; this file was imported before" if done.repeated else ""
    say(entries + (f", {done.skipped} skipped" if done.skipped else "") + again)
    if done.problems:
        from tallybook.projections.surfaces.console import terminal

        terminal.problems(terminal.console_for(sys.stdout), done.problems)
