"""Injecting: a session is given the playbook once, and again after a compaction. Standard library only."""

from __future__ import annotations

from contextlib import suppress
import os

from tallybook.ledger import clock
from tallybook.ledger.errors import TallybookError
from tallybook.ledger.fast_stdlib import dumps, sha256
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.workspace.project import MARKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tallybook.ledger.line import Draft
    from tallybook.projections.surfaces.hooks.handler import Payload
    from tallybook.projections.surfaces.workspace.project import ProjectPaths

OTHER_AGENT_VARIABLES = ("COPILOT_CLI", "CURSOR_VERSION", "GEMINI_SESSION_ID")
"""Variables of agents that run the hooks of Claude Code's settings, and are not known to read their answers."""
RESUMED = "resumed"
"""Marker that names the session that was resumed last and has had no prompt since."""
# Two automatic compactions in one turn have the prompt's id in common; two hooks of the same one fire together.
_COMPACTION_US = 10 * clock.MICROSECONDS


def inject_playbook(project: ProjectPaths, payload: Payload) -> str:
    """Return the playbook as context for the model: once in a session, and again after a compaction."""
    if not payload.session or payload.subagent or not _reads_answers(payload):
        return ""
    marker = _marker(project, payload.session)
    if _has_playbook(payload, marker):
        return ""
    # Most hooks end above: they load no more than they need.
    from tallybook.projections.playbook import inject
    from tallybook.projections.surfaces.hooks import ledger_access
    from tallybook.projections.surfaces.workspace import settings, templates

    template = inject.PLACEHOLDER
    with suppress(OSError):
        template = templates.load_template() or template
    budget_chars = settings.read(project).budget_chars
    choice = None
    if budget_chars:
        choice = inject.choose(ledger_access.read_entries(project), budget_chars - len(template))
    if choice is None or not choice.names:
        return ""
    text = inject.fill(template, choice.lines)
    event = ledger_access.draft("playbook.injected", names=list(choice.names), left_out=choice.left_out)
    try:
        if payload.source == "compact":
            is_new = _append_compaction(project, payload, event)
        else:
            is_new = ledger_access.append(project, [event], payload.by, f"injected:{payload.session}")
    except TallybookError as error:
        # Nothing records that this session has the playbook: only its start may give it, not every prompt.
        ledger_access.save_error(project, error)
        is_new = payload.event == "SessionStart"
    # Later hooks of the session need not ask the ledger, or could not.
    mark_injected(project, payload.session)
    context = {"hookEventName": payload.event, "additionalContext": text}
    return dumps({"hookSpecificOutput": context}) if is_new else ""


def _append_compaction(project: ProjectPaths, payload: Payload, event: Draft) -> bool:
    """Append an injection after a compaction; return False if another hook of the same compaction did."""
    from tallybook.projections.surfaces.hooks import ledger_access

    prefix = f"injected:compact:{_digest(f'{payload.session} {payload.prompt}')}:"
    with ledger_access.lock_deliveries(project):
        if ledger_access.has_recent(project, prefix, _COMPACTION_US):
            return False
        return ledger_access.append(project, [event], payload.by, f"{prefix}{clock.utc_now().unix_us}")


def _reads_answers(payload: Payload) -> bool:
    """Return whether the caller reads context in Claude Code's format, as far as its environment shows.

    Other agents run the hooks of its settings. Their variables may also be set for a Claude Code that was started in
    one of them; that one names its session.
    """
    if os.environ.get("CLAUDE_CODE_SESSION_ID") == payload.session:
        return True
    return not any(map(os.environ.get, OTHER_AGENT_VARIABLES))


def _has_playbook(payload: Payload, marker: str) -> bool:
    """Return whether the conversation already holds the playbook, by the markers of earlier hooks.

    A fork has the conversation of the session that it continues. Its start carries that session's id; its own id comes
    with the first prompt, which no start announced.
    """
    is_marked = os.path.exists(marker)
    folder, name = os.path.split(marker)
    resumed = os.path.join(folder, RESUMED)
    if payload.event == "SessionStart":
        if payload.source == "resume":
            with suppress(OSError, TallybookError):
                disk.make_folder(folder, durable=False)
                disk.replace_cache_file(resumed, name.encode())
        return is_marked and payload.source != "compact"
    if not os.path.exists(resumed):
        return is_marked
    continued = ""
    with suppress(OSError, TallybookError):
        continued = disk.read_file(resumed).decode("utf-8", "replace")
        if not is_marked or continued == name:
            os.unlink(resumed)
    if not is_marked and continued not in {"", name} and os.path.exists(os.path.join(folder, continued)):
        _create(marker)
        return True
    return is_marked


def mark_injected(project: ProjectPaths, session: str) -> None:
    """Note for later hooks that a session has the playbook, or is not to be given it."""
    _create(_marker(project, session))


def _marker(project: ProjectPaths, session: str) -> str:
    return os.path.join(project.ledger, MARKS, f"told-{_digest(session)}")


def _create(marker: str) -> None:
    with suppress(OSError, TallybookError):
        disk.make_folder(os.path.dirname(marker), durable=False)
        os.close(disk.create_file(marker))


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
