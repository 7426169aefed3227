"""The doctor's checks of hooks: whether agents call them, may run them, and find what they call."""

from __future__ import annotations

import json
from shlex import quote
from typing import TYPE_CHECKING

from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.events import PlaybookInjected, PointCited, ReflectionRequested
from tallybook.ledger.storage import disk
from tallybook.ledger.verification import read_verified
from tallybook.projections.surfaces.agents import installation, table
from tallybook.projections.surfaces.doctor import hook_files
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding
from tallybook.projections.surfaces.hooks import handler, ledger_access
from tallybook.projections.surfaces.hooks.injection import UNANSWERED
from tallybook.projections.surfaces.install import places, trust
from tallybook.projections.surfaces.install.hook_command import COMMAND, call_of, find_fault
from tallybook.projections.surfaces.install.hook_entries import own_calls, own_timeouts
from tallybook.projections.surfaces.workspace.installation import tool_command
from tallybook.projections.surfaces.workspace.project import MARKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tallybook.projections.surfaces.agents.installation import Installation
    from tallybook.projections.surfaces.doctor.finding import Context
    from tallybook.projections.surfaces.doctor.hook_files import HookFile
    from tallybook.projections.surfaces.install.hook_command import Call

# Seconds and milliseconds are further apart than any two timeouts that a person would choose.
_OTHER_UNIT = 50


def check_hooks(context: Context) -> Iterator[Finding]:
    """Check, for each agent that is here, that its hooks are installed and can run; report the last hook error."""
    folder = hook_files.start_folder(context.project)
    read = {name: hook_files.read_files(name, folder) for name in table.AGENTS}
    calling = {name: [file for file in read[name] if file.commands] for name in table.AGENTS}
    for name in table.AGENTS:
        files = installation.load(name)
        # Another agent may be able to read what this reader cannot.
        level = BAD if name == table.CLAUDE else NOTE
        for file in read[name]:
            if file.fault and file.is_init_s:
                yield Finding(level, f"{file.path}: {file.fault}", "correct it; until then the agent ignores the file")
        own = calling[name]
        served = files.runs and any(file.path.is_relative_to(folder) for file in calling[files.runs])
        if own:
            yield from _check_installed(name, files, own, folder)
        elif not served and _is_used(name, files, read[name], folder):
            # An agent that is not wanted here is no fault where another gets the playbook.
            level = OK if any(calling.values()) else NOTE
            message = f"{files.title} is here, and none of its settings call Tallybook"
            yield Finding(level, message, f"run `tallybook init{_option(name)}` to install the hooks")
    yield from _check_claude(context, read[table.CLAUDE], calling[table.CLAUDE], folder)
    yield from _unanswered(context)
    yield from _last_error(context)


def _is_used(name: str, files: Installation, read: Sequence[HookFile], folder: Path) -> bool:
    if name == table.CLAUDE:
        return bool(read) or hook_files.has_claude()
    return places.is_used(places.InstallTarget(folder), files)


def _option(name: str) -> str:
    return "" if name == table.CLAUDE else f" {name}"


def _check_installed(name: str, files: Installation, own: Sequence[HookFile], folder: Path) -> Iterator[Finding]:
    """Report on the files of an agent that call Tallybook: events, programs, timeouts, and the agent's own switches."""
    init_s = [file for file in own if file.is_init_s]
    is_users = all(not file.path.is_relative_to(folder / files.folder) for file in init_s)
    scope = f"{' --user' if is_users else ''}{_option(name)}"
    for file in own:
        yield Finding(OK, f"installed in {file.path}, for {file.reader}")
        for call in dict.fromkeys(filter(None, map(call_of, file.commands))):
            yield from _missing_programs(call, file, _repair(call, scope) if file.is_init_s else "correct it there")
        yield from _wrong_timeouts(files, file)
        yield from _not_run(files, file, folder)
    called = {event for file in own for event, _ in own_calls(file.document, files)}
    if init_s and (missing := [event for event in files.events if event not in called]):
        where = " and ".join(str(file.path) for file in init_s)
        yield Finding(NOTE, f"{where}: no hook for {', '.join(missing)}", f"run `tallybook init{scope}` to add them")


def _repair(call: Call, scope: str) -> str:
    """Return how ``init`` writes a working command; it leaves alone a line that somebody extended."""
    if call.is_plain:
        return f"run `tallybook init{scope}` to write a working command"
    return f"run `tallybook uninstall{scope}`, then `tallybook init{scope}`"


def _missing_programs(call: Call, file: HookFile, repair: str) -> Iterator[Finding]:
    """Report the programs of a hook's command line that no shell finds, or that other machines do not have."""
    where = file.path
    if (call.python or call.program != COMMAND) and places.is_shared(where, unknown=False):
        message = f"git tracks {where}, whose hooks name programs of this machine"
        yield Finding(NOTE, message, f"{repair}, which other machines find as well")
    fault, runs = find_fault(call)
    if fault and call.program == COMMAND and not call.python:
        # In a file that git tracks, `init` writes this very command.
        repair = f"run `{tool_command()}`" + ("" if places.is_shared(where) else f", or {repair}")
    elif fault and not call.python:
        repair = f"put its folder on PATH, or {repair}"
    if fault:
        yield Finding(NOTE if runs else BAD, f"{where}: the hooks {fault}", repair)


def _wrong_timeouts(files: Installation, file: HookFile) -> Iterator[Finding]:
    """Report timeouts that were meant in another unit than the agent's."""
    for event, value in own_timeouts(file.document, files):
        expected = files.events.get(event, max(files.events.values()))
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if not value * _OTHER_UNIT > expected > value / _OTHER_UNIT:
            unit = "milliseconds" if expected >= 1000 else "seconds"  # noqa: PLR2004 - no hook gets a thousand seconds
            message = f"{file.path}: the timeout of {event} is {value}, and {files.title} counts in {unit}"
            yield Finding(NOTE, message, f"write {expected} there")


def _not_run(files: Installation, file: HookFile, folder: Path) -> Iterator[Finding]:
    """Report the hooks that Codex CLI does not run, as its own record says: not trusted, or switched off."""
    # The file of a plugin has the name of that of `init`.
    if not files.record_of_trust or file.path.name != files.file:
        return
    calls = {event for event, _ in own_calls(file.document, files)}
    trusted, off = trust.trusted_events(files, file.path), trust.switched_off_events(files, file.path)
    if waiting := [event for event in files.events if event in calls - trusted]:
        message = f"{files.title} has no record of trust in the hooks for {', '.join(waiting)}, and does not run them"
        yield Finding(NOTE, message, f"start {files.programs[0]} in {folder} and trust the hooks")
    if switched_off := [event for event in files.events if event in calls & off]:
        message = f"{files.title} has the hooks for {', '.join(switched_off)} switched off, and does not run them"
        where = f"its interface, or {trust.record_of_trust(files)}"
        yield Finding(NOTE, message, f"switch them on in {where}, if that was not meant")


def _check_claude(
    context: Context, read: Sequence[HookFile], own: Sequence[HookFile], folder: Path
) -> Iterator[Finding]:
    """Report where Claude Code runs no hooks: switched off, or in a folder that it may not trust."""
    switches = ((file, file.document.get("disableAllHooks")) for file in hook_files.deciding(read))
    decision = next(((file, is_off) for file, is_off in switches if isinstance(is_off, bool)), None)
    if own and decision is not None and decision[1]:
        message = f'{decision[0].path}: "disableAllHooks" is true, so the agent calls no hook'
        yield Finding(NOTE, message, "remove it")
        return
    calls = filter(None, (call_of(line) for file in own if file.is_init_s for line in file.commands))
    # Where no shell finds the program, trust would not start it.
    if any(not find_fault(call)[0] for call in calls) and not hook_files.is_trusted(folder) and not _has_run(context):
        fix = f"start the agent in {folder} and accept the question about trust; `/hooks` there lists its hooks"
        yield Finding(NOTE, "no hook has run yet; the agent may not trust this folder yet", fix)


def _has_run(context: Context) -> bool:
    """Say whether a hook has recorded an event; a reflection that a person requested has another trigger."""
    events = (event for batch in read_verified(context.log) for event in batch.events) if context.log.exists() else ()
    return any(
        isinstance(event, PlaybookInjected | PointCited)
        or (isinstance(event, ReflectionRequested) and event.trigger in handler.ACTIONS)
        for event in events
    )


def _unanswered(context: Context) -> Iterator[Finding]:
    """Report a caller that was not recognised and so was given nothing."""
    path = context.project.ledger / MARKS / UNANSWERED
    try:
        document = json.loads(disk.read_file(path))
    except (OSError, ValueError, RecursionError, CannotWriteError):
        return
    # An agent whose hooks take no answer is known, and nothing fixes that.
    if not isinstance(document, dict) or document.get("agent") in tuple(table.AGENTS) or "marks" not in document:
        return
    listed = document.get("marks")
    marks = [mark for mark in listed if isinstance(mark, str)] if isinstance(listed, list) else []
    named = f"its marks disagree: {', '.join(marks)}" if marks else "nothing in it or its environment names an agent"
    message = f"the last caller that was not recognised, at {document.get('event')}, was given nothing; {named}"
    fix = "`tallybook show` and `tallybook mcp` give it the playbook"
    if inherited := [mark for mark in marks if mark in table.VARIABLES]:
        fix = f"start it without {' and '.join(inherited)} in its environment"
    yield Finding(NOTE, message, f"{fix}; run `rm {quote(str(path))}` once that is fixed")


def _last_error(context: Context) -> Iterator[Finding]:
    """Report the last error that a hook, or the process that it started, left in its note."""
    path = context.project.ledger / ledger_access.ERROR_FILE
    try:
        message = disk.read_file(path).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return
    except CannotWriteError as error:
        message = f"cannot be read: {error.reason}"
    yield Finding(NOTE, f"the last hook error: {message}", f"run `rm {quote(str(path))}` once that is fixed")
