"""``tallybook hook``: one payload of an agent on standard input, at most one answer, and always exit code 0.

Whatever goes wrong must neither break nor delay a session: it is noted for ``doctor``. Standard library only; what is
slow is loaded only where ``playbook.json`` is not what the ledger says.
"""

from __future__ import annotations

from contextlib import suppress
import os
import sys

from tallybook.ledger import clock
from tallybook.ledger.errors import BadInputError, TallybookError
from tallybook.ledger.fast_stdlib import dumps, loads, read_up_to, sha256
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.hooks import limits
from tallybook.projections.surfaces.hooks.payload import AGENTS
from tallybook.projections.surfaces.workspace.project import MARKS, Project, find_paths, playbook_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn

    from tallybook.projections.surfaces.hooks.payload import Payload
    from tallybook.projections.surfaces.workspace.project import AnyProject, ProjectPaths
    from tallybook.projections.surfaces.workspace.settings import Settings

TEMPLATE = "playbook.txt"
NOTE = "hook-error"
"""File in the ledger's folder that holds the last thing that went wrong."""
INSIDE = "TALLYBOOK_REFLECTING"
"""Set in the environment of a model that reflects: what fires there is no session of anybody's."""
_read: dict[ProjectPaths, Settings] = {}
_handled: list[tuple[ProjectPaths, Payload]] = []
OTHER_CALLERS = ("COPILOT_CLI", "CURSOR_VERSION", "GEMINI_SESSION_ID")
"""Variables of agents that run the hooks of Claude Code's settings, and are not known to read their answers."""
RESUMED = "resumed"
"""File among the marks that names the session that was resumed last and has not been prompted since."""
# Two automatic compactions in one turn have the prompt's id in common; two hooks of the same one fire together.
_COMPACTION_US = 10 * clock.MICROSECONDS


def run(arguments: Sequence[str]) -> int:
    """Handle what stands on standard input.

    Args:
        arguments: What stands behind ``hook``: the agent's name, ``claude`` where there is none.

    Returns:
        0, whatever happened.
    """
    if os.environ.get(INSIDE):
        return 0
    try:
        payload = _reader_of(arguments[0] if arguments else "claude")(loads(_standard_input()))
        answer = handle(payload)
        if answer:
            _say(answer)
    except Exception as error:  # noqa: BLE001 - nothing that goes wrong here may reach the agent
        with suppress(Exception):
            note(_project_of(""), error)
    return 0


def _reader_of(agent: str) -> Callable[[Mapping[str, Any]], Payload]:
    """Return what reads an agent's payloads.

    Raises:
        BadInputError: There is no such agent; the error output names those that there are.
    """
    if agent in AGENTS:
        return AGENTS[agent]
    error = BadInputError(f"hook {agent!a}", "not an agent", f"use {', '.join(AGENTS)}")
    with suppress(OSError):
        os.write(2, f"tallybook: {error}\n".encode())
    raise error


def main(arguments: Sequence[str]) -> NoReturn:
    """Do that, and end this process at once: nothing is left to be written, closed or cleared away."""
    try:
        limits.limit_time(_give_up)
        run(arguments)
    finally:
        # Also where Ctrl-C ends it.
        os._exit(0)


def _give_up(*_: object) -> None:
    """Report that there is too much to read, and end this process with 0, as safely as a kill would.

    An exception could be caught by what it interrupts. The session is not tried again at its next prompt.
    """
    with suppress(Exception):
        project, payload = _handled[-1]
        if tell_playbook in EVENTS[payload.event]:
            _touch(_marker(project, payload))
        hint = "`tallybook verify` reads all of it, `tallybook replay` writes playbook.json anew"
        _report(
            project,
            BadInputError("hook", f"gave up after {limits.MAX_CPU_S} s: the ledger takes longer to read", hint),
        )
    os._exit(0)


def _report(project: ProjectPaths, error: BadInputError) -> None:
    """Say on standard error what cannot be read in a hook's time, and keep it for ``doctor``."""
    with suppress(Exception):
        os.write(2, f"tallybook: {error}\n".encode("utf-8", "backslashreplace"))
        note(project, error)


def _standard_input() -> str:
    return read_up_to(0, limits.MAX_PAYLOAD_BYTES).decode("utf-8", "replace")


def _say(answer: str) -> None:
    data = answer.encode("utf-8", "replace")
    while data:
        data = data[os.write(1, data) :]


def note(project: AnyProject, error: Exception) -> None:
    """Keep what went wrong for ``doctor``, in place of what went wrong before."""
    if os.path.isdir(project.ledger):
        what = f"{clock.utc_now().at[:16]} {type(error).__name__}: {error}"
        disk.replace_cache_file(os.path.join(project.ledger, NOTE), what.encode("utf-8", "replace"))


def handle(payload: Payload) -> str:
    """Do what is to be done at an event, and return the answer, empty where there is none."""
    project = _project_of(payload.folder)
    _read.clear()
    _handled[:] = [(project, payload)]
    to_do = EVENTS.get(payload.event, ())
    return "".join([_done(does, project, payload) for does in to_do]) if to_do and _lives(project) else ""


def _done(does: Callable[[ProjectPaths, Payload], str], project: ProjectPaths, payload: Payload) -> str:
    """Do one thing, and return its answer; what goes wrong in it is noted, and ends nothing else."""
    try:
        return does(project, payload)
    except BadInputError as error:
        _report(project, error)
        return ""
    except Exception as error:  # noqa: BLE001 - as in run
        with suppress(Exception):
            note(project, error)
        return ""


def _project_of(folder: str) -> ProjectPaths:
    return find_paths(folder or None)


def _lives(project: ProjectPaths) -> bool:
    """Say whether somebody wants a playbook here: a hook begins none."""
    if os.path.exists(project.ledger):
        return True
    return not project.unnamed_home and os.path.exists(playbook_file(project.root, project.claude))


def _settings(project: ProjectPaths) -> Settings:
    """Return what counts in a project; what is done at one event goes by the same."""
    if project not in _read:
        from tallybook.projections.surfaces.workspace import settings

        _read[project] = settings.read(project)
    return _read[project]


def _by(payload: Payload) -> dict[str, str]:
    by = {"rater": "tallybook", "session": payload.session, "agent": payload.subagent}
    return {field: value for field, value in by.items() if value}


# Injection


def tell_playbook(project: ProjectPaths, payload: Payload) -> str:
    """Return the playbook as context for the model: once in a session, and again after a compaction."""
    if not payload.session or payload.subagent or not _reads_answers(payload):
        return ""
    marker = _marker(project, payload)
    if _has_playbook(payload, marker):
        return ""
    # Behind the questions that most calls end with: their process loads no more than it needs.
    from tallybook.projections.playbook import inject
    from tallybook.projections.surfaces.hooks import append

    budget_chars = _settings(project).budget_chars
    template = _template() or inject.PLACEHOLDER
    choice = inject.choose(_entries(project), budget_chars - len(template)) if budget_chars else None
    if choice is None or not choice.names:
        return ""
    text = inject.fill(template, choice.lines)
    key, recent = f"injected:{payload.session}", ("", 0)
    if payload.source == "compact":
        beginning = f"injected:compact:{_digest(f'{payload.session} {payload.prompt}')}:"
        key, recent = f"{beginning}{clock.utc_now().unix_us}", (beginning, _COMPACTION_US)
    event = append.draft("playbook.injected", names=list(choice.names), left_out=choice.left_out)
    try:
        new = append.record(project, [event], _by(payload), key, not_after=recent)
    except TallybookError as error:
        # It could be written nowhere, so that nothing would stop it from being told at every prompt.
        note(project, error)
        new = payload.event == "SessionStart"
    # It saves asking the ledger; and where that could not take the event, nothing else says that the session was told.
    _touch(marker)
    context = {"hookEventName": payload.event, "additionalContext": text}
    return dumps({"hookSpecificOutput": context}) if new else ""


def _reads_answers(payload: Payload) -> bool:
    """Return whether the caller takes context in Claude Code's shape, as far as its environment shows.

    Other agents run the hooks of its settings. Their variables may also surround a Claude Code that was started in one
    of them; that one names its session.
    """
    if os.environ.get("CLAUDE_CODE_SESSION_ID") == payload.session:
        return True
    return not any(map(os.environ.get, OTHER_CALLERS))


def _has_playbook(payload: Payload, marker: str) -> bool:
    """Return whether the conversation holds the playbook already, by what hooks noted of it.

    A fork has the conversation of the session that it continues. Its start carries that one's id; its own comes with
    the first prompt, which no start announced.
    """
    told = os.path.exists(marker)
    folder, name = os.path.split(marker)
    resumed = os.path.join(folder, RESUMED)
    if payload.event == "SessionStart":
        if payload.source == "resume":
            with suppress(OSError, TallybookError):
                disk.make_folder(folder, durable=False)
                disk.replace_cache_file(resumed, name.encode())
        return told and payload.source != "compact"
    if not os.path.exists(resumed):
        return told
    before = ""
    with suppress(OSError, TallybookError):
        before = disk.read_file(resumed).decode("utf-8", "replace")
        if not told or before == name:
            os.unlink(resumed)
    if not told and before not in {"", name} and os.path.exists(os.path.join(folder, before)):
        _touch(marker)
        return True
    return told


def _marker(project: ProjectPaths, payload: Payload) -> str:
    """Return the file whose presence says that a session was given the playbook."""
    return os.path.join(project.ledger, MARKS, f"told-{_digest(payload.session)}")


def _touch(marker: str) -> None:
    with suppress(OSError, TallybookError):
        disk.make_folder(os.path.dirname(marker), durable=False)
        os.close(disk.create_file(marker))


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _entries(project: ProjectPaths) -> Sequence[Mapping[str, Any]]:
    """Return the entries that stand: those of ``playbook.json``, where that is what the ledger says."""
    from tallybook.ledger.names import STAMP
    from tallybook.projections.surfaces.hooks import append

    playbook = playbook_file(project.root, project.claude)
    limits.refuse_large(playbook)
    entries: Sequence[Mapping[str, Any]] = ()
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, TallybookError):
        document = loads(disk.read_file(playbook).decode("utf-8"))
        if _are_entries(document["key_points"]):
            entries = document["key_points"]
            seq, _, chain = document[STAMP].partition(":")
            if append.is_current(project, int(seq), chain):
                return entries
    return _brought_up(project, entries)


def _are_entries(values: Sequence[Any]) -> bool:
    kinds = {(type(one["name"]), type(one["text"]), type(one["helpful"]), type(one["harmful"])) for one in values}
    return kinds <= {(str, str, int, int)}


def _brought_up(project: ProjectPaths, entries: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Bring ``playbook.json`` up to date, and return its entries; as it stands where that cannot be done."""
    import gc
    from pathlib import Path

    # What follows is no short process any more, and needs what is installed.
    gc.enable()
    if sys.flags.no_site:
        import site

        site.main()
    from tallybook.projections.playbook.render import playbook_dict
    from tallybook.projections.surfaces.writing import record

    try:
        report = record.write(Project(Path(project.root)), [])
    except TallybookError as error:
        note(project, error)
        return entries
    if report.state is None:
        return entries
    brought: list[dict[str, Any]] = playbook_dict(report.state)["key_points"]
    return brought


def _template() -> str:
    """Return the text around the entries: the user's own, else the packaged one."""
    from tallybook import prompts

    own = os.path.join(os.path.expanduser("~"), ".claude", "prompts")
    for folder in (own, os.path.dirname(prompts.__file__)):
        with suppress(OSError):
            return disk.read_file(os.path.join(folder, TEMPLATE)).decode("utf-8", "replace")
    return ""


# Facts


def note_citations(project: ProjectPaths, payload: Payload) -> str:
    """Record which entries the agent named; it answers nothing."""
    if "[" in payload.said and payload.session:
        from tallybook.projections.surfaces.hooks import append

        cited = {piece.partition("]")[0] for piece in payload.said.split("[")[1:]}
        names = [entry["name"] for entry in _entries(project) if entry["name"] in cited]
        events = [append.draft("point.cited", name=name, where=payload.where) for name in names]
        if events:
            occasion = payload.occasion or occasion_of(payload.said)
            key = citation_key(payload.session, payload.subagent, occasion)
            append.record(project, events, _by(payload), key)
    return ""


def occasion_of(message: str) -> str:
    """Return what tells a message from others of its session, in a hook's payload as in the transcript."""
    return _digest(message.strip())


def citation_key(session: str, subagent: str, occasion: str) -> str:
    """Return the idempotency key of what was cited on one occasion, whoever finds it."""
    return f"cited:{session}:{subagent}:{occasion}"


# Work owed


def owe_reflection(project: ProjectPaths, payload: Payload) -> str:
    """Record that a session is to be reflected on; it answers nothing."""
    from tallybook.projections.surfaces.hooks import append, worker

    if not payload.session:
        return ""
    with suppress(OSError):
        end = os.stat(payload.transcript).st_size
        event = append.draft("reflection.requested", end=end, trigger=payload.event, transcript=payload.transcript)
        # Before it, so that a hook that ends between the two leaves it to be found; and behind it, where a worker that
        # had found nothing said so meanwhile.
        worker.unsettle(project)
        append.record(project, [event], _by(payload), f"reflect:{payload.session}:{end}")
        worker.unsettle(project)
        worker.start(project)
    return ""


def take_up(project: ProjectPaths, payload: Payload) -> str:
    """Let somebody see to what was asked for earlier and did not get done; it answers nothing."""
    from tallybook.projections.surfaces.hooks import worker

    if not payload.subagent:
        if not worker.is_settled(project, _settings(project).rater):
            worker.start(project)
        # This session may be killed, and then no hook of its own tells.
        worker.unsettle(project)
    return ""


def owe_at_stop(project: ProjectPaths, payload: Payload) -> str:
    """Record the same at a stop, where the settings say so; it answers nothing."""
    return owe_reflection(project, payload) if _settings(project).on_stop else ""


EVENTS: dict[str, tuple[Callable[[ProjectPaths, Payload], str], ...]] = {
    "SessionStart": (tell_playbook, take_up),
    "UserPromptSubmit": (tell_playbook,),
    "PreToolUse": (tell_playbook,),
    "PostToolUse": (note_citations,),
    "Stop": (note_citations, owe_at_stop),
    "SubagentStop": (note_citations,),
    "PreCompact": (owe_reflection,),
    "SessionEnd": (owe_reflection,),
}
"""What an agent calls an event → what is done at it."""
