"""Which sessions await reflection: those requested, those whose client was killed, and when a failure is retried."""

from __future__ import annotations

from contextlib import suppress
import os
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger import clock
from tallybook.ledger.codec import decode
from tallybook.ledger.events import ReflectionRequested
from tallybook.ledger.line import START
from tallybook.projections.fold import fold
from tallybook.projections.reflections import REFLECTIONS, Session, last_failure
from tallybook.projections.surfaces.agents.claude import folder_name
from tallybook.projections.surfaces.history import checkpoints, reading
from tallybook.projections.surfaces.reflection import transcript
from tallybook.projections.surfaces.workspace.project import contains, project_around
from tallybook.projections.surfaces.workspace.settings import Settings
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from tallybook.projections.reflections import Failure, Reflections
    from tallybook.projections.surfaces.workspace.project import Project

FIRST_WAIT_S: Final = 300
MAX_WAIT_S: Final = 24 * 3600
MAX_TRIES: Final = 6
"""After so many failures in a row only a person's `tallybook reflect` tries again."""
_WRITE_PAUSE_US: Final = clock.MICROSECONDS
_MAX_PAUSES: Final = 5
"""How often a worker waits until nothing was written to a transcript for _WRITE_PAUSE_US."""
QUIET_S: Final = 60
"""A transcript written to more recently than this may belong to a session that continues."""
# Codex fires no such event at /quit, because its server keeps the thread: each stop requests the reflection.
ENDS: Final = frozenset({"SessionEnd"})
"""Triggers after which a session writes nothing more, except what the agent writes late."""

OUTSIDE: Final = "outside"
"""Cause of a failure: the file is no transcript in an agent's folder, nor in a folder that a person named."""
KILLED_TRIGGER: Final = "transcript"
KEPT_DAYS: Final = 30
"""After so many days Claude Code and Gemini CLI delete a transcript; no limit of the other agents is known.

A session that was given the playbook longer ago is not looked for, and it may continue: the ledger knows that it has
the playbook.
"""
_STILL_US: Final = 600 * clock.MICROSECONDS
"""A session whose transcript was written to more recently than this may not be killed."""
_BEGINNING_US: Final = 3600 * clock.MICROSECONDS
"""For so long a session may have no transcript yet."""

_DEFAULTS: Final = Settings()


@attrs.frozen
class Plan:
    """How to reflect.

    Attributes:
        settings: Who reflects, by which model and where, for how many tokens a day, and what it may change.
        patient: Whether a failure waits before it is retried; not where a person asks.
        folders: Folders besides the agents' own whose transcripts may be read.
    """

    settings: Settings = _DEFAULTS
    patient: bool = False
    folders: tuple[Path, ...] = ()

    @property
    def rater(self) -> str:
        """Return who reflects."""
        return self.settings.rater


def load_reflections(project: Project, before: Reflections | None = None) -> Reflections:
    """Return which reflections are done and pending; from an earlier state, only later events are read."""
    after = START if before is None else checkpoints.position_of(before)
    return fold(REFLECTIONS, decode(reading.open_own_log(project).read(after)), before)


def find_due(known: Reflections, plan: Plan, tried: Collection[str]) -> Iterator[str]:
    """Yield the sessions to reflect on now, in the order of their first request."""
    now_us = clock.utc_now().unix_us
    for name, session in known.sessions.items():
        if not name or name in tried or not has_more(session, plan.rater):
            continue
        failure = last_failure(session) if plan.patient else None
        # Another rater than the one that failed need not wait.
        retry_us = now_us if failure is None or failure.rater != plan.rater else next_try_us(failure)
        if retry_us is not None and retry_us <= now_us:
            yield name


def next_try_us(failure: Failure) -> int | None:
    """Return when a failure is retried automatically, in microseconds since 1970; None for never."""
    if failure.tries >= MAX_TRIES:
        return None
    wait_s: int = min(FIRST_WAIT_S * 2 ** (failure.tries - 1), MAX_WAIT_S)
    return clock.to_unix_us(failure.at) + wait_s * clock.MICROSECONDS


def is_given_up(session: Session, rater: str) -> bool:
    """Say whether a session is not retried automatically: it failed too often, or its transcript is missing."""
    failure = last_failure(session)
    failed = failure is not None and failure.rater == rater and next_try_us(failure) is None
    return failed or session.is_transcript_gone


def has_more(session: Session, rater: str) -> bool:
    """Say whether anything is left to read: requested bytes, or what an agent wrote after its session's end."""
    awaits = session.awaits_reflection(rater)
    if session.transcript is None:
        return awaits and not session.is_transcript_gone
    path = Path(session.transcript)
    path = transcript.locate(path)
    if session.is_transcript_gone and not path.is_file():
        # Reported once; it may come back, from a backup or with a folder that was not mounted.
        return False
    return awaits or (session.trigger in ENDS and _has_grown(session, path, rater))


def _has_grown(session: Session, path: Path, rater: str) -> bool:
    """Say whether the transcripts of a session differ from what was read of them, and have for a while."""
    position, quiet_us = session.position(rater), clock.utc_now().unix_us - QUIET_S * clock.MICROSECONDS
    try:
        files = transcript.files_of(path)
        if any(file.stat().st_mtime_ns // 1000 > quiet_us for file in files.values()):
            return False
        sizes = {file: transcript.size_of(place) for file, place in files.items()}
    except OSError:
        return False
    own_size, own_end = sizes.pop(""), position.end.get("", 0)
    # The session's own may end with half a line, which is accounted for.
    if own_size < own_end or own_size > max(own_end, position.length):
        return True
    return any(size > position.end.get(file, 0) for file, size in sizes.items())


def may_be_read(path: Path, plan: Plan) -> bool:
    """Say whether a file is a transcript in the folder of an agent, or is in a folder that a person named.

    A ledger can come with a clone, and must not be able to name other files of the user, to be read and sent.
    """
    real = path.resolve()
    own = [folder for folder, reader in transcript.folders().items() if real.name.startswith(reader.name)]
    return any(real.is_relative_to(folder.resolve()) for folder in (*own, *plan.folders))


def wait_for_writers(project: Project, plan: Plan) -> None:
    """Give an agent that has just ended the time to write the rest of its transcript."""
    sessions = load_reflections(project).sessions.values()
    for _ in range(_MAX_PAUSES):
        since_us = clock.utc_now().unix_us - _WRITE_PAUSE_US
        ended = [session for session in sessions if session.trigger in ENDS and session.awaits_reflection(plan.rater)]
        if not any(_written_us(session) > since_us for session in ended):
            return
        sleep(_WRITE_PAUSE_US / clock.MICROSECONDS)


def _written_us(session: Session) -> int:
    with suppress(OSError):
        return Path(session.transcript or os.devnull).stat().st_mtime_ns // 1000
    return 0


# Sessions that ended without a hook because their clients were killed. The ledger knows them by the playbook that they
# were given; no other session of the agents' folders is read, and none of another project: a ledger can come with a
# clone, and the ids of sessions with it.


def find_open(project: Project, known: Reflections) -> dict[str, Session | None]:
    """Return the sessions without a reported end whose transcripts are longer than was requested, or not there yet.

    Returns:
        Id → the session as it awaits reflection where its client must be gone; None where it may go on.
    """
    now_us = clock.utc_now().unix_us
    oldest = clock.moment(now_us - KEPT_DAYS * 24 * 3600 * clock.MICROSECONDS).at
    beginning = clock.moment(now_us - _BEGINNING_US).at
    sessions = {name: known.sessions.get(name, Session(None)) for name, at in known.injected_at.items() if at >= oldest}
    # After a reported end, `has_more` finds what is written later.
    unended = {name: session for name, session in sessions.items() if session.trigger not in ENDS}
    paths = _find_transcripts(project, unended) if unended else {}
    found: dict[str, Session | None] = {}
    for name, session in unended.items():
        size, written_us = _examine(paths[name]) if name in paths else (-1, 0)
        if size > session.request_end:
            killed = attrs.evolve(session, transcript=str(paths[name]), request_end=size, trigger=KILLED_TRIGGER)
            found[name] = killed if written_us <= now_us - _STILL_US else None
        elif size < 0 and known.injected_at[name] >= beginning:
            found[name] = None
    return found


def find_killed(project: Project, known: Reflections) -> dict[str, Session]:
    """Return the sessions whose clients were killed, by their ids, as they await reflection."""
    return {name: session for name, session in find_open(project, known).items() if session is not None}


def _find_transcripts(project: Project, sessions: Mapping[str, Session]) -> dict[str, Path]:
    """Return the transcripts of sessions that began in a project."""
    found: dict[str, list[Path]] = {}
    for folder, reader in transcript.folders().items():
        for path in transcript.find_in(folder, reader):
            name = reader.session_of(os.fspath(path))
            if name in sessions and is_of_project(path, project):
                found.setdefault(name, []).append(path)
    return {name: _choose(paths, sessions[name].transcript) for name, paths in found.items()}


def _choose(paths: Collection[Path], known: str | None) -> Path:
    """Return the one of a session's transcripts that was reflected on, else the largest.

    Gemini CLI begins another one when it resumes a session, and goes on to write into the first.
    """

    def rank(path: Path) -> tuple[bool, int]:
        # Agents delete old transcripts at any time.
        with suppress(OSError):
            return os.fspath(path) == known, transcript.size_of(path)
        return False, 0

    return max(paths, key=rank)


def is_of_project(path: Path, project: Project) -> bool:
    """Say whether a session began in a folder of a project, or in a worktree of its repository."""
    roots = {os.path.realpath(project.root), os.path.realpath(project.start or project.root)}
    if path.parent.name in map(folder_name, {*roots, os.fspath(project.root)}):
        return True
    folder = Path(transcript.reader_of(path).folder_of(os.fspath(path)))
    real = os.path.realpath(folder)
    is_inside = any(contains(root, real) for root in roots) or os.path.realpath(project_around(real) or real) in roots
    return folder.is_absolute() and is_inside


def _examine(path: Path) -> tuple[int, int]:
    """Return the length of a transcript, negative where it cannot be examined, and when it was written to last.

    Those of its subagents count as well.
    """
    try:
        written_us = max(file.stat().st_mtime_ns // 1000 for file in transcript.files_of(path).values())
        return transcript.size_of(path), written_us
    except OSError:
        return -1, 0


def reflection_request(session: str, end: int, trigger: str, path: str | None, rater: str) -> Request:
    """Return the request to reflect on a session up to a length of its transcript."""
    action = PlainEvents((ReflectionRequested(end, trigger, path),))
    return Request(action, {"rater": rater, "session": session}, f"reflect:{session}:{end}")
