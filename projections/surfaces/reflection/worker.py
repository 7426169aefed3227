"""The work: every session that is owed a reflection, a piece at a time, under a lock of its own.

Whatever it is broken off at, each evaluation lands once: what a piece came to is one batch with the stretches that it
was read from, and the next one begins behind them.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from ledger import clock, disk
from ledger.codec import decode
from ledger.errors import CannotWriteError, LockHeldError
from ledger.events import ReflectionCompleted, ReflectionFailed, ReflectionStarted
from ledger.line import START
from projections.fold import fold
from projections.reflections import GONE, NO_RATER, REFLECTIONS, Failure, Reflections, Session, broken_off
from projections.render import entry
from projections.surfaces import compat, record, screen
from projections.surfaces.answers import MAX_BY_CHARS
from projections.surfaces.hook_worker import SETTLED
from projections.surfaces.reflection import pieces, raters
from projections.surfaces.reflection import prompt as prompts
from projections.surfaces.requests import Facts, Request, Update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ledger.events import Event
    from projections.playbook import Playbook
    from projections.surfaces.project import Project
    from projections.surfaces.reflection.pieces import Piece
    from projections.surfaces.requests import What

LOCK: Final = "reflect.lock"
FIRST_WAIT_S: Final = 300
MAX_WAIT_S: Final = 24 * 3600
MAX_TRIES: Final = 6
"""After so many in a row nobody tries again by himself; `tallybook reflect` does."""

KEPT_DAYS: Final = 30
"""After so many days an agent's transcript is gone, and its session goes on no more."""

DONE: Final = "done"
BUSY: Final = "another process reflects already"
SPENT: Final = "the day's tokens are spent"
HELD: Final = "another process holds the ledger"


@attrs.frozen
class Plan:
    """How the work is to be done.

    Attributes:
        rater: Key of RATERS.
        model: Which model, empty for the rater's usual one.
        tokens: What all of a day's reflections may cost, in tokens, in and out.
        patient: Whether what failed waits before it is tried again; a person's own asking does not.
    """

    rater: str = NO_RATER
    model: str = ""
    tokens: int = 500_000
    patient: bool = False


@attrs.frozen
class Came:
    """What came of one piece.

    Attributes:
        session: Whose it is.
        tokens: What it cost, in and out.
        added: Names of new entries.
        rated: How many entries were rated.
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


@attrs.frozen
class _Desk:
    """What the work is done with: the project, the plan, and what stands in the ledger now."""

    project: Project
    plan: Plan
    known: Reflections
    playbook: Playbook


class _StopError(Exception):
    """The work cannot go on; it says why."""


def look(project: Project, before: Reflections | None = None) -> Reflections:
    """Return what reflection has done and has to do; with what was seen before, only what came since is read."""
    after = START if before is None else record.mark_of(before)
    return fold(REFLECTIONS, decode(record.open_log(project).read(after)), before)


def work(project: Project, plan: Plan, tell: Callable[[Came], None] = lambda _: None) -> str:
    """Reflect on everything that is owed and due.

    Returns:
        DONE, or why something is left: BUSY, SPENT, HELD.

    Raises:
        TallybookError: The ledger is damaged or cannot be written.
    """
    tried: set[str] = set()
    try:
        while True:
            with _alone(project) as alone:
                if not alone:
                    return BUSY
                desk = _desk(project, plan)
                while (due := next(_due(desk, tried), None)) is not None:
                    _take(desk, due, tried, tell)
                    desk = _desk(project, plan, desk.known)
                _settle(desk)
            # What was asked for while this one held the lock found it busy.
            desk = attrs.evolve(desk, known=look(project, desk.known))
            if next(_due(desk, tried), None) is None:
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
        yield disk.try_lock(fd)
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error)) from error
    finally:
        os.close(fd)


def _desk(project: Project, plan: Plan, before: Reflections | None = None) -> _Desk:
    """Return what there is to work with, what waits in the spool taken in."""
    report = record.write(project, [])
    if report.state is None:
        raise _StopError(HELD)
    return _Desk(project, plan, look(project, before), report.state)


def _settle(desk: _Desk) -> None:
    """Let the next session's hook know that there is nothing to take up."""
    if not any(session.is_owed(desk.plan.rater) for session in desk.known.sessions.values()):
        with suppress(OSError, CannotWriteError):
            marker = desk.project.ledger / "cache" / SETTLED
            disk.make_folder(marker.parent, durable=False)
            disk.store(marker, b"")
            _tidy(marker.parent)


def _tidy(cache: Path) -> None:
    """Remove what hooks noted of sessions that nobody goes on with: the ledger knows it as well."""
    old_ns = (clock.utc_now().unix_us - KEPT_DAYS * 24 * 3600 * clock.MICROSECONDS) * 1000
    for path in cache.glob("told-*"):
        if path.stat().st_mtime_ns < old_ns:
            path.unlink()


def next_try_us(failure: Failure) -> int | None:
    """Return when a failure is tried again unasked, in microseconds since 1970; None for never."""
    if failure.tries >= MAX_TRIES:
        return None
    wait_s: int = min(FIRST_WAIT_S * 2 ** (failure.tries - 1), MAX_WAIT_S)
    return clock.unix_us(failure.at) + wait_s * clock.MICROSECONDS


def _due(desk: _Desk, tried: set[str]) -> Iterator[str]:
    """Yield the sessions whose turn it is, the one first asked for first."""
    now_us = clock.utc_now().unix_us
    for name, session in desk.known.sessions.items():
        if name in tried or not session.is_owed(desk.plan.rater):
            continue
        failure = broken_off(session) if desk.plan.patient else None
        # Whoever chose another rater since has changed what it failed for.
        again_us = now_us if failure is None or failure.rater != desk.plan.rater else next_try_us(failure)
        if again_us is not None and again_us <= now_us:
            yield name


def asked(known: Reflections, name: str, session: Session, plan: Plan, names: set[str]) -> pieces.Asked:
    """Return what of a session is to be read."""
    others = {
        Path(other.transcript): other.reached(plan.rater).end.get("", 0)
        for one, other in known.sessions.items()
        if other.transcript and one != name
    }
    return pieces.Asked(
        Path(session.transcript or os.devnull),
        plan.rater,
        session.reached(plan.rater),
        session.heard,
        known.known_lasts(plan.rater),
        session.asked,
        names,
        others,
        # A piece must not cost more than a day may: a character is less than a token.
        min(pieces.PIECE_CHARS, plan.tokens),
    )


def _take(desk: _Desk, name: str, tried: set[str], tell: Callable[[Came], None]) -> None:
    """Reflect on the next piece of a session, and record what came of it."""
    session = desk.known.sessions[name]
    try:
        if session.transcript is None or not Path(session.transcript).is_file():
            raise FileNotFoundError(session.transcript)
        piece = pieces.next_piece(asked(desk.known, name, session, desk.plan, desk.playbook.used))
    except OSError as error:
        gone = isinstance(error, FileNotFoundError)
        why = "the transcript is gone" if gone else f"the transcript cannot be read: {disk.reason(error)}"
        came = _fail(desk, name, raters.RaterError(GONE if gone else raters.UNAVAILABLE, why))
    else:
        came = _judge(desk, name, piece) if piece.text else _keep(desk, name, piece)
    if came.failed:
        tried.add(name)
    tell(came)


def _keep(desk: _Desk, name: str, piece: Piece) -> Came:
    """Record what was read without asking anybody."""
    _write(desk, name, Facts((*piece.quotes, *piece.stretches)), piece)
    return Came(name, quotes=len(piece.quotes))


def prompt_for(piece: Piece, playbook: Playbook) -> str:
    """Return what a model is asked about a piece."""
    entries = [entry(point) for point in playbook.points.values()]
    gone = [point.text for point in playbook.gone.values()]
    return prompts.ask(compat.load_template(prompts.TEMPLATE), entries, gone, piece.text)


def _judge(desk: _Desk, name: str, piece: Piece) -> Came:
    """Ask about a piece, and record what the answer says."""
    plan, prompt = desk.plan, prompt_for(piece, desk.playbook)
    expected = prompts.tokens(prompt)
    if desk.known.spent.get(clock.utc_now().at[:10], 0) + expected > plan.tokens:
        raise _StopError(SPENT)
    # What cannot be noted is not begun: nothing may cost tokens again and again and leave no trace.
    _write(desk, name, Facts((ReflectionStarted(plan.rater, expected),)))
    try:
        reply, judged = raters.judge(plan.rater, plan.model, prompt)
    except raters.RaterError as error:
        return _fail(desk, name, error)
    spent = (reply.input_tokens, reply.output_tokens)
    done = ReflectionCompleted(plan.rater, *spent)
    beside: tuple[Event, ...] = (*piece.quotes, *judged.notes, *piece.stretches, done)
    outcome = _write(desk, name, Update(judged.payload, beside=beside), piece, reply.model)
    rated = len(judged.payload["evaluations"])
    return Came(name, sum(spent), outcome.added, rated, outcome.pruned, len(piece.quotes))


def _fail(desk: _Desk, name: str, error: raters.RaterError) -> Came:
    reason = screen.mask(error.reason).text
    spent = (error.input_tokens, error.output_tokens)
    _write(desk, name, Facts((ReflectionFailed(desk.plan.rater, error.cause, *spent, reason),)), model=error.model)
    return Came(name, sum(spent), failed=reason)


def _write(desk: _Desk, name: str, what: What, piece: Piece | None = None, model: str = "") -> record.Outcome:
    """Record something about a session; a piece once, however often it comes."""
    by = {"rater": "reflector", "session": name} | ({"model": model[:MAX_BY_CHARS]} if model else {})
    key = None
    if piece is not None:
        first = piece.stretches[0]
        place = f"{first.file or 'transcript'}:{first.begin}-{first.end}"
        by["place"] = place
        key = f"{'heard' if desk.plan.rater == NO_RATER else 'reflected'}:{name}:{place}"
    try:
        (outcome,) = record.write(desk.project, [Request(what, by, key, piece.at if piece else None)]).outcomes
    except LockHeldError as error:
        raise _StopError(HELD) from error
    if outcome.spooled:
        raise _StopError(HELD)
    return outcome
