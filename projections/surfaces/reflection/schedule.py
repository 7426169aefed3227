"""Whose turn it is: which sessions have anything left to be read, when what failed is tried again, what may be read."""

from __future__ import annotations

from contextlib import suppress
import os
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger import clock
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.line import START
from tallybook.projections.fold import fold
from tallybook.projections.reflections import NO_RATER, REFLECTIONS, last_failure
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.install import places
from tallybook.projections.surfaces.reflection import transcript

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallybook.projections.reflections import Failure, Reflections, Session
    from tallybook.projections.surfaces.workspace.project import Project

FIRST_WAIT_S: Final = 300
MAX_WAIT_S: Final = 24 * 3600
MAX_TRIES: Final = 6
"""After so many in a row nobody tries again by himself; `tallybook reflect` does."""
STILL_US: Final = clock.MICROSECONDS
WAITS: Final = 5
"""How often a worker waits until nothing was written to a transcript for STILL_US."""
QUIET_S: Final = 60
"""A transcript that was written to later than so many seconds ago may belong to a session that goes on."""
ENDS: Final = frozenset({"SessionEnd"})
"""Triggers behind which a session says nothing more, but for what the agent writes late."""


@attrs.frozen
class Plan:
    """How the work is to be done.

    Attributes:
        rater: Key of RATERS.
        model: Which model, empty for the rater's usual one.
        tokens: What all of a day's reflections may cost, in tokens, in and out.
        patient: Whether what failed waits before it is tried again; a person's own asking does not.
        folders: Where transcripts may lie that are read, beside the agent's own folder.
    """

    rater: str = NO_RATER
    model: str = ""
    tokens: int = 500_000
    patient: bool = False
    folders: tuple[Path, ...] = ()


def look(project: Project, before: Reflections | None = None) -> Reflections:
    """Return what reflection has done and has to do; with what was seen before, only what came since is read."""
    after = START if before is None else reading.position_of(before)
    return fold(REFLECTIONS, decode(reading.open_log(project).read(after)), before)


def due(known: Reflections, plan: Plan, tried: Collection[str]) -> Iterator[str]:
    """Yield the sessions whose turn it is, the one first asked for first."""
    now_us = clock.utc_now().unix_us
    for name, session in known.sessions.items():
        if not name or name in tried or not has_more(session, plan.rater):
            continue
        failure = last_failure(session) if plan.patient else None
        # Whoever chose another rater since has changed what it failed for.
        again_us = now_us if failure is None or failure.rater != plan.rater else next_try_us(failure)
        if again_us is not None and again_us <= now_us:
            yield name


def next_try_us(failure: Failure) -> int | None:
    """Return when a failure is tried again unasked, in microseconds since 1970; None for never."""
    if failure.tries >= MAX_TRIES:
        return None
    wait_s: int = min(FIRST_WAIT_S * 2 ** (failure.tries - 1), MAX_WAIT_S)
    return clock.to_unix_us(failure.at) + wait_s * clock.MICROSECONDS


def is_given_up(session: Session, rater: str) -> bool:
    """Say whether nobody tries a session again unasked: it failed too often, or its transcript is not there."""
    failure = last_failure(session)
    failed = failure is not None and failure.rater == rater and next_try_us(failure) is None
    return failed or session.is_transcript_gone


def has_more(session: Session, rater: str) -> bool:
    """Say whether there is anything to read: what is owed, or what an agent wrote behind its session's end."""
    if session.transcript is None:
        return session.awaits_reflection(rater) and not session.is_transcript_gone
    path = Path(session.transcript)
    if session.is_transcript_gone and not path.is_file():
        # It was said once; it may come back, from a backup or with a folder that was not there.
        return False
    return session.awaits_reflection(rater) or (session.trigger in ENDS and grown(session, path, rater))


def grown(session: Session, path: Path, rater: str) -> bool:
    """Say whether transcripts of a session hold other than what was read of them, and have for a while."""
    reached, still_us = session.position(rater), clock.utc_now().unix_us - QUIET_S * clock.MICROSECONDS
    try:
        found = [(file, one.stat()) for file, one in transcript.files_of(path).items()]
    except OSError:
        return False
    if any(stat.st_mtime_ns // 1000 > still_us for _, stat in found):
        return False
    ends = {file: (stat.st_size, reached.end.get(file, 0)) for file, stat in found}
    own, read = ends.pop("")
    # The session's own may end with half a line, which is accounted for.
    return own < read or own > max(read, reached.length) or any(size > read for size, read in ends.values())


def kept_by_agent(path: Path, plan: Plan) -> bool:
    """Say whether a transcript lies where the agent keeps them, or where a person said.

    A ledger can come with a clone: it shall name no other file of the user's to be read and sent.
    """
    real = path.resolve()
    return any(real.is_relative_to(folder.resolve()) for folder in (places.users_folder() / "projects", *plan.folders))


def outside(path: Path) -> str:
    """Return why a transcript is not read."""
    folder = places.users_folder() / "projects"
    return f"the transcript, {path}, lies outside {folder}; `tallybook reflect --from` takes it from elsewhere"


def wait_for_writers(project: Project, plan: Plan) -> None:
    """Give an agent that has just ended the time to write the last of what was said."""
    known = look(project)
    for _ in range(WAITS):
        now_us = clock.utc_now().unix_us
        owed = [one for one in known.sessions.values() if one.trigger in ENDS and one.awaits_reflection(plan.rater)]
        if not any(_written_us(one) > now_us - STILL_US for one in owed):
            return
        sleep(STILL_US / clock.MICROSECONDS)


def _written_us(session: Session) -> int:
    with suppress(OSError):
        return Path(session.transcript or os.devnull).stat().st_mtime_ns // 1000
    return 0
