"""``tallybook hook``: one payload of an agent on standard input, at most one answer, and always exit code 0.

An error must neither break nor delay a session: it is saved for ``doctor``. Standard library only; slow modules are
loaded only if ``playbook.json`` is not current.
"""

from __future__ import annotations

from contextlib import suppress
import os
import sys

from tallybook.ledger.errors import BadInputError, CannotWriteError
from tallybook.ledger.fast_stdlib import dumps, import_lazily, loads
from tallybook.ledger.playbook_constants import PERSONAL_PREFIX
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.agents.table import text_of
from tallybook.projections.surfaces.hooks import injection, ledger_access
from tallybook.projections.surfaces.workspace.project import NoProjectError, find_paths, playbook_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    import signal
    from typing import Any, NoReturn

    from tallybook.ledger.line import Draft
    from tallybook.projections.surfaces.agents.table import Payload
    from tallybook.projections.surfaces.hooks import citations, sync_results
    from tallybook.projections.surfaces.workspace import personal, settings
    from tallybook.projections.surfaces.workspace.project import ProjectPaths
else:
    # Most hooks end before they need these.
    _HERE, _THERE = "tallybook.projections.surfaces.hooks.", "tallybook.projections.surfaces.workspace."
    [citations, sync_results] = import_lazily(_HERE + "citations", _HERE + "sync_results")
    [personal, settings] = import_lazily(_THERE + "personal", _THERE + "settings")
    try:
        # signal itself would load enum for it.
        import _signal as signal
    except ImportError:
        import signal

REFLECTING_VARIABLE = "TALLYBOOK_REFLECTING"
"""Set in the environment of a model that reflects: its hooks do nothing, as it is not a user's session."""
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
"""A longer payload is not read to its end."""
MAX_CPU_S = 5
"""Seconds of processor time after which a hook gives up; an agent ends it after 10 seconds."""
SETTLED = "settled"
"""Marker that says that a rater has no pending work; if it is missing, the next session starts a worker."""
# -P: no module is imported from the current folder, whose files may be someone else's.
_WORKER_COMMAND = ("-P", "-m", "tallybook")
_REFLECT = ("reflect", "--unattended", "--start")

# What this process handles, for `_give_up`.
_current: list[tuple[ProjectPaths, Payload]] = []


def main(arguments: Sequence[str]) -> NoReturn:
    """Handle the payload on standard input and end this process at once: nothing is left to write or close."""
    try:
        # Windows has no such timer.
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGPROF, _give_up)
            signal.setitimer(signal.ITIMER_PROF, MAX_CPU_S)
        run(arguments)
    finally:
        # After Ctrl-C, too.
        os._exit(0)


def run(arguments: Sequence[str]) -> int:
    """Handle the payload on standard input.

    Args:
        arguments: The words after ``hook`` on the command line: ``--project DIR``; others say nothing.

    Returns:
        0, whatever happened.
    """
    if os.environ.get(REFLECTING_VARIABLE):
        return 0
    folder = None
    try:
        folder = _read_folder(arguments)
        with open(0, "rb", closefd=False) as stdin:
            payload = read_payload(loads(stdin.read(MAX_PAYLOAD_BYTES).decode("utf-8", "replace")))
        answer = handle(payload, folder)
        data = answer.encode("utf-8", "replace")
        while data:
            data = data[os.write(1, data) :]
    except Exception as error:  # noqa: BLE001 - no error here may reach the agent
        with suppress(Exception):
            ledger_access.save_error(find_paths(None, folder), error)
    return 0


def _read_folder(arguments: Sequence[str]) -> str | None:
    """Return the folder of ``--project``; Click would end with 2 where a hook must end with 0."""
    words = iter(arguments)
    for word in words:
        name, _, value = word.partition("=")
        if name == "--project":
            return value or next(words, None)
    return None


def read_payload(document: Mapping[str, Any]) -> Payload:
    """Return a payload as its agent means it; one of an unknown caller is read as Claude Code's.

    Raises:
        BadInputError: It is not a JSON object.
    """
    if not isinstance(document, dict):
        raise BadInputError("the hook's payload", "is not a JSON object", "its agent has to send one")
    agent = table.recognise(document)
    payload: Payload = table.load(agent or table.CLAUDE).read(document)
    if payload.event == injection.PROMPT:
        # Every agent has it in a field of this name.
        payload = payload._replace(text=text_of(document, "prompt"))
    return payload._replace(agent=agent)


def _give_up(*_: object) -> None:
    """Report that there is too much to read, and end this process with 0, as safely as a kill would.

    An exception could be caught by the code that it interrupts. The session's next prompt does not try again.
    """
    with suppress(Exception):
        project, payload = _current[-1]
        if injection.inject_playbook in ACTIONS[payload.event]:
            injection.mark_injected(project, payload)
        hint = "`tallybook verify` reads all of it, `tallybook replay` writes playbook.json anew"
        _report(project, BadInputError("hook", f"gave up after {MAX_CPU_S} s: the ledger takes longer to read", hint))
    os._exit(0)


def _report(project: ProjectPaths, error: Exception) -> None:
    """Save an error for ``doctor``, and write one that a person can fix to standard error as well.

    Where neither the ledger nor its spool can be written nothing can be saved either: standard error alone says so.
    """
    with suppress(Exception):
        if isinstance(error, BadInputError | CannotWriteError):
            os.write(2, f"tallybook: {error}\n".encode("utf-8", "backslashreplace"))
        ledger_access.save_error(project, error)


def handle(payload: Payload, folder: str | None = None) -> str:
    """Run the actions of an event in its project, or in that of a folder; return the answer, empty without one."""
    actions = ACTIONS.get(payload.event, ())
    try:
        project = find_paths(payload.folder or None, folder)
    except NoProjectError:
        # The home folder, or the root: no project has this session, and none its errors.
        return ""
    _current[:] = [(project, payload)]
    # A hook creates neither a ledger nor a playbook.
    files = (project.ledger, playbook_file(project.root, project.claude)) if actions else ()
    if not any(map(os.path.exists, files)):
        return ""
    answer = ""
    for action in actions:
        try:
            answer += action(project, payload)
        except Exception as error:  # noqa: BLE001 - as in run, and the other actions go on
            _report(project, error)
    return _with_notice(project, payload, answer) if payload.event == "SessionStart" else answer


def _with_notice(project: ProjectPaths, payload: Payload, answer: str) -> str:
    """Return the answer to a session's start with what a person is to be told, where the agent shows it to one."""
    agent = table.AGENTS.get(payload.agent) if not payload.subagent else None
    if agent is None or payload.source == "compact" or not agent.shows_message or table.is_unattended(payload):
        return answer
    message = ledger_access.take_notice(project)
    return dumps({**loads(answer or "{}"), "systemMessage": f"Tallybook: {message}"}) if message else answer


# Citations


def record_citations(project: ProjectPaths, payload: Payload) -> str:
    """Record which entries the agent named, of those that its lineage was given here; there is no answer."""
    if "[" in payload.text and payload.session:
        entries = ledger_access.read_entries(project)
        key = citation_key(payload.session, payload.subagent, payload.occasion or occasion_of(payload.text))
        # Most brackets are no names: only names of this form load more.
        if PERSONAL_PREFIX in payload.text.replace("\\", "").casefold():
            mine, own = personal.find_paths(project), injection.read_own(project, entries)
            injection.append_own(project, _draft_citations(mine, own, payload) if mine else [], payload, key)
        if drafts := _draft_citations(project, entries, payload):
            ledger_access.append(project, drafts, payload.by, key)
    return ""


def _draft_citations(project: ProjectPaths, entries: Iterable[Mapping[str, Any]], payload: Payload) -> list[Draft]:
    names = citations.find_cited(payload.text, {entry["name"]: entry for entry in entries})
    # An agent may work in the folder of another project, whose entries it was not given.
    given = citations.find_given(project, payload.session, names)
    return [ledger_access.draft("point.cited", name=name, where=payload.where) for name in names if name in given]


def occasion_of(message: str) -> str:
    """Return an id of a message in its session, the same in a hook's payload and in the transcript."""
    return ledger_access.digest(message.strip())


def citation_key(session: str, subagent: str, occasion: str) -> str:
    """Return the idempotency key of the citations of one occasion, the same for hooks and reflection."""
    return f"cited:{session}:{subagent}:{occasion}"


# Reflection


def request_reflection(project: ProjectPaths, payload: Payload) -> str:
    """Record that a session with a transcript awaits reflection, and start a worker; there is no answer.

    At a stop that is done if the settings ask for it. An agent that may end without a hook has the request recorded at
    every stop; the next session's start, or its end, starts the worker.
    """
    at_once = payload.event != "Stop" or settings.read(project).on_stop
    awaits = at_once or (payload.agent != "" and table.AGENTS[payload.agent].awaits_at_stop)
    if not payload.session or not awaits:
        return ""
    try:
        end = os.stat(payload.transcript).st_size
    except OSError:
        return ""
    event = ledger_access.draft("reflection.requested", end=end, trigger=payload.event, transcript=payload.transcript)
    # Before the event, so that a later hook finds it if this one ends in between; and after it, because a worker
    # that finds no work may note it in between.
    unsettle(project)
    ledger_access.append(project, [event], payload.by, f"reflect:{payload.session}:{end}")
    unsettle(project)
    if at_once:
        _start(project, *_REFLECT, project.start)
    return ""


def start_pending_work(project: ProjectPaths, payload: Payload) -> str:
    """Start a worker for sessions that still await reflection; there is no answer."""
    if not payload.subagent:
        # A worker notes by this that its rater has no pending work.
        settled_rater = ledger_access.read_marker(ledger_access.marker_file(project, SETTLED))
        if settled_rater != settings.read(project).rater:
            _start(project, *_REFLECT, project.start)
        # This session may be killed, and then none of its hooks requests its reflection.
        unsettle(project)
    return ""


# The worker: a process for slow work that outlives the session


def unsettle(project: ProjectPaths) -> None:
    """Note that there is pending work."""
    with suppress(OSError):
        os.unlink(ledger_access.marker_file(project, SETTLED))


def _start(project: ProjectPaths, *command: str) -> None:
    """Start a command on a project, in a session of its own, with nothing of the agent's open.

    Raises:
        OSError: No process could be started.
    """
    words = [sys.executable, *_WORKER_COMMAND, "--project", project.root, *command]
    if hasattr(os, "posix_spawn"):
        nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0)
        files = [nothing, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
        # An agent kills the process group of its hooks, and the worker must not be in it.
        os.posix_spawn(sys.executable, words, os.environ, file_actions=files, setsid=True)
        return
    import subprocess

    flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP  # type: ignore[attr-defined,unused-ignore]
    null = subprocess.DEVNULL
    subprocess.Popen(words, stdin=null, stdout=null, stderr=null, creationflags=flags)  # noqa: S603 - our own command


# The shared book


def start_sync(project: ProjectPaths, payload: Payload) -> str:
    """Start a sync if the user's settings share this project's playbook; there is no answer.

    Raises:
        BadInputError: The syncs of more than a day failed.
    """
    if payload.subagent or not os.path.exists(ledger_access.membership_file(project)):
        return ""
    _start(project, "sync", "--unattended")
    sync_results.refuse_old_failure(project)
    return ""


ACTIONS: dict[str, tuple[Callable[[ProjectPaths, Payload], str], ...]] = {
    "SessionStart": (injection.inject_playbook, injection.record_block, start_pending_work, start_sync),
    "UserPromptSubmit": (injection.inject_playbook,),
    "PreToolUse": (injection.inject_playbook,),
    "SubagentStart": (injection.inject_playbook,),
    "PostToolUse": (record_citations,),
    # Nothing answers at a stop: Claude Code would continue the turn, and Codex fail the hook.
    "Stop": (record_citations, request_reflection),
    "SubagentStop": (record_citations,),
    "PreCompact": (injection.expect_compaction, request_reflection),
    "SessionEnd": (request_reflection, start_sync),
}
"""Name of an event in Claude Code → the actions that it runs."""
