"""The work: every session that is owed a reflection, a piece at a time, under a lock of its own.

Whatever it is broken off at, each evaluation lands once: what a piece came to is one batch with the stretches that it
was read from, and the next one begins behind them.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import clock
from tallybook.ledger.errors import BadInputError, CannotWriteError, LockHeldError
from tallybook.ledger.events import PointCited, ReflectionCompleted, ReflectionFailed, ReflectionStarted
from tallybook.ledger.storage import disk
from tallybook.projections.playbook.render import entry
from tallybook.projections.reflections import GONE, NO_RATER, Reflections, Session
from tallybook.projections.surfaces.console.options import MAX_PROVENANCE_CHARS
from tallybook.projections.surfaces.hooks import handler
from tallybook.projections.surfaces.hooks.worker import SETTLED
from tallybook.projections.surfaces.reflection import chunks, killed_sessions, raters, transcript
from tallybook.projections.surfaces.reflection import prompt as prompts
from tallybook.projections.surfaces.reflection.schedule import Plan, due, is_given_up, kept_by_agent, look, outside
from tallybook.projections.surfaces.workspace.project import MARKS
from tallybook.projections.surfaces.workspace.templates import load_template
from tallybook.projections.surfaces.writing import record
from tallybook.projections.surfaces.writing.requests import Facts, Request, Update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallybook.ledger.events import Event
    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.reflection.chunks import Piece
    from tallybook.projections.surfaces.reflection.prompt import Judged
    from tallybook.projections.surfaces.reflection.raters import Reply
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.requests import Action

LOCK: Final = "reflect.lock"

DONE: Final = "done"
BUSY: Final = "another process reflects already"
SPENT: Final = "the day's tokens are spent"
TOO_FEW: Final = "a day's tokens are too few for a single piece"
OUTSIDE: Final = "outside"
"""Cause of a failure: the transcript lies neither where the agent keeps them nor where a person said."""
REPEATED: Final = "this stretch was recorded before"
_UUID_CHARS: Final = 100
HELD: Final = "another process holds the ledger"


@attrs.frozen
class Came:
    """What came of one piece.

    Attributes:
        session: Whose it is.
        tokens: What it cost, in and out.
        added: Names of new entries.
        rated: How many entries were rated.
        ignored: What of the answer counts nothing, and why.
        pruned: Names of the entries that its update dropped.
        quotes: How many quotes were kept.
        failed: Why nothing came of it, empty where something did.
    """

    session: str
    tokens: int = 0
    added: tuple[str, ...] = ()
    rated: int = 0
    pruned: tuple[str, ...] = ()
    quotes: int = 0
    failed: str = ""
    ignored: tuple[str, ...] = ()


@attrs.frozen
class _Desk:
    """What the work is done with: the project, the plan, and what stands in the ledger now."""

    project: Project
    plan: Plan
    known: Reflections
    playbook: Playbook


class _StopError(Exception):
    """The work cannot go on; it says why."""


def work(project: Project, plan: Plan, tell: Callable[[Came], None] = lambda _: None) -> str:
    """Reflect on everything that is owed and due.

    Returns:
        DONE, or why something is left: BUSY, SPENT, HELD.

    Raises:
        TallybookError: The ledger is damaged or cannot be written.
    """
    if not project.ledger.exists():
        return DONE
    tried: set[str] = set()
    try:
        while True:
            with _alone(project) as alone:
                if not alone:
                    return BUSY
                desk = _desk(project, plan)
                desk = _with_killed(desk)
                _check_budget(desk)
                while (name := next(due(desk.known, plan, tried), None)) is not None:
                    _take(desk, name, tried, tell)
                    desk = _desk(project, plan, desk.known)
                _settle(desk)
            # What was asked for while this one held the lock found it busy.
            desk = attrs.evolve(desk, known=look(project, desk.known))
            if next(due(desk.known, plan, tried), None) is None:
                return DONE
    except _StopError as stop:
        return str(stop)


@contextmanager
def _alone(project: Project) -> Iterator[bool]:
    """Hold the lock of reflection; False where somebody else does."""
    disk.make_folder(project.ledger)
    path = project.ledger / LOCK
    fd = disk.open_file(path, write=True, create=True)
    try:
        try:
            alone = disk.try_lock(fd)
        except OSError as error:
            raise CannotWriteError(path, disk.reason(error)) from error
        yield alone
    finally:
        os.close(fd)


def _desk(project: Project, plan: Plan, before: Reflections | None = None) -> _Desk:
    """Return what there is to work with, what waits in the spool taken in."""
    report = record.write(project, [])
    if report.state is None:
        raise _StopError(HELD)
    return _Desk(project, plan, look(project, before), report.state)


def _with_killed(desk: _Desk) -> _Desk:
    """Record that sessions whose clients were killed are to be reflected on."""
    requests = list(killed_sessions.requests(desk.known))
    if not requests:
        return desk
    try:
        record.write(desk.project, requests)
    except LockHeldError as error:
        raise _StopError(HELD) from error
    return attrs.evolve(desk, known=look(desk.project, desk.known))


def _check_budget(desk: _Desk) -> None:
    if desk.plan.rater != NO_RATER and overhead(desk.plan.rater, desk.playbook) >= desk.plan.tokens:
        raise _StopError(TOO_FEW)


def _settle(desk: _Desk) -> None:
    """Let the next session's hook know that there is nothing to take up."""
    rater, sessions = desk.plan.rater, desk.known.sessions.values()
    pending = any(session.awaits_reflection(rater) and not is_given_up(session, rater) for session in sessions)
    # A session that goes on may be killed.
    if not pending and not killed_sessions.unended(desk.known):
        with suppress(OSError, CannotWriteError):
            marker = desk.project.ledger / MARKS / SETTLED
            disk.make_folder(marker.parent, durable=False)
            disk.replace_cache_file(marker, rater.encode())
            _tidy(marker.parent)


def _tidy(marks: Path) -> None:
    """Remove what hooks noted of sessions that nobody goes on with: the ledger knows it as well."""
    old_ns = (clock.utc_now().unix_us - killed_sessions.KEPT_DAYS * 24 * 3600 * clock.MICROSECONDS) * 1000
    for path in marks.glob("told-*"):
        if path.stat().st_mtime_ns < old_ns:
            path.unlink()


def asked(known: Reflections, name: str, plan: Plan, session: Session, playbook: Playbook) -> chunks.Asked:
    """Return what of a session is to be read.

    Raises:
        BadInputError: The prompt's template has no place for it.
    """
    chars = chunks.PIECE_CHARS
    if plan.rater != NO_RATER:
        # A character is at most a token.
        chars = min(chars, plan.tokens - overhead(plan.rater, playbook))
    others = {
        Path(other.transcript): other.position(plan.rater).end.get("", 0)
        for one, other in known.sessions.items()
        if other.transcript and one != name
    }
    return chunks.Asked(
        Path(session.transcript or os.devnull),
        plan.rater,
        session.position(plan.rater),
        session.searched_to,
        known.known_uuids(plan.rater),
        session.request_end,
        playbook.used,
        others,
        chars,
    )


def overhead(rater: str, playbook: Playbook) -> int:
    """Return what a piece costs without its text, in tokens."""
    return raters.tokens(rater, prompt_for("", playbook))


def _take(desk: _Desk, name: str, tried: set[str], tell: Callable[[Came], None]) -> None:
    """Reflect on the next piece of a session, and record what came of it."""
    try:
        came = _piece(desk, name, desk.known.sessions[name])
    except BadInputError as error:
        # Whatever is odd in one session, the others have their turn.
        came = Came(name, failed=str(error))
    if came is None or came.failed:
        tried.add(name)
    if came is not None:
        tell(came)


def _piece(desk: _Desk, name: str, session: Session) -> Came | None:
    """Return what came of a session's next piece, None where there is none."""
    path = Path(session.transcript or os.devnull)
    try:
        if not path.is_file():
            raise FileNotFoundError(path)
        if not kept_by_agent(path, desk.plan):
            return _fail(desk, name, raters.RaterError(OUTSIDE, outside(path)))
        piece = chunks.next_piece(asked(desk.known, name, desk.plan, session, desk.playbook))
    except OSError as error:
        gone = isinstance(error, FileNotFoundError)
        why = "the transcript is gone" if gone else f"the transcript cannot be read: {disk.reason(error)}"
        return _fail(desk, name, raters.RaterError(GONE if gone else raters.UNAVAILABLE, why))
    if not piece.stretches:
        return None
    _cite(desk, name, piece)
    return _judge(desk, name, piece) if piece.text else _keep(desk, name, piece)


def _keep(desk: _Desk, name: str, piece: Piece) -> Came:
    """Record what was read without asking anybody."""
    outcome = _write(desk, name, Facts((*piece.quotes, *piece.stretches)), piece)
    return Came(name, quotes=len(piece.quotes), failed=REPEATED if outcome.repeated else "")


def prompt_for(text: str, playbook: Playbook) -> str:
    """Return what a model is asked about what was said.

    Raises:
        BadInputError: The prompt's template has no place for it.
    """
    return prompts.ask(load_template(prompts.TEMPLATE), _entries(playbook), _gone(playbook), text)


def _entries(playbook: Playbook) -> list[dict[str, Any]]:
    return [entry(point) for point in playbook.points.values()]


def _gone(playbook: Playbook) -> list[str]:
    return [point.text for point in playbook.gone.values()]


def _judge(desk: _Desk, name: str, piece: Piece) -> Came:
    """Ask about a piece, and record what the answer says."""
    plan, prompt = desk.plan, prompt_for(piece.text, desk.playbook)
    expected = raters.tokens(plan.rater, prompt)
    if desk.known.tokens_by_day.get(clock.utc_now().at[:10], 0) + expected > plan.tokens:
        raise _StopError(SPENT)
    # What cannot be noted is not begun: nothing may cost tokens again and again and leave no trace.
    _write(desk, name, Facts((ReflectionStarted(plan.rater, expected),)))
    try:
        reply, judged = raters.judge(plan.rater, plan.model, prompt)
        return _took_in(desk, name, piece, reply, prompts.without(judged, _gone(desk.playbook)))
    except raters.RaterError as error:
        return _fail(desk, name, error)


def _took_in(desk: _Desk, name: str, piece: Piece, reply: Reply, judged: Judged) -> Came:
    """Record what an answer says, with the stretches that it was read from."""
    spent = (reply.input_tokens, reply.output_tokens)
    done = ReflectionCompleted(desk.plan.rater, *spent)
    shown = prompts.shown_names(load_template(prompts.TEMPLATE), _entries(desk.playbook))
    judged = prompts.of_names(judged, shown)
    beside: tuple[Event, ...] = (*piece.quotes, *judged.notes, *piece.stretches, done)
    try:
        outcome = _write(desk, name, Update(judged.payload, facts=beside), piece, reply.model)
    except BadInputError as error:
        what = f"the answer cannot be recorded: {error}"
        raise raters.RaterError(raters.UNUSABLE, what, *spent, model=reply.model) from error
    rated = len(judged.payload["evaluations"])
    failed = REPEATED if outcome.repeated else ""
    return Came(name, sum(spent), outcome.added, rated, outcome.pruned, len(piece.quotes), failed, judged.ignored)


def _fail(desk: _Desk, name: str, error: raters.RaterError) -> Came:
    spent = (error.input_tokens, error.output_tokens)
    failed = ReflectionFailed(desk.plan.rater, error.cause, *spent, error.reason)
    _write(desk, name, Facts((failed,)), model=error.model)
    return Came(name, sum(spent), failed=error.reason)


def _write(desk: _Desk, name: str, action: Action, piece: Piece | None = None, model: str = "") -> record.Outcome:
    """Record something about a session; a piece once, however often it comes."""
    by = {"rater": "reflector", "session": name} | ({"model": model[:MAX_PROVENANCE_CHARS]} if model else {})
    key = None
    if piece is not None:
        first = piece.stretches[0]
        place = f"{first.file or 'transcript'}:{first.begin}-{first.end}"
        by["place"] = place
        # The last line tells a file from another of its name.
        what_for = "heard" if desk.plan.rater == NO_RATER else "reflected"
        key = f"{what_for}:{name}:{place}:{first.last[:_UUID_CHARS]}"
    try:
        (outcome,) = record.write(desk.project, [Request(action, by, key, piece.at if piece else None)]).outcomes
    except LockHeldError as error:
        raise _StopError(HELD) from error
    if outcome.spooled:
        raise _StopError(HELD)
    return outcome


def _cite(desk: _Desk, name: str, piece: Piece) -> None:
    """Record the entries that messages name, each message once, whether or not a hook saw it."""
    if not piece.citations:
        return
    requests = []
    for cited in piece.citations:
        by = {"rater": "tallybook", "session": name} | ({"agent": cited.subagent} if cited.subagent else {})
        events = tuple(PointCited(point, transcript.MESSAGE) for point in cited.names)
        requests.append(
            Request(Facts(events), by, handler.citation_key(name, cited.subagent, cited.occasion), cited.at)
        )
    try:
        record.write(desk.project, requests)
    except LockHeldError as error:
        raise _StopError(HELD) from error
