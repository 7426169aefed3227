"""The doctor's check of hooks: whether an agent is told to call them, trusts the folder, and how they really ran."""

from __future__ import annotations

import os
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger import clock
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.events import PlaybookInjected, PointCited, ReflectionRequested
from tallybook.ledger.storage import disk
from tallybook.ledger.verify import proven
from tallybook.projections.surfaces.doctor import hook_runs, hook_settings
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, age, counted
from tallybook.projections.surfaces.doctor.hook_runs import CANCELLED, FAILED, RAN
from tallybook.projections.surfaces.hooks import handler
from tallybook.projections.surfaces.install import places
from tallybook.projections.surfaces.install.hook_command import call_of, is_there
from tallybook.projections.surfaces.install.hook_entries import EVENTS, TIMEOUT_S
from tallybook.projections.surfaces.workspace import worktree
from tallybook.projections.surfaces.writing import secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tallybook.projections.surfaces.doctor.finding import Patient
    from tallybook.projections.surfaces.doctor.hook_runs import Run, Seen
    from tallybook.projections.surfaces.doctor.hook_settings import Setup
    from tallybook.projections.surfaces.install.hook_command import Call

_INSTALL: Final = "`tallybook init` lets Claude Code use it"
_SAID_CHARS: Final = 200
_OTHER: Final = "another event"

WORDS: Final[dict[type[Any], Callable[[Any], str]]] = {
    PlaybookInjected: lambda _: "a session was told the playbook",
    PointCited: lambda event: "an entry was cited" + ("" if event.where == "message" else " in what a tool was handed"),
    # A person asks for reflections as well.
    ReflectionRequested: lambda event: (
        f"{event.trigger} asked for a reflection" if event.trigger in handler.EVENTS else ""
    ),
}
"""Class of an event that hooks record → what is said of the last one; empty where no hook did."""


def hooks(patient: Patient) -> Iterator[Finding]:
    """Say whether hooks are installed, trusted and firing, how they ran, and what the last of them could not do."""
    setup = hook_settings.look(patient.project)
    seen = hook_runs.read(places.users_folder(), _session_folders(patient, setup))
    recorded = _recorded(patient)
    yield from _faults(setup)
    if setup.installed or setup.others or recorded or any(run.is_ours for run in seen.runs):
        signs = [run.at_us for run in seen.runs if run.is_ours and run.outcome == RAN]
        last_us = max([*signs, *map(clock.unix_us, recorded.values())], default=0)
        yield from _installed(setup)
        yield from _trusted(setup, seen, fired=bool(recorded) or any(run.is_ours for run in seen.runs))
        yield from _fired(seen.runs, recorded, patient)
        yield from _failed(setup, [run for run in seen.runs if run.at_us > last_us or not last_us], patient)
        yield from _cancelled(setup, seen.runs, patient)
    else:
        # Who has no such agent has nothing to mend.
        level = NOTE if hook_settings.is_used() or setup.files else OK
        yield Finding(level, "no settings of an agent's call Tallybook here, so none is told the playbook", _INSTALL)
    yield from _went_wrong(patient)


def _session_folders(patient: Patient, setup: Setup) -> list[str]:
    """Return the folders that sessions of this project may have been started in, as the agent may spell them."""
    project = patient.project
    start = project.start or project.root
    tops = worktree.folders(os.path.realpath(start))[-1:]
    folders = [os.path.abspath(one) for one in (*map(str, (project.root, start, setup.folder)), *tops)]
    return list(dict.fromkeys([*map(os.path.realpath, folders), *folders]))


def _recorded(patient: Patient) -> dict[str, str]:
    """Return what hooks recorded, as what is said of it → when that was last."""
    last: dict[str, str] = {}
    for batch in proven(patient.log) if patient.log.path.exists() else ():
        for record in batch.records if not WORDS.keys().isdisjoint(map(type, batch.events)) else ():
            words = WORDS.get(type(record.event))
            if words is not None and (said := words(record.event)):
                last[said] = record.at
    return last


# What the agent goes by


def _faults(setup: Setup) -> Iterator[Finding]:
    for file in setup.files:
        if file.fault:
            yield Finding(BAD, f"{file.path}: {file.fault}", "mend it: until then the agent ignores the file")


def _installed(setup: Setup) -> Iterator[Finding]:
    """Say which settings call us, for which events, and whether what they call is there."""
    files = setup.installed
    for other in setup.others:
        yield Finding(OK, f"installed in {other.path}, for {other.agent}", told=True)
        for named in filter(None, map(call_of, other.commands)):
            yield from _callable(named, str(other.path), "")
    if not files and setup.others:
        return
    if not files:
        what = f"hooks were called, and none stands in the settings that the agent reads in {setup.folder}"
        yield Finding(NOTE, what, _INSTALL)
        return
    where = " and ".join(str(file.path) for file in files)
    calls = [call for file in files for call in file.calls]
    missing = [event for event in EVENTS if event not in {event for event, _ in calls}]
    if missing:
        yield Finding(
            NOTE,
            f"{where}: nothing is called at {', '.join(missing)}",
            f"`tallybook init{_scope(setup)}` adds what is missing",
        )
    twice = ", where each is called twice and counts once" if len(calls) > len({event for event, _ in calls}) else ""
    if not missing:
        yield Finding(OK, f"installed in {where}{twice}")
    for call in dict.fromkeys(call_of(command) for _, command in calls):
        if call is not None:
            yield from _callable(call, where, _scope(setup))
    if setup.disabled_in is not None:
        what = f'{setup.disabled_in}: "disableAllHooks" is true, so the agent calls none'
        yield Finding(NOTE, what, "take it out, and hooks are called again")


def _scope(setup: Setup) -> str:
    """Return the option, with a space before it, that names the settings which it is installed in."""
    return " --user" if all(file.path.parent == places.users_folder() for file in setup.installed) else ""


def _callable(call: Call, where: str, scope: str) -> Iterator[Finding]:
    """Say what of that which a command line names is not there."""
    again = f"`tallybook init{scope}` names one that is"
    if not call.is_plain:
        again = f"`tallybook uninstall{scope}`, then {again}"
    if not call.python:
        if not is_there(call.program):
            what = f"{where}: {call.program}, which the hooks name, is not there or not on PATH"
            yield Finding(BAD, what, f"put its folder on PATH; or {again}")
        return
    started = (call.python, os.path.join(call.folder, call.module))
    missing = [path for path in started if not os.path.isfile(path)]
    if missing and is_there(call.program):
        what = f"{where}: {missing[0]}, which the hooks start, is gone; they call `{call.program}`, which is slower"
        yield Finding(NOTE, what, again)
    elif missing:
        what = f"{where}: neither {missing[0]} nor {call.program}, which the hooks name, is there, so they do nothing"
        yield Finding(BAD, what, again)


def _trusted(setup: Setup, seen: Seen, *, fired: bool) -> Iterator[Finding]:
    """Say whether the agent runs what its settings name."""
    if not setup.installed or setup.disabled_in is not None:
        return
    if fired:
        yield Finding(OK, "the agent runs them")
        return
    installed_us = max(file.changed_us for file in setup.installed)
    since = sum(changed_us > installed_us for changed_us in seen.changed_us)
    what = f"none was seen in the {counted(since, 'session')} held since" if since else "none has been called yet"
    if not hook_settings.trusts(setup):
        hint = f"start the agent in {setup.folder} and accept what it asks; `/hooks` in it shows what it would call"
        yield Finding(NOTE, f"{what}; the agent may not trust this folder yet", hint)
    elif since:
        yield Finding(NOTE, what, "end the agent and start it again; `/hooks` in it shows what it would call")
    else:
        yield Finding(OK, what)


# How they ran


def _fired(runs: Sequence[Run], recorded: dict[str, str], patient: Patient) -> Iterator[Finding]:
    """Say when hooks were called last, by what they recorded and by the transcripts, and how long they took."""
    told = [f"{said} {age(clock.unix_us(at), patient.now)} ago" for said, at in recorded.items()]
    if told:
        yield Finding(OK, "; ".join(told), told=True)
    for event, own in _by_event([run for run in runs if run.is_ours and run.outcome != CANCELLED]).items():
        times = sorted(run.time_ms for run in own if run.time_ms is not None)
        took = f", median {_median(times):,.0f} ms, longest {times[-1]:,.0f} ms" if times else ""
        failed = _part(sum(run.outcome == FAILED for run in own), len(own), "in vain")
        yield Finding(OK, f"{event}: called {_often(own, patient)}{failed}{took}", told=True)


def _median(times: Sequence[float]) -> float:
    return (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2


def _part(number: int, whole: int, what: str) -> str:
    """Return what holds for some of a whole, with a comma before it; empty where it holds for none."""
    return f", {what if number == whole else f'{number:,} of them {what}'}" if number else ""


def _by_event(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return runs by what they were called for, in the order in which that happens in a session."""
    found: dict[str, list[Run]] = {event: [] for event in (*handler.EVENTS, _OTHER)}
    for run in runs:
        found[run.event if run.event in handler.EVENTS else _OTHER].append(run)
    return {event: own for event, own in found.items() if own}


def _often(runs: Sequence[Run], patient: Patient) -> str:
    last_us = max(run.at_us for run in runs)
    ago = f", {'last ' if len(runs) > 1 else ''}{age(last_us, patient.now)} ago" if last_us else ""
    return f"{'once' if len(runs) == 1 else counted(len(runs), 'time')}{ago}"


def _cancelled(setup: Setup, runs: Sequence[Run], patient: Patient) -> Iterator[Finding]:
    """Say which hooks the agent, or a person's Esc, ended before they had."""
    for is_ours in (True, False):
        gone = [run for run in runs if run.outcome == CANCELLED and run.is_ours == is_ours]
        for event, own in _by_event(gone).items():
            if not is_ours and event not in EVENTS:
                continue  # Nobody would call us there.
            late = _part(sum(run.timed_out for run in own), len(own), "for taking too long")
            whose = "" if is_ours else "; the agent does not say whose"
            hint = f'`"timeout": {TIMEOUT_S}` beside its command in {_place(setup)} gives it so many seconds'
            hint += ", where all others share 1.5" if event == "SessionEnd" else "; a person's Esc cancels hooks, too"
            yield Finding(NOTE, f"{event}: a hook was cancelled {_often(own, patient)}{late}{whose}", hint)


def _failed(setup: Setup, runs: Sequence[Run], patient: Patient) -> Iterator[Finding]:
    """Say which hooks failed and have not run since: ours ends with 0 whatever happens, so it never began."""
    for event, own in _by_event([run for run in runs if run.outcome == FAILED]).items():
        last = max(own, key=lambda run: run.at_us)
        code = "failed" if last.code is None else f"ended with {last.code}"
        said = secrets.mask(last.said).text[:_SAID_CHARS] or "and said nothing"
        hint = f"give the command in {_place(setup)} its whole path; told until a hook runs again"
        yield Finding(BAD, f"{event}: a hook {code}, {_often(own, patient)}: {said}", hint)


def _place(setup: Setup) -> str:
    return str(setup.installed[0].path) if setup.installed else "the agent's settings"


def _went_wrong(patient: Patient) -> Iterator[Finding]:
    """Say what a hook, or the process behind it, could not do."""
    path = patient.project.ledger / handler.NOTE
    try:
        what = disk.read_file(path).decode("utf-8", "replace").strip()
    except (FileNotFoundError, CannotWriteError):
        return
    hint = f"`rm {quote(str(path))}` once that is mended"
    yield Finding(NOTE, f"a hook could not do all that it should: {what}", hint)
