"""The doctor's check of hooks: whether they are installed and trusted, and how they ran."""

from __future__ import annotations

import os
from shlex import quote
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger import clock
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.events import PlaybookInjected, PointCited, ReflectionRequested
from tallybook.ledger.storage import disk
from tallybook.ledger.verification import read_verified
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.doctor import agents, hook_runs, hook_settings
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding
from tallybook.projections.surfaces.doctor.hook_runs import CANCELLED, FAILED, SUCCEEDED
from tallybook.projections.surfaces.doctor.hook_settings import CLAUDE_FILES
from tallybook.projections.surfaces.hooks import handler, ledger_access
from tallybook.projections.surfaces.install import places
from tallybook.projections.surfaces.install.hook_command import call_of, is_found
from tallybook.projections.surfaces.workspace.project import repository_folders
from tallybook.projections.surfaces.writing import secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tallybook.projections.surfaces.doctor.finding import Context
    from tallybook.projections.surfaces.doctor.hook_runs import Run, TranscriptRuns
    from tallybook.projections.surfaces.doctor.hook_settings import Setup
    from tallybook.projections.surfaces.install.hook_command import Call

_INSTALL: Final = "run `tallybook init` to install the hooks"
_MAX_STDERR_CHARS: Final = 200
_OTHER_EVENT: Final = "another event"

DESCRIPTIONS: Final[dict[type[Any], Callable[[Any], str]]] = {
    PlaybookInjected: lambda _: "the playbook was injected",
    PointCited: lambda event: "an entry was cited" + ("" if event.where == "message" else " in a tool's input"),
    # A request that a person made has another trigger and is not a hook's.
    ReflectionRequested: lambda event: (
        f"{event.trigger} asked for a reflection" if event.trigger in handler.ACTIONS else ""
    ),
}
"""Class of an event that hooks record → the words that name it; empty where no hook recorded it."""


def check_hooks(context: Context) -> Iterator[Finding]:
    """Check that hooks are installed, trusted and called; report how they ran and the last hook error."""
    setup = hook_settings.read_setup(context.project)
    transcripts = hook_runs.read_runs(places.users_folder(), _session_folders(context, setup))
    last_recorded = _last_recorded(context)
    for file in setup.files:
        if file.fault:
            yield Finding(BAD, f"{file.path}: {file.fault}", "correct it; until then the agent ignores the file")
    has_run = bool(last_recorded) or any(run.is_ours for run in transcripts.runs)
    if setup.installed or setup.others or has_run:
        signs = [run.at_us for run in transcripts.runs if run.is_ours and run.outcome == SUCCEEDED]
        last_us = max([*signs, *map(clock.to_unix_us, last_recorded.values())], default=0)
        yield from _installation(setup)
        yield from _trust(setup, transcripts, has_run=has_run)
        yield from _calls(transcripts.runs, last_recorded, context)
        yield from _failures(setup, [run for run in transcripts.runs if run.at_us > last_us or not last_us], context)
        yield from _cancellations(setup, transcripts.runs, context)
    else:
        # Without an agent there is nothing to fix.
        level = NOTE if hook_settings.is_used() or setup.files else OK
        yield Finding(level, "no agent's settings call Tallybook here, so no session gets the playbook", _INSTALL)
    yield from agents.check_agents(setup, context)
    yield from _last_error(context)


def _session_folders(context: Context, setup: Setup) -> list[str]:
    """Return the folders in which sessions of this project may have started, in every spelling the agent may use."""
    project = context.project
    start = project.start or project.root
    tops = repository_folders(os.path.realpath(start))[-1:]
    folders = [os.path.abspath(one) for one in (*map(str, (project.root, start, setup.folder)), *tops)]
    return list(dict.fromkeys([*map(os.path.realpath, folders), *folders]))


def _last_recorded(context: Context) -> dict[str, str]:
    """Return the description of each kind of event that hooks recorded → the time of the last one."""
    last: dict[str, str] = {}
    for batch in read_verified(context.log) if context.log.path.exists() else ():
        for record in batch.records if not DESCRIPTIONS.keys().isdisjoint(map(type, batch.events)) else ():
            describe = DESCRIPTIONS.get(type(record.event))
            if describe is not None and (description := describe(record.event)):
                last[description] = record.at
    return last


# Settings and trust


def _installation(setup: Setup) -> Iterator[Finding]:
    """Report which settings call Tallybook, for which events, and whether the programs that they name exist."""
    plugins = [other for other in setup.others if not other.name]
    for plugin in plugins:
        yield Finding(OK, f"installed in {plugin.path}, for {plugin.agent}", is_always_shown=True)
        for plugin_call in filter(None, map(call_of, plugin.commands)):
            yield from agents.missing_programs(
                plugin_call, plugin.path, str(plugin.path), "correct the command in that file"
            )
    if not setup.installed:
        if not setup.others:
            message = f"hooks were called earlier, but the settings that the agent reads in {setup.folder} have none"
            yield Finding(NOTE, message, _INSTALL)
        elif not plugins and hook_settings.is_used():
            message = f"{CLAUDE_FILES.title} is here, and none of its settings call Tallybook"
            yield Finding(OK, message, _INSTALL, is_always_shown=True)
        return
    yield from _installation_of_claude(setup)


def _installation_of_claude(setup: Setup) -> Iterator[Finding]:
    """Report the same of Claude Code's settings."""
    where = " and ".join(str(file.path) for file in setup.installed)
    calls = [call for file in setup.installed for call in file.calls]
    events = {event for event, _ in calls}
    if missing := [event for event in CLAUDE_FILES.events if event not in events]:
        fix = f"run `tallybook init{_scope(setup)}` to add them"
        yield Finding(NOTE, f"{where}: no hook for {', '.join(missing)}", fix)
    else:
        twice = "; each is called twice and counts once" if len(calls) > len(events) else ""
        yield Finding(OK, f"installed in {where}{twice}")
    for call in _claude_calls(setup):
        yield from agents.missing_programs(call, setup.installed[0].path, where, _repair(call, _scope(setup)))
    for file in setup.installed:
        yield from agents.wrong_timeouts(CLAUDE_FILES, file.path, file.timeouts)
    if setup.disabled_in is not None:
        message = f'{setup.disabled_in}: "disableAllHooks" is true, so the agent calls no hook'
        yield Finding(NOTE, message, "remove it")


def _claude_calls(setup: Setup) -> list[Call]:
    """Return how the command lines in Claude Code's settings call Tallybook, each way once."""
    found = [call_of(command) for file in setup.installed for _, command in file.calls]
    return list(dict.fromkeys(call for call in found if call is not None))


def _scope(setup: Setup) -> str:
    """Return the option of ``init``, with a space before it, for the settings in which the hooks are installed."""
    return " --user" if all(file.path.parent == places.users_folder() for file in setup.installed) else ""


def _repair(call: Call, scope: str) -> str:
    """Return how ``init`` writes a working command into Claude Code's settings; it changes no other file."""
    if call.is_plain:
        return f"run `tallybook init{scope}` to write a working command"
    return f"run `tallybook uninstall{scope}`, then `tallybook init{scope}`"


def _trust(setup: Setup, transcripts: TranscriptRuns, *, has_run: bool) -> Iterator[Finding]:
    """Report whether the agent runs the hooks that its settings name."""
    if not setup.installed or setup.disabled_in is not None:
        return
    if has_run:
        yield Finding(OK, "the agent runs them")
        return
    installed_us = max(file.changed_us for file in setup.installed)
    since = sum(changed_us > installed_us for changed_us in transcripts.changed_us)
    message = "no hook has run yet"
    if since:
        message = f"no hook ran in the {format_count(since, 'session')} since the installation"
    if not any(is_found(call) for call in _claude_calls(setup)):
        # Trust would not start them; `_installation_of_claude` says what would.
        yield Finding(OK, message)
    elif not hook_settings.trusts(setup):
        fix = f"start the agent in {setup.folder} and accept the question about trust; `/hooks` there lists its hooks"
        yield Finding(NOTE, f"{message}; the agent may not trust this folder yet", fix)
    elif since:
        yield Finding(NOTE, message, "restart the agent; `/hooks` there lists its hooks")
    else:
        yield Finding(OK, message)


# Calls


def _calls(runs: Sequence[Run], last_recorded: dict[str, str], context: Context) -> Iterator[Finding]:
    """Report when hooks ran last, by the ledger and by transcripts, and how long they took."""
    if last_recorded:
        parts = (f"{description} {context.age(at)} ago" for description, at in last_recorded.items())
        yield Finding(OK, "; ".join(parts), is_always_shown=True)
    for event, event_runs in _by_event([run for run in runs if run.is_ours and run.outcome != CANCELLED]).items():
        times = [run.time_ms for run in event_runs if run.time_ms is not None]
        took = f", median {median(times):,.0f} ms, longest {max(times):,.0f} ms" if times else ""
        failures = _share_of(sum(run.outcome == FAILED for run in event_runs), len(event_runs), "failed")
        yield Finding(OK, f"{event}: called {_how_often(event_runs, context)}{failures}{took}", is_always_shown=True)


def _share_of(number: int, whole: int, message: str) -> str:
    """Return how many runs of all share a property, with a comma before it; empty for none."""
    return f", {message if number == whole else f'{number:,} of them {message}'}" if number else ""


def _by_event(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return runs by their event, in the order in which events happen in a session."""
    by_event: dict[str, list[Run]] = {event: [] for event in (*handler.ACTIONS, _OTHER_EVENT)}
    for run in runs:
        by_event[run.event if run.event in handler.ACTIONS else _OTHER_EVENT].append(run)
    return {event: event_runs for event, event_runs in by_event.items() if event_runs}


def _how_often(runs: Sequence[Run], context: Context) -> str:
    last_us = max(run.at_us for run in runs)
    ago = f", {'last ' if len(runs) > 1 else ''}{context.age(last_us)} ago" if last_us else ""
    return f"{'once' if len(runs) == 1 else format_count(len(runs), 'time')}{ago}"


def _cancellations(setup: Setup, runs: Sequence[Run], context: Context) -> Iterator[Finding]:
    """Report hooks that the agent, or a person's Esc, cancelled."""
    for is_ours in (True, False):
        cancelled = [run for run in runs if run.outcome == CANCELLED and run.is_ours == is_ours]
        for event, event_runs in _by_event(cancelled).items():
            if not is_ours and event not in CLAUDE_FILES.events:
                continue  # Tallybook installs no hook for this event.
            timeouts = _share_of(sum(run.timed_out for run in event_runs), len(event_runs), "for taking too long")
            whose = "" if is_ours else "; the agent does not say whose hook"
            timeout_s = CLAUDE_FILES.events.get(event, max(CLAUDE_FILES.events.values()))
            fix = f'`"timeout": {timeout_s}` next to its command in {_place(setup)} gives it {timeout_s} seconds'
            fix += " instead of a share of 1.5" if event == "SessionEnd" else "; a person's Esc cancels hooks as well"
            message = f"{event}: a hook was cancelled {_how_often(event_runs, context)}{timeouts}{whose}"
            yield Finding(NOTE, message, fix)


def _failures(setup: Setup, runs: Sequence[Run], context: Context) -> Iterator[Finding]:
    """Report hooks that failed and have not run since.

    Tallybook's hook always ends with exit code 0, so a hook that failed never started.
    """
    for event, event_runs in _by_event([run for run in runs if run.outcome == FAILED]).items():
        last = max(event_runs, key=lambda run: run.at_us)
        code = "failed" if last.code is None else f"ended with {last.code}"
        description = secrets.mask(last.stderr).text[:_MAX_STDERR_CHARS] or "no message"
        fix = f"write the command in {_place(setup)} with its full path; this is shown until a hook runs"
        yield Finding(BAD, f"{event}: a hook {code}, {_how_often(event_runs, context)}: {description}", fix)


def _place(setup: Setup) -> str:
    return str(setup.installed[0].path) if setup.installed else "the agent's settings"


def _last_error(context: Context) -> Iterator[Finding]:
    """Report the last error that a hook, or the process that it started, left in its note."""
    path = context.project.ledger / ledger_access.ERROR_FILE
    try:
        message = disk.read_file(path).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return
    except CannotWriteError as error:
        message = f"cannot be read: {error.reason}"
    fix = f"run `rm {quote(str(path))}` once that is fixed"
    yield Finding(NOTE, f"the last hook error: {message}", fix)
