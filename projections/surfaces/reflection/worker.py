"""The worker: it reflects on every session that awaits it, one piece at a time, under a lock of its own.

Each rating counts once, even if the worker is interrupted: the ratings of a piece are one batch with the reads of its
transcripts, and the next piece begins after them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import takewhile
from math import inf
import os
from pathlib import Path
from typing import Final

import attrs

from tallybook.ledger import clock, events
from tallybook.ledger.codec import decode
from tallybook.ledger.decisions.curation import OPERATIONS
from tallybook.ledger.errors import BadInputError, CannotWriteError, LockHeldError
from tallybook.ledger.events import ReflectionRequested
from tallybook.ledger.line import MAX_PROVENANCE_CHARS, START
from tallybook.ledger.storage import disk
from tallybook.projections.history.reflections import GONE, NO_RATER, REFLECTIONS, ReflectedSession, Reflections
from tallybook.projections.playbook.fold import fold
from tallybook.projections.playbook.render import entry_json
from tallybook.projections.playbook.view import Playbook
from tallybook.projections.surfaces.agents.claude import folder_name
from tallybook.projections.surfaces.history import checkpoints, reading
from tallybook.projections.surfaces.hooks import citations
from tallybook.projections.surfaces.hooks.draws import LINEAGE
from tallybook.projections.surfaces.hooks.handler import SETTLED
from tallybook.projections.surfaces.reflection import prompts, raters, transcript
from tallybook.projections.surfaces.reflection.marks import mark_requests
from tallybook.projections.surfaces.reflection.prompts import Piece, Prompt, Unread
from tallybook.projections.surfaces.reflection.raters import UNAVAILABLE, UNUSABLE, RaterError
from tallybook.projections.surfaces.workspace import personal, settings
from tallybook.projections.surfaces.workspace.project import MARKS, Project, contains, project_around
from tallybook.projections.surfaces.workspace.settings import Settings
from tallybook.projections.surfaces.writing import pair, record
from tallybook.projections.surfaces.writing.requests import ALREADY_RATED, Decide, PlainEvents, Request, Update

FIRST_WAIT_S: Final = 300
MAX_WAIT_S: Final = 24 * 3600
MAX_TRIES: Final = 6
"""After so many failures in a row only a person's `tallybook reflect` tries again."""
WRITE_PAUSE_S: Final = 1
"""An agent that has just ended has so long to write the rest of its transcript; what it writes later is read later."""
# Codex fires no such event at /quit, because its server keeps the thread: each stop requests the reflection.
ENDS: Final = frozenset({"SessionEnd"})
"""Triggers after which a session writes nothing more, except what the agent writes late."""

OUTSIDE: Final = "outside"
"""Cause of a failure: the file is no transcript in an agent's folder, nor in a folder that a person named."""
KILLED_TRIGGER: Final = "transcript"
_KEPT_US: Final = 30 * 24 * 3600 * clock.MICROSECONDS
"""After so long Claude Code and Gemini CLI delete a transcript; no limit of the other agents is known.

A session that was given the playbook longer ago is not looked for, and it may continue: the ledger knows that it has
the playbook.
"""
_STILL_US: Final = 600 * clock.MICROSECONDS
"""A session whose transcript was written to more recently than this may go on."""
_BEGINNING_US: Final = 3600 * clock.MICROSECONDS
"""For so long a session may have no transcript yet."""


@attrs.frozen
class Plan:
    """How to reflect.

    Attributes:
        settings: Who reflects, by which model and where, for how many tokens a day, and what it may change.
        patient: Whether a failure waits before it is retried; not where a person asks.
        folders: Folders besides the agents' own whose transcripts may be read.
    """

    settings: Settings = attrs.field(factory=Settings)
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
        is_due = not plan.patient or next_try_us(session, plan.rater) <= now_us
        if name and name not in tried and is_due and has_more(session, plan.rater):
            yield name


def next_try_us(session: ReflectedSession, rater: str) -> float:
    """Return when a session is tried automatically, in microseconds since 1970; infinity for never."""
    failure = session.failure
    # Another rater than the one that failed need not wait.
    if failure is None or failure.rater != rater:
        return 0
    if failure.tries >= MAX_TRIES:
        return inf
    wait_s: int = min(FIRST_WAIT_S * 2 ** (failure.tries - 1), MAX_WAIT_S)
    return clock.to_unix_us(failure.at) + wait_s * clock.MICROSECONDS


def has_more(session: ReflectedSession, rater: str) -> bool:
    """Say whether anything that was requested is left to read."""
    if not session.is_transcript_gone:
        return session.awaits_reflection(rater)
    # Reported once; it may come back, from a backup or with a folder that was not mounted.
    path = transcript.locate(Path(session.transcript or os.devnull))
    return session.awaits_reflection(rater) and transcript.is_here(path)


def _find_last_write(path: Path) -> int:
    """Return when a session's transcript or one of its subagents' was written to last, in microseconds since 1970.

    Raises:
        OSError: One cannot be read.
    """
    return max(file.stat().st_mtime_ns // 1000 for file in transcript.files_of(path).values())


# Sessions that ended without a hook because their clients were killed, or that were written to after their end. The
# ledger knows them by the playbook that they were given, or by their end; no other session of the agents' folders is
# read, and none of another project: a ledger can come with a clone, and the ids of sessions with it.


def find_open(project: Project, known: Reflections) -> dict[str, ReflectedSession | None]:
    """Return the sessions whose transcripts are longer than was requested and read, or not there yet.

    Returns:
        Id → the session as it awaits reflection where its client must be gone; None where it may go on.
    """
    now_us = clock.utc_now().unix_us
    oldest, beginning = (clock.moment(now_us - age_us).at for age_us in (_KEPT_US, _BEGINNING_US))
    # A session that ended may have been given nothing, because the playbook was empty.
    sessions = {name: session for name, session in known.sessions.items() if name and session.trigger in ENDS}
    given = (name for name, at in known.injected_at.items() if at >= oldest)
    sessions |= {name: known.sessions.get(name, ReflectedSession(None)) for name in given}
    transcripts = _find_transcripts(project, sessions) if sessions else {}
    found: dict[str, ReflectedSession | None] = {}
    for name, session in sessions.items():
        path, has_ended = transcripts.get(name), session.trigger in ENDS
        if path is None and not has_ended and known.injected_at[name] >= beginning:
            found[name] = None
        # Agents delete old transcripts at any time.
        with suppress(OSError):
            length = max(session.request_end, session.searched_to.length)
            if path is not None and (size := transcript.size_of(path)) > length:
                trigger = session.trigger if has_ended else KILLED_TRIGGER
                longer = attrs.evolve(session, transcript=os.fspath(path), request_end=size, trigger=trigger)
                found[name] = longer if _find_last_write(path) <= now_us - _STILL_US else None
    return found


def find_longer(project: Project, known: Reflections) -> dict[str, ReflectedSession]:
    """Return the sessions whose clients were killed or wrote late, by their ids, as they await reflection."""
    return {name: session for name, session in find_open(project, known).items() if session is not None}


def _find_transcripts(project: Project, sessions: Mapping[str, ReflectedSession]) -> dict[str, Path]:
    """Return the transcripts of sessions that began in a project, by their ids.

    Of several, the one that was reflected on, else the largest: Gemini CLI begins another one when it resumes a
    session, and goes on to write into the first.
    """
    ranks: dict[str, tuple[bool, int, Path]] = {}
    for folder, reader in transcript.folders().items():
        for path in transcript.find_in(folder, reader):
            name, place = reader.session_of(os.fspath(path)), os.fspath(path)
            if name in sessions and is_of_project(path, project):
                with suppress(OSError):
                    rank = (place == sessions[name].transcript, transcript.size_of(path), path)
                    ranks[name] = max(ranks.get(name, rank), rank)
    return {name: path for name, (_, _, path) in ranks.items()}


def is_of_project(path: Path, project: Project) -> bool:
    """Say whether a session began in a folder of a project, or in a worktree of its repository."""
    roots = {os.path.realpath(project.root), os.path.realpath(project.start or project.root)}
    if path.parent.name in map(folder_name, {*roots, os.fspath(project.root)}):
        return True
    folder = Path(transcript.reader_of(path).folder_of(os.fspath(path)))
    real = os.path.realpath(folder)
    is_inside = any(contains(root, real) for root in roots) or os.path.realpath(project_around(real) or real) in roots
    return folder.is_absolute() and is_inside


def reflection_request(session: str, end: int, trigger: str, path: str | None, rater: str) -> Request:
    """Return the request to reflect on a session up to a length of its transcript."""
    action = PlainEvents((ReflectionRequested(end, trigger, path),))
    return Request(action, {"rater": rater, "session": session}, f"reflect:{session}:{end}")


# The work, piece by piece

LOCK: Final = "reflect.lock"

DONE: Final = "done"
BUSY: Final = "another process reflects already"
SPENT: Final = "the day's tokens are spent"
TOO_FEW: Final = "a day's tokens are too few for a single piece"
HELD: Final = "another process holds the ledger"
_REPEATED: Final = "this part was recorded before"
_UUID_CHARS: Final = 100


@attrs.frozen
class Result:
    """The result of one piece.

    Attributes:
        session: Its session.
        tokens: Its cost, input and output.
        added: Names of new entries.
        rated: How many entries were rated.
        pruned: Names of the entries that its update pruned.
        failed: Why nothing was recorded, empty otherwise.
        ignored: The parts of the answer that have no effect, and why.
        unknown: How many lines of the transcript were not understood.
        is_unmeasured: Whether the transcript, read to its end, had neither a prompt nor a call that was understood.
    """

    session: str
    tokens: int = 0
    added: tuple[str, ...] = ()
    rated: int = 0
    pruned: tuple[str, ...] = ()
    failed: str = ""
    ignored: tuple[str, ...] = ()
    unknown: int = 0
    is_unmeasured: bool = False


@attrs.frozen
class _State:
    """The project, the plan, what the ledger holds now, and the playbook with and without the person's own entries."""

    project: Project
    plan: Plan
    known: Reflections
    playbook: Playbook
    shared: Playbook


class _StopError(Exception):
    """The worker cannot go on; the message says why."""


def work(project: Project, plan: Plan, report: Callable[[Result], None] = lambda _: None) -> str:
    """Reflect on everything that is pending and due.

    Returns:
        DONE, or why something is left: BUSY, SPENT, TOO_FEW, HELD.

    Raises:
        TallybookError: The ledger is damaged or cannot be written.
    """
    if not project.ledger.exists():
        return DONE
    tried: set[str] = set()
    try:
        while True:
            with disk.hold_lock(project.ledger / LOCK, 0):
                state = _request_longer(_load(project, plan))
                if plan.rater != NO_RATER and overhead(state.playbook) >= plan.settings.tokens_per_day:
                    return TOO_FEW
                while (name := next(find_due(state.known, plan, tried), None)) is not None:
                    result = _reflect(state, name)
                    if result is None or result.failed:
                        tried.add(name)
                    if result is not None:
                        report(result)
                    state = _load(project, plan, state.known)
                _settle(state)
            # Workers for later requests ended, as this one held the lock.
            known = load_reflections(project, state.known)
            if next(find_due(known, plan, tried), None) is None:
                return DONE
    except LockHeldError:
        return BUSY
    except _StopError as stop:
        return str(stop)


def _load(project: Project, plan: Plan, before: Reflections | None = None) -> _State:
    """Return what the ledger holds, the spool included."""
    if (mine := personal.find(project)) is not None:
        pair.finish(mine)
    report = record.write(project, [])
    if report.state is None:
        raise _StopError(HELD)
    playbook = pair.merge_playbooks(project, report.state)
    return _State(project, plan, load_reflections(project, before), playbook, report.state)


def _record(project: Project, requests: Sequence[Request]) -> list[record.Outcome]:
    """Record requests, or stop while another process holds the ledger."""
    try:
        if (mine := personal.find(project)) is not None:
            return [pair.write(project, mine, request).outcomes[0] for request in requests]
        return list(record.write(project, requests).outcomes)
    except LockHeldError as error:
        raise _StopError(HELD) from error


def _request_longer(state: _State) -> _State:
    """Record that sessions whose clients were killed, or wrote late, await reflection."""
    requests = [
        reflection_request(name, session.request_end, session.trigger, session.transcript, "tallybook")
        for name, session in find_longer(state.project, state.known).items()
    ]
    _record(state.project, requests)
    return attrs.evolve(state, known=load_reflections(state.project, state.known))


def _settle(state: _State) -> None:
    """Note for the hook of the next session that nothing is pending."""
    rater, sessions = state.plan.rater, state.known.sessions.values()
    awaiting = [session for session in sessions if session.awaits_reflection(rater) and not session.is_transcript_gone]
    # A session that continues may be killed.
    pending = any(next_try_us(session, rater) < inf for session in awaiting)
    if not pending and not find_open(state.project, state.known):
        with suppress(OSError, CannotWriteError):
            marks = state.project.ledger / MARKS
            disk.make_folder(marks, durable=False)
            disk.replace_cache_file(marks / SETTLED, rater.encode())
            # The ledger also knows that old sessions have the playbook.
            oldest_ns = (clock.utc_now().unix_us - _KEPT_US) * 1000
            for path in (*marks.glob("told-*"), *marks.glob(f"{LINEAGE}*")):
                if path.stat().st_mtime_ns < oldest_ns:
                    path.unlink()


def unread(known: Reflections, name: str, plan: Plan, session: ReflectedSession, playbook: Playbook) -> Unread:
    """Return what is left to read of a session.

    Raises:
        BadInputError: The prompt's template has no place for it.
    """
    chars = prompts.PIECE_CHARS
    if plan.rater != NO_RATER:
        # A character is at most a token.
        chars = min(chars, plan.settings.tokens_per_day - overhead(playbook))
    return Unread(name, session, known, plan.rater, playbook.used, chars)


def overhead(playbook: Playbook) -> int:
    """Return the cost of a piece without its text, in tokens."""
    return raters.estimate_tokens(prompt_for("", playbook).text)


def prompt_for(text: str, playbook: Playbook, withheld: Collection[str] = ()) -> Prompt:
    """Return the prompt for a piece; it has no names of entries that a draw withheld from the session.

    Raises:
        BadInputError: The prompt's template has no place for it.
    """
    entries = playbook.entries.values()
    named = [entry_json(entry) for entry in entries if entry.name not in withheld]
    unnamed = [entry.text for entry in entries if entry.name in withheld]
    return prompts.write_prompt(named, [entry.text for entry in playbook.gone.values()], text, unnamed)


def _reflect(state: _State, name: str) -> Result | None:
    """Reflect on the next piece of a session, and return the result; None where there is no piece."""
    session = state.known.sessions[name]
    try:
        piece = _next_piece(state, name, session)
        if piece is None:
            return None
        numbers = _measure(state.known, name, session) if piece.is_last else None
        requests = piece.citations
        if numbers is not None and numbers != state.known.measured.get(name):
            measured = PlainEvents((events.SessionMeasured(numbers),))
            requests = [*requests, Request(measured, {"rater": "tallybook", "session": name}, when=piece.at)]
        if requests:
            _record(state.project, requests)
        # After the citations: a helpful mark counts only where the session cited the entry.
        rated = _record_marks(state, piece)
        if piece.text:
            result = _ask(state, name, piece)
        else:
            outcome = _write(state, name, PlainEvents(tuple(piece.reads)), piece)
            failed = _REPEATED if outcome.repeated else ""
            result = Result(name, rated=rated, failed=failed, unknown=piece.unknown)
        return attrs.evolve(result, is_unmeasured=piece.is_last and numbers is None)
    except RaterError as error:
        failure = events.ReflectionFailed(state.plan.rater, error.cause, *error.spent, error.reason)
        _write(state, name, PlainEvents((failure,)), model=error.model)
        return Result(name, sum(error.spent), failed=error.reason)
    except BadInputError as error:
        # One odd session must not stop the others.
        return Result(name, failed=str(error))


def _measure(known: Reflections, name: str, session: ReflectedSession) -> events.Numbers | None:
    """Return the numbers of a session's transcript; None where it is not understood, or cannot be read any more."""
    with suppress(OSError):
        path = transcript.locate(Path(session.transcript or os.devnull))
        earlier = takewhile(lambda other: other != name, known.sessions)
        # A forked session says nowhere which lines it copied. Of two sessions with the same lines, the one that was
        # requested first counts them.
        others = [Path(known.sessions[other].transcript or os.devnull) for other in earlier]
        copied = transcript.find_copied_uuids(path, dict.fromkeys(others, inf))
        return transcript.measure(path, ended=session.trigger in ENDS, copied=copied)
    return None


def _record_marks(state: _State, piece: Piece) -> int:
    """Record what the agent's messages rate and propose, after what they cite; return how many ratings count."""
    if not piece.marked:
        return 0
    own = state.playbook.entries.keys() - state.shared.used
    options = settings.read(state.project)
    outcomes = _record(state.project, list(mark_requests(state.project, state.playbook, own, piece.marked, options)))
    return sum(len(outcome.rated) for outcome in outcomes)


def _next_piece(state: _State, name: str, session: ReflectedSession) -> Piece | None:
    """Return the next piece of a session; None where nothing is left.

    Raises:
        RaterError: Its transcript is missing, or may not or cannot be read.
    """
    left = unread(state.known, name, state.plan, session, state.playbook)
    path = left.path
    if not transcript.is_here(path):
        raise RaterError(GONE, "the transcript is gone")
    real = path.resolve()
    folders = [folder for folder, reader in transcript.folders().items() if real.name.startswith(reader.name)]
    # A ledger can come with a clone, and must not be able to name other files of the user, to be read and sent.
    if not any(real.is_relative_to(folder.resolve()) for folder in (*folders, *state.plan.folders)):
        hint = "`tallybook reflect --from` takes it from elsewhere"
        raise RaterError(OUTSIDE, f"the transcript, {path}, lies outside the agents' folders; {hint}")
    try:
        if not session.searched_to.end:
            _tie_lineage(state, name, path)
        left = attrs.evolve(left, find_given=lru_cache(partial(_find_given, state, name)))
        return next(prompts.read_pieces(left), None)
    except FileNotFoundError as error:
        raise RaterError(GONE, "the transcript is gone") from error
    except OSError as error:
        raise RaterError(UNAVAILABLE, f"the transcript cannot be read: {disk.reason(error)}") from error


def _tie_lineage(state: _State, name: str, path: Path) -> None:
    """Record which session a session continues, by its transcript, where no hook did."""
    known = state.known
    sessions = {path.with_name(f"{id_}{path.suffix}"): id_ for id_ in known.injected_at if id_ != name}
    sessions |= {Path(other.transcript): id_ for id_, other in known.sessions.items() if other.transcript}
    sessions.pop(path, None)
    parent = transcript.reader_of(path).parent_of(os.fspath(path))
    parent = parent or next((sessions[other] for other in transcript.find_copied(path, sessions)), "")
    if parent not in known.injected_at.keys() | known.sessions.keys() or parent == name:
        return
    if all(body.get("lineage") in {"", name} for _, body in citations.injections(state.project, name)):
        # Lift counts a lineage once: counted singly, its sessions made a false claim in 44.5 % of simulated histories.
        event = events.PlaybookInjected((), (), events.Numbers({}), None, "", "", parent, (), 0.0)
        by = {"rater": "tallybook", "session": name}
        _record(state.project, [Request(PlainEvents((event,)), by, f"continues:{name}")])


def _find_given(state: _State, session: str, names: frozenset[str], subagent: str) -> set[str]:
    """Return which of some entries a session's lineage was given, the person's own by their own ledger."""
    given = citations.find_given(state.project, session, names & state.shared.used, subagent)
    mine = personal.find(state.project)
    return given if mine is None else given | citations.find_given(mine, session, names - state.shared.used, subagent)


def _ask(state: _State, name: str, piece: Piece) -> Result:
    """Ask the rater about a piece, and record what the answer says."""
    plan, prompt = state.plan, prompt_for(piece.text, state.playbook, state.known.withheld.get(name, ()))
    expected = raters.estimate_tokens(prompt.text)
    # A memory tool that called a model at every step burned 649 million tokens.
    if state.known.tokens_by_day.get(clock.utc_now().at[:10], 0) + expected > plan.settings.tokens_per_day:
        raise _StopError(SPENT)
    # Recorded first: an attempt that leaves no trace could cost tokens again and again.
    _write(state, name, PlainEvents((events.ReflectionStarted(plan.rater, expected),)))
    reply, answer = raters.ask_rater(prompt.text, plan.settings)
    # Nothing is learned anew that was pruned, that a draw withheld, or that a person has in a playbook of their own.
    entries = state.playbook.entries.items()
    own_texts = (entry.text for entry_name, entry in entries if entry_name not in state.shared.entries)
    answer = answer.restrict(prompt.shown, {*prompt.unwanted, *own_texts})
    facts = (*answer.notes, *piece.reads, events.ReflectionCompleted(plan.rater, *reply.spent))
    try:
        update = Update(answer.result, plain_events=facts, may=plan.settings.may, shown=tuple(sorted(prompt.shown)))
        outcome = _write(state, name, update, piece, reply.model)
    except BadInputError as error:
        what = f"the answer cannot be recorded: {error}"
        raise RaterError(UNUSABLE, what, reply.spent, reply.model) from error
    all_ignored = (*outcome.ignored, *(outcome.mine.ignored if outcome.mine else ()))
    voted = [item for item in all_ignored if item.reason == ALREADY_RATED]
    ignored = [*voted, *(item for item in all_ignored if item.item.startswith(OPERATIONS))]
    return Result(
        name,
        sum(reply.spent),
        outcome.added,
        len(answer.evaluations) - len(voted),
        outcome.pruned,
        _REPEATED if outcome.repeated else "",
        (*answer.ignored, *(f"{item.item}: {item.reason}" for item in ignored)),
        piece.unknown,
    )


def _write(state: _State, name: str, decide: Decide, piece: Piece | None = None, model: str = "") -> record.Outcome:
    """Record something about a session; a piece counts once, however often it comes."""
    by = {"rater": "reflector", "session": name} | ({"model": model[:MAX_PROVENANCE_CHARS]} if model else {})
    key = None
    if piece is not None:
        first = piece.reads[0]
        place = f"{first.file or 'transcript'}:{first.begin}-{first.end}"
        by["place"] = place
        # The last line tells a file from another of the same name.
        done = "heard" if state.plan.rater == NO_RATER else "reflected"
        key = f"{done}:{name}:{place}:{first.last[:_UUID_CHARS]}"
    (outcome,) = _record(state.project, [Request(decide, by, key, piece.at if piece else None)])
    if outcome.spooled:
        raise _StopError(HELD)
    return outcome
