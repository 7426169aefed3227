"""The doctor's checks of the agents apart from Claude Code, of what sessions got no playbook, and of who cites."""

from __future__ import annotations

import json
import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from tallybook.ledger import clock
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.events import PlaybookInjected, PointCited, TranscriptRead
from tallybook.ledger.storage import disk
from tallybook.ledger.verification import read_verified
from tallybook.projections.surfaces.agents import installation, table
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.doctor import hook_settings
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, format_names
from tallybook.projections.surfaces.hooks.injection import PROMPT, UNANSWERED
from tallybook.projections.surfaces.install import places, trust
from tallybook.projections.surfaces.install.hook_command import COMMAND, call_of, is_there, why_not_found
from tallybook.projections.surfaces.install.hook_entries import own_calls, own_timeouts
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.installation import tool_command
from tallybook.projections.surfaces.workspace.project import CLAUDE, MARKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tallybook.projections.surfaces.agents.installation import Installation
    from tallybook.projections.surfaces.doctor.finding import Context
    from tallybook.projections.surfaces.doctor.hook_settings import OtherFile, Setup
    from tallybook.projections.surfaces.install.hook_command import Call

# Seconds and milliseconds are further apart than any two timeouts that a person would choose.
_OTHER_UNIT = 50
_DAYS = 30
_DAYS_US = _DAYS * 24 * 3600 * clock.MICROSECONDS


def check_agents(setup: Setup, context: Context) -> Iterator[Finding]:
    """Report on each agent that is there, on the last caller without an answer, and on sessions without a playbook."""
    for name in table.AGENTS:
        if name != table.CLAUDE:
            yield from _check_agent(name, setup)
    yield from _unanswered(context)
    yield from _sessions_without_playbook(context)


def _check_agent(name: str, setup: Setup) -> Iterator[Finding]:
    files = installation.load(name)
    own = [other for other in setup.others if other.name == name]
    for other in own:
        yield Finding(OK, f"installed in {other.path}, for {files.title}", is_always_shown=True)
        yield from _check_file(name, files, other, setup)
    runs = setup.installed if files.runs == table.CLAUDE else ()
    served = [file.path for file in runs if file.path.parent == setup.folder / CLAUDE]
    if not own and not places.is_used(places.InstallTarget(setup.folder), files):
        return
    if served:
        once = "; each event counts once" if own else ""
        yield Finding(OK, f"{files.title} runs the hooks in {served[0]} as well{once}", is_always_shown=True)
    elif not own and (faults := list(_faults(files, setup))):
        yield Finding(NOTE, f"{'; '.join(faults)}; if it calls Tallybook cannot be told", "write it without comments")
    elif not own:
        message = f"{files.title} is here, and none of its settings call Tallybook"
        yield Finding(OK, message, f"run `tallybook init {name}` to install the hooks for it", is_always_shown=True)


def _faults(files: Installation, setup: Setup) -> Iterator[str]:
    """Yield what is wrong with each file of an agent that cannot be read; its own reader may be more lenient."""
    for folder in (setup.folder / files.folder, places.users_folder(files)):
        path = folder / files.file
        if path.exists() and (fault := hook_settings.read_document(path)[1]):
            yield f"{path} {fault}"


def _check_file(name: str, files: Installation, other: OtherFile, setup: Setup) -> Iterator[Finding]:
    """Report the events, programs, timeouts and trust of one file that holds hooks of an agent."""
    project = setup.folder / files.folder / files.file
    is_init_s = other.path in {project, places.users_folder(files) / files.file}
    init = f"run `tallybook init {'' if other.path == project else '--user '}{name}`"
    for call in dict.fromkeys(filter(None, map(call_of, other.commands))):
        repair = f"{init} to write a working command" if is_init_s and call.is_plain else "correct the command there"
        yield from missing_programs(call, other.path, str(other.path), repair)
    calls = {event for event, _ in own_calls(other.document, files)}
    if is_init_s and (missing := [event for event in files.events if event not in calls]):
        yield Finding(NOTE, f"{other.path}: no hook for {', '.join(missing)}", f"{init} to add them")
    yield from wrong_timeouts(files, other.path, own_timeouts(other.document, files))
    # The file of a plugin has the name of that of `init`.
    is_recorded = bool(files.record_of_trust) and other.path.name == files.file
    trusted = trust.trusted_events(files, other.path) if is_recorded else calls
    if waiting := [event for event in files.events if event in calls - trusted]:
        message = f"{files.title} has no record of trust in the hooks for {', '.join(waiting)}, and does not run them"
        yield Finding(NOTE, message, f"start {files.programs[0]} in {setup.folder} and trust the hooks")
    if off := [
        event for event in files.events if is_recorded and event in calls & trust.switched_off_events(files, other.path)
    ]:
        message = f"{files.title} has the hooks for {', '.join(off)} switched off, and does not run them"
        where = f"its interface, or {trust.record_of_trust(files)}"
        yield Finding(NOTE, message, f"switch them on in {where}, if that was not meant")


def missing_programs(call: Call, path: Path, where: str, repair: str) -> Iterator[Finding]:
    """Report the programs of a hook's command line that do not exist."""
    if (call.python or call.program != COMMAND) and places.is_shared(path, unknown=False):
        message = f"git tracks {where}, whose hooks name programs of this machine"
        yield Finding(NOTE, message, f"{repair}, which other machines find as well")
    if not call.python:
        is_here = is_there(call.program)
        if call.program == COMMAND and (why := why_not_found()):
            # In a file that git tracks, `init` writes this very command.
            fix = f"run `{tool_command()}`" + ("" if places.is_shared(path) else f", or {repair}")
            yield Finding(NOTE if is_here else BAD, f"{where}: the hooks call `{COMMAND}`, which {why}", fix)
        elif not is_here:
            message = f"{where}: the hooks call {call.program}, which does not exist or is not on PATH"
            yield Finding(BAD, message, f"put its folder on PATH, or {repair}")
        return
    programs = (call.python, str(Path(call.folder, call.module)))
    missing = [path for path in programs if not Path(path).is_file()]
    if missing and is_there(call.program):
        message = f"{where}: the hooks start {missing[0]}, which is gone; they fall back on the slower `{call.program}`"
        yield Finding(NOTE, message, repair)
    elif missing:
        message = f"{where}: the hooks name {missing[0]} and {call.program}, and neither exists, so they do nothing"
        yield Finding(BAD, message, repair)


def wrong_timeouts(
    files: Installation, path: os.PathLike[str], timeouts: Iterable[tuple[str, object]]
) -> Iterator[Finding]:
    """Report timeouts that were meant in another unit than the agent's."""
    for event, value in timeouts:
        expected = files.events.get(event, max(files.events.values()))
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if not value * _OTHER_UNIT > expected > value / _OTHER_UNIT:
            unit = "milliseconds" if expected >= 1000 else "seconds"  # noqa: PLR2004 - no hook gets a thousand seconds
            message = f"{path}: the timeout of {event} is {value}, and {files.title} counts in {unit}"
            yield Finding(NOTE, message, f"write {expected} there")


# Who got no playbook


def _unanswered(context: Context) -> Iterator[Finding]:
    """Report who called last and was given nothing."""
    path = context.project.ledger / MARKS / UNANSWERED
    try:
        document = json.loads(disk.read_file(path))
        ago = context.age(_text(document, "at"))
    except (OSError, ValueError, LookupError, RecursionError, CannotWriteError):
        return
    agent, event = _text(document, "agent"), _text(document, "event")
    if agent in table.AGENTS:
        title = installation.load(agent).title
        message = f"{title} called {ago} ago and was given nothing: no answer of its hooks is known to reach the model"
        yield Finding(OK, message, is_always_shown=True)
        return
    marks = [mark for mark in document.get("marks") or () if isinstance(mark, str)]
    named = f"its marks disagree: {', '.join(marks)}" if marks else "nothing in it or its environment names an agent"
    message = f"the last caller that was not recognised, {ago} ago at {event or 'an event'}, was given nothing; {named}"
    inherited = [mark for mark in marks if mark in table.VARIABLES]
    fix = "`tallybook show` and `tallybook mcp` give it the playbook"
    if inherited:
        fix = f"start it without {' and '.join(inherited)} in its environment"
    yield Finding(NOTE, message, f"{fix}; run `rm {quote(str(path))}` once that is fixed")


def _text(document: Any, field: str) -> str:
    value = document.get(field) if isinstance(document, dict) else None
    return value if isinstance(value, str) else ""


def _sessions_without_playbook(context: Context) -> Iterator[Finding]:
    """Report sessions recorded as given the playbook, in an answer of an earlier version that Copilot does not read."""
    folder = Path(table.transcripts_folder("copilot"))
    if not folder.is_dir() or not context.log.path.exists():
        return
    found = dict.fromkeys(session for session in _injected(context) if (folder / session).is_dir())
    if found:
        who = f"{format_count(len(found), 'session')} of Copilot CLI recorded as given the playbook cannot have seen it"
        message = f"{who}: {format_names(list(found))}; an earlier version answered in a shape that it does not read"
        yield Finding(NOTE, message, f"`tallybook log --session {next(iter(found))}` shows what it recorded")


def _injected(context: Context) -> Iterator[str]:
    """Yield the sessions that were given the playbook as Claude Code's, by the idempotency key."""
    for batch in read_verified(context.log):
        if any(isinstance(event, PlaybookInjected) for event in batch.events):
            first = batch.records[0]
            session = first.by.session or ""
            if first.key == f"injected:{session}" and session not in {"", ".", ".."} and os.sep not in session:
                yield session


# Injection


def check_injection(context: Context) -> Iterator[Finding]:
    """Report each agent here that `by_task` does not serve, and the share of sessions that cite."""
    project = context.project
    # From the files: the usual way would write to the cache.
    if settings.merge({path: settings.load(path) for path in settings.files(project)}).by_task:
        target = places.InstallTarget(project.start or project.root)
        for name in table.AGENTS:
            files = installation.load(name)
            if PROMPT not in table.load(name).injects_at and places.is_used(target, files):
                why = "no answer to its prompts is known to reach the model"
                fix = "`tallybook playbook --for TEXT` shows the agent what fits a task"
                yield Finding(NOTE, f"{files.title} is given nothing by task: {why}", fix)
    if context.log.path.exists():
        yield from _share_of_citing(context)


def _share_of_citing(context: Context) -> Iterator[Finding]:
    """Report in how many of the sessions that were given entries the agent named one; without a prompt it cannot."""
    since = clock.moment(context.now.unix_us - _DAYS_US).at
    given: set[str] = set()
    citing: set[str] = set()
    silent: dict[str, bool] = {}
    for batch in read_verified(context.log):
        for record in batch.records if batch.at >= since else ():
            if isinstance(record.event, PlaybookInjected) and record.event.names and record.by.session:
                given.add(record.by.session)
            elif isinstance(record.event, PointCited) and record.by.session:
                citing.add(record.by.session)
            elif isinstance(record.event, TranscriptRead) and record.by.session and not record.event.file:
                silent[record.by.session] = not record.event.end
    given -= {session for session, is_silent in silent.items() if is_silent}
    if given:
        cited = len(given & citing)
        sessions = f"{cited:,} of {format_count(len(given), 'session')}"
        message = f"{sessions} that were given entries in {_DAYS} days cited one ({cited / len(given):.0%})"
        yield Finding(OK, message, is_always_shown=True)
