"""The doctor's checks of agents: whether they call the hooks, may run them, and what reflection and marks come to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
import os
from pathlib import Path
from shlex import quote
import shutil
from typing import Any, Final

import attrs

from tallybook.ledger import clock
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.names import format_names
from tallybook.ledger.storage import disk
from tallybook.projections.reflections import INTERRUPTED, last_failure
from tallybook.projections.review import AGENT, DISPUTED, why_shown
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.doctor.checks import BAD, NOTE, OK, Finding
from tallybook.projections.surfaces.history.reading import open_own_log
from tallybook.projections.surfaces.hooks import ledger_access
from tallybook.projections.surfaces.hooks.injection import UNANSWERED
from tallybook.projections.surfaces.install import places
from tallybook.projections.surfaces.install.hook_entries import (
    COMMAND,
    Call,
    call_of,
    find_fault,
    own_calls,
    tool_command,
)
from tallybook.projections.surfaces.install.places import Installation
from tallybook.projections.surfaces.reflection import transcript, worker
from tallybook.projections.surfaces.reflection.raters import CLIENTS, OWN
from tallybook.projections.surfaces.review import load_reviews
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.project import MARKS, Project
from tallybook.projections.surfaces.workspace.settings import Settings
from tallybook.projections.surfaces.writing import proposals


@attrs.frozen
class HookFile:
    """A file from which an agent reads hooks: settings, or a file of a plugin.

    Attributes:
        path: Its path.
        reader: The agent or plugin that reads it, by its name for people.
        is_init_s: Whether ``init`` writes hooks into it.
        document: What the file says, empty where the agent cannot read it.
    """

    path: Path
    reader: str
    is_init_s: bool
    document: Mapping[str, Any]

    @property
    def calls(self) -> tuple[Call, ...]:
        """Return how its command lines call Tallybook; agents nest them at different depths."""
        texts = table.list_texts(self.document.get("hooks"))
        return tuple(dict.fromkeys(filter(None, map(call_of, texts))))


def check_hooks(project: Project) -> Iterator[Finding]:
    """Check, for each agent that is here, that its hooks are installed and can run; report the last hook error."""
    folder = _start_folder(project.start or project.root)
    read = {name: _read_files(name, folder) for name in table.AGENTS}
    calling = {name: [file for file in read[name] if file.calls] for name in table.AGENTS}
    for name in table.AGENTS:
        files, option = places.FILES[name], "" if name == table.CLAUDE else f" {name}"
        # Copilot also runs the hooks of Claude Code, those of the project and not of the user.
        served = files.runs and any(file.path.is_relative_to(folder) for file in calling[files.runs])
        if calling[name]:
            yield from _check_installed(files, calling[name], folder, option)
        elif not served and _is_used(name, read[name], folder):
            # An agent that is not wanted here is no fault where another gets the playbook.
            level = OK if any(calling.values()) else NOTE
            message = f"{files.title} is here, and none of its settings call Tallybook"
            yield Finding(level, message, f"run `tallybook init{option}` to install the hooks")
    for file in read[table.CLAUDE]:
        # The first file that has the switch decides: the agent lets local settings win.
        if calling[table.CLAUDE] and isinstance(is_off := file.document.get("disableAllHooks"), bool):
            if is_off:
                message = f'{file.path}: "disableAllHooks" is true, so the agent calls no hook'
                yield Finding(NOTE, message, "remove it")
            break
    yield from _find_notes(project.ledger)


def _check_installed(files: Installation, own: Sequence[HookFile], folder: Path, option: str) -> Iterator[Finding]:
    """Report on the files of an agent that call Tallybook: events, programs, and hooks that the agent does not run."""
    init_s = [file for file in own if file.is_init_s]
    is_users = all(not file.path.is_relative_to(folder / files.folder) for file in init_s)
    scope = f"{' --user' if is_users else ''}{option}"
    for file in own:
        yield Finding(OK, f"installed in {file.path}, for {file.reader}")
        for call in file.calls:
            repair = f"run `tallybook init{scope}` to write a working command"
            if not call.is_plain:
                # `init` leaves alone a line that somebody extended.
                repair = f"run `tallybook uninstall{scope}`, then `tallybook init{scope}`"
            yield from _missing_programs(call, file.path, repair if file.is_init_s else "correct it there")
        # The file of a plugin has the name of that of `init`.
        if files.record_of_trust and file.path.name == files.file:
            called = {event for event, _ in own_calls(file.document, files)}
            # The agent skips such hooks without a word, so only its own record tells.
            if stopped := [
                event for event in files.events if event in called - places.running_events(files, file.path)
            ]:
                hooks = f"the hooks for {', '.join(stopped)}"
                message = f"{files.title} does not run {hooks}: they are not trusted, or switched off"
                yield Finding(NOTE, message, f"run `{files.programs[0]}` in {folder}, and trust or enable the hooks")
    called = {event for file in own for event, _ in own_calls(file.document, files)}
    if init_s and (missing := [event for event in files.events if event not in called]):
        where = " and ".join(str(file.path) for file in init_s)
        yield Finding(NOTE, f"{where}: no hook for {', '.join(missing)}", f"run `tallybook init{scope}` to add them")


def _missing_programs(call: Call, path: Path, repair: str) -> Iterator[Finding]:
    """Report the programs of a hook's command line that no shell finds, or that other machines do not have."""
    # A team shares its settings and not its paths.
    if (call.python or call.program != COMMAND) and places.is_shared(path, unknown=False):
        message = f"git tracks {path}, whose hooks name programs of this machine"
        yield Finding(NOTE, message, f"{repair}, which other machines find as well")
    fault, runs = find_fault(call)
    if fault and call.program == COMMAND and not call.python:
        # In a file that git tracks, `init` writes this very command.
        repair = f"run `{tool_command()}`" + ("" if places.is_shared(path) else f", or {repair}")
    elif fault and not call.python:
        repair = f"put its folder on PATH, or {repair}"
    if fault:
        yield Finding(NOTE if runs else BAD, f"{path}: the hooks {fault}", repair)


def _find_notes(ledger: Path) -> Iterator[Finding]:
    """Report what hooks left for the doctor: a caller that was not recognised, and the last error."""
    path = ledger / MARKS / UNANSWERED
    document = places.read_document(path)
    marks = document.get("marks")
    # An agent whose hooks take no answer is known, and nothing fixes that.
    if isinstance(marks, list) and document.get("agent") not in table.AGENTS:
        named = ", ".join(mark for mark in marks if isinstance(mark, str))
        why = f"its marks disagree: {named}" if named else "nothing in it or its environment names an agent"
        message = f"the last caller that was not recognised, at {document.get('event')}, was given nothing; {why}"
        fix = "`tallybook show` and `tallybook mcp` give it the playbook"
        if inherited := [mark for mark in marks if mark in table.VARIABLES]:
            fix = f"start it without {' and '.join(inherited)} in its environment"
        yield Finding(NOTE, message, f"{fix}; run `rm {quote(str(path))}` once that is fixed")
    path = ledger / ledger_access.ERROR_FILE
    try:
        message = disk.read_file(path).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return
    except CannotWriteError as error:
        message = f"cannot be read: {error.reason}"
    yield Finding(NOTE, f"the last hook error: {message}", f"run `rm {quote(str(path))}` once that is fixed")


# The files that hold hooks


def _start_folder(start: Path) -> Path:
    """Return the folder in which the agent is started, which it records nowhere.

    It is ``CLAUDE_PROJECT_DIR`` where that is set; otherwise the first, of the folder where the search for the project
    began and the one where ``init`` puts the hooks, whose own settings call Tallybook.
    """
    named = os.environ.get(places.FOLDER)
    if named and os.path.realpath(named) == os.path.realpath(start):
        return start
    own = (file for file in _read_files(table.CLAUDE, start) if file.path.is_relative_to(start))
    return start if any(file.calls for file in own) else places.find_start_folder(start)


def _read_files(name: str, folder: Path) -> list[HookFile]:
    """Return the files from which an agent, started in a folder, reads hooks; Claude Code's local settings first."""
    files = places.FILES[name]
    users = places.users_folder(name)
    own = [folder / files.folder / files.file, users / files.file]
    others = [path for pattern in files.other_hooks for path in sorted(folder.glob(pattern))]
    others += [path for pattern in files.users_hooks for path in sorted(users.glob(pattern))]
    paths = [path for path in dict.fromkeys((*others, *own)) if path.exists()]
    hook_files = [HookFile(path, files.title, path in own, places.read_document(path)) for path in paths]
    if name == table.CLAUDE:
        enabled: dict[str, object] = {}
        for file in reversed(hook_files):
            plugins = file.document.get("enabledPlugins")
            enabled |= plugins if isinstance(plugins, dict) else {}
        for plugin in [plugin for plugin, is_on in enabled.items() if is_on is True]:
            part, _, market = plugin.rpartition("@")
            # A name in a settings file must not lead out of the folder of plugins.
            is_plain = table.is_plain_name(part) and table.is_plain_name(market)
            folder = users / "plugins" / "cache" / market / part
            paths, reader = sorted(folder.glob("*/hooks/hooks.json")) if is_plain else [], f"the plugin {plugin}"
            hook_files += [HookFile(path, reader, False, places.read_document(path)) for path in paths]  # noqa: FBT003
    return hook_files


def _is_used(name: str, read: Sequence[HookFile], folder: Path) -> bool:
    """Say whether an agent is used here; every project has the folder of Claude Code."""
    if name != table.CLAUDE:
        return places.is_used(places.InstallTarget(folder), places.FILES[name])
    state = Path(os.environ.get("CLAUDE_CONFIG_DIR") or places.home()) / ".claude.json"
    return bool(read) or state.exists() or (places.users_folder() / "projects").exists()


# Reflection and marks


_REFLECT: Final = "run `tallybook reflect`"


def check_reflection(project: Project) -> Iterator[Finding]:
    """Report what the chosen rater lacks, pending and failed sessions, a spent budget, and transcripts not read."""
    if not open_own_log(project).exists():
        return
    options, state = settings.read(project, store=False), worker.load_reflections(project)
    awaiting = {name: session for name, session in state.sessions.items() if session.awaits_reflection(options.rater)}
    for message, fix in _find_missing(options):
        yield Finding(BAD, message, f"{fix}, or choose another `rater`, in the settings {settings.users_file()}")
    # A transcript that is gone is not pending: no command brings it back.
    pending = {
        name: session
        for name, session in awaiting.items()
        if session.transcript is not None and transcript.locate(Path(session.transcript)).is_file()
    }
    tokens = state.tokens_by_day.get(clock.utc_now().at[:10], 0)
    if pending and tokens >= options.tokens_per_day:
        message = f"{worker.SPENT}, {tokens:,} of {options.tokens_per_day:,}, so pending sessions wait until tomorrow"
        yield Finding(NOTE, message, "run `tallybook reflect --tokens N`")
    elif pending:
        yield Finding(NOTE, f"{format_count(len(pending), 'session')} awaiting reflection", _REFLECT)
    for name, session in pending.items():
        failure = last_failure(session)
        # A failure of another rater says nothing about the chosen one; transcripts outside have a finding below.
        if failure is None or failure.rater != options.rater or failure.cause == worker.OUTSIDE:
            continue
        reason = "its reason was redacted" if failure.reason is None else failure.reason
        cause = f"{failure.cause}: {reason}" if reason else failure.cause
        cause = "it was interrupted, or is still running" if failure.cause == INTERRUPTED else cause
        tries = "once" if failure.tries == 1 else format_count(failure.tries, "time")
        yield Finding(NOTE, f"session {name}: reflection failed {tries}: {cause}", f"{_REFLECT} to try now")
    outside = [
        Path(session.transcript)
        for session in awaiting.values()
        if session.transcript and session.failure is not None and session.failure.cause == worker.OUTSIDE
    ]
    if outside:
        names = format_names(list(map(str, outside)))
        message = f"{format_count(len(outside), 'transcript')} outside the agents' folders not read: {names}"
        fix = f"run `tallybook reflect --from {quote(str(outside[0].parent))}` to read those of that folder"
        yield Finding(NOTE, message, fix)
    # The worker that a hook starts has nobody to say it to.
    read = [name for name, session in state.sessions.items() if session.searched_to.length and name not in awaiting]
    if unmeasured := [name for name in read if name not in state.measured]:
        sessions = f"{len(unmeasured)} of {format_count(len(read), 'session')} that were read not measured"
        why = "neither a prompt nor a call was understood, or the transcript is gone"
        fix = "if it goes on, update Tallybook, which may be older than the client"
        yield Finding(NOTE, f"{sessions}, as {why}: {format_names(unmeasured)}", fix)


def _find_missing(options: Settings) -> Iterator[tuple[str, str]]:
    """Yield what the chosen rater needs and does not have, and how it gets it."""
    rater = options.rater
    command = options.command[0] if rater == OWN and options.command else rater if rater in CLIENTS else ""
    if rater == OWN and not command:
        yield "the rater is command, and no command is set", "set `command`"
    if command and shutil.which(command) is None:
        yield f"the rater is {rater}, and `{command}` is not on PATH", f"install `{command}`"
    if rater == "openai":
        for name in ("address", "model"):
            if not getattr(options, name):
                yield f"the rater is openai, and no {name} is set", f"set `{name}`"
        if options.key_variable and not os.environ.get(options.key_variable):
            message = f"the rater is openai, and {options.key_variable}, which `key_variable` names, is not set"
            yield message, f"set {options.key_variable} where the agent starts"


def check_marks(project: Project) -> Iterator[Finding]:
    """Report how many sessions had marks, and what they came to."""
    is_off = settings.read(project, store=False).marks == settings.MARKS[-1]
    if is_off or not open_own_log(project).exists():
        return
    reviews, proposed = load_reviews(project), proposals.load(project)
    left = sum(reviews.blame.get(name, ("",))[0] == AGENT for name in commands.playbook(project).state.pruned)
    numbers = (
        format_count(reviews.votes, "vote"),
        f"{format_count(proposed.accepted, 'lesson')} accepted",
        f"{format_count(left, 'entry', 'entries')} left",
        f"{sum(why_shown(proposal) == DISPUTED for proposal in proposed.open.values())} in dispute",
    )
    if reviews.told:
        sessions = format_count(len(reviews.told), "session")
        message = f"marks in {len(reviews.marked & reviews.told)} of {sessions} that were given entries"
        fix = f"`marks` in the section `[reflection]` of {settings.users_file()} says what becomes of them"
        yield Finding(OK, f"{message}; {', '.join(numbers)}", fix)
