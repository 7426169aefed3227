"""The doctor's check of reflection: pending and failed sessions, the chosen rater, and the cost."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
import shutil
from typing import TYPE_CHECKING, Final

from tallybook.ledger import clock
from tallybook.projections.reflections import GONE, INTERRUPTED, NO_RATER, last_failure
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, format_duration, format_names
from tallybook.projections.surfaces.reflection import schedule, transcript, worker
from tallybook.projections.surfaces.reflection.raters import CLIENTS, OWN
from tallybook.projections.surfaces.reflection.replies import TIMEOUT_S
from tallybook.projections.surfaces.workspace import settings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tallybook.projections.reflections import Failure, Reflections, Session
    from tallybook.projections.surfaces.doctor.finding import Context
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.workspace.settings import Settings

CLIENT_NAMES: Final = {"claude": "Claude Code", "codex": "Codex", "gemini": "Gemini CLI"}
"""Command of a client → its name."""

_DAY_US: Final = 24 * 3600 * clock.MICROSECONDS
_DAYS: Final = 30
_RETRY: Final = "run `tallybook reflect` to try now"
_REFLECT: Final = "run `tallybook reflect`, or wait until the next session starts or ends"


def check_reflection(context: Context) -> Iterator[Finding]:
    """Report pending and failed reflections, whether the chosen rater can run, and the cost."""
    if not context.log.exists():
        return
    options = _settings_in_force(context.project)
    state = schedule.load_reflections(context.project)
    if options.rater == NO_RATER:
        yield _without_rater(state)
    else:
        yield from _missing_tools(options)
        yield from _pending_sessions(context, state, options)
        yield from _missing_transcripts(context, state)
    yield from _transcripts_outside(state, options)
    yield from _cost(context, state, options)


def _settings_in_force(project: Project) -> Settings:
    """Return the settings in force, read from the files: the usual way would write to the cache."""
    return settings.merge({path: settings.load(path) for path in settings.files(project)})


def _without_rater(state: Reflections) -> Finding:
    number = sum(session.reflected_to.length < session.request_end for session in state.sessions.values())
    message = f"{format_count(number, 'session')} not reflected on" if number else "no session awaits reflection"
    fix = f"`rater` in the section `[reflection]` of {settings.users_file()} chooses one"
    return Finding(OK, f"{message}, as no rater is chosen", fix if number else "")


def _missing_tools(options: Settings) -> Iterator[Finding]:
    """Report what the chosen rater needs and does not have."""
    rater, place = options.rater, settings.users_file()
    another = f"choose another `rater` in {place}"
    command = options.command[0] if rater == OWN and options.command else rater if rater in CLIENTS else ""
    if rater == OWN and not command:
        fix = f"set `command` in the section `[reflection]` of {place}; or {another}"
        yield Finding(BAD, "the rater is command, and no command is set", fix)
    if command and shutil.which(command) is None:
        fix = f"install {CLIENT_NAMES.get(command, 'it')}, or put the folder of `{command}` on PATH; or {another}"
        yield Finding(BAD, f"the rater is {rater}, and `{command}` is not on PATH", fix)
    if rater == "openai":
        for name in ("address", "model"):
            if not getattr(options, name):
                fix = f"set `{name}` in the section `[reflection]` of {place}; or {another}"
                yield Finding(BAD, f"the rater is openai, and no {name} is set", fix)
        if options.key_variable and not os.environ.get(options.key_variable):
            message = f"the rater is openai, and {options.key_variable}, which `key_variable` names, is not set"
            yield Finding(BAD, message, f"set it where the agent starts; or {another}")


def _pending_sessions(context: Context, state: Reflections, options: Settings) -> Iterator[Finding]:
    pending = {
        name: session
        for name, session in state.sessions.items()
        if session.awaits_reflection(options.rater) and _has_transcript(session)
    }
    if not pending:
        yield Finding(OK, "no session awaits reflection")
        return
    failures: dict[str, Failure] = {}
    running: list[Session] = []
    waiting: list[Session] = []
    for name, session in pending.items():
        is_running = _is_running(context, session)
        # An attempt that may still be running is no failure yet.
        failure = session.failure if is_running else last_failure(session)
        failure = None if schedule.is_inside_now(session, schedule.Plan()) else failure
        # A failure of another rater says nothing about the chosen one.
        if failure is not None and failure.rater == options.rater:
            failures[name] = failure
        else:
            (running if is_running else waiting).append(session)
    if waiting:
        yield Finding(NOTE, _describe_pending(context, waiting), _REFLECT)
    if running:
        yield Finding(NOTE, f"{_describe_pending(context, running)}; {_describe_running(context, running)}", _RETRY)
    yield from _failures(context, failures)
    tokens = state.tokens_by_day.get(context.now.at[:10], 0)
    if tokens >= options.tokens_per_day:
        spent = f"{worker.SPENT}, {tokens:,} of {options.tokens_per_day:,}"
        fix = f"run `tallybook reflect --tokens N`, or raise `tokens_per_day` in {settings.users_file()}"
        yield Finding(NOTE, f"{spent}, so pending sessions wait until tomorrow (UTC)", fix)


def _has_transcript(session: Session) -> bool:
    return session.transcript is not None and transcript.locate(Path(session.transcript)).is_file()


def _describe_pending(context: Context, sessions: Collection[Session]) -> str:
    since = context.age(min(session.requested_at for session in sessions))
    oldest = "" if len(sessions) == 1 else "the oldest "
    return f"{format_count(len(sessions), 'session')} awaiting reflection, {oldest}for {since}"


def _describe_running(context: Context, sessions: Iterable[Session]) -> str:
    """Say when running reflections started, and when they are tried again if their process was killed."""
    started_us = [clock.to_unix_us(session.attempt.at) for session in sessions if session.attempt is not None]
    retry_us = min(started_us) + schedule.FIRST_WAIT_S * clock.MICROSECONDS
    retry = f"in {format_duration(retry_us - context.now.unix_us)} at the earliest"
    return f"a process started {context.age(max(started_us))} ago; if it was killed, the retry is {retry}"


def _is_running(context: Context, session: Session) -> bool:
    """Say whether an attempt started so recently that it may still be running."""
    attempt = session.attempt
    wait_us = TIMEOUT_S * clock.MICROSECONDS
    return attempt is not None and context.now.unix_us - clock.to_unix_us(attempt.at) < wait_us


def _transcripts_outside(state: Reflections, options: Settings) -> Iterator[Finding]:
    """Report transcripts outside the agents' folders, which are not read unasked."""
    paths = [
        Path(session.transcript)
        for session in state.sessions.values()
        if session.failure is not None and session.failure.cause == schedule.OUTSIDE
        if not schedule.is_inside_now(session, schedule.Plan())
        if session.transcript and session.awaits_reflection(options.rater)
    ]
    if paths:
        fix = f"run `tallybook reflect --from {quote(str(paths[0].parent))}` to read those of that folder"
        names = format_names(list(map(str, paths)))
        yield Finding(
            NOTE, f"{format_count(len(paths), 'transcript')} outside the agents' folders not read: {names}", fix
        )


def _failures(context: Context, failures: Mapping[str, Failure]) -> Iterator[Finding]:
    for name, failure in failures.items():
        if failure.cause == schedule.OUTSIDE:
            continue  # _transcripts_outside reports it.
        reason = "its reason was redacted" if failure.reason is None else failure.reason
        cause = f"{failure.cause}: {reason}" if reason else failure.cause
        cause = "it was interrupted" if failure.cause == INTERRUPTED else cause
        tries = "once" if failure.tries == 1 else format_count(failure.tries, "time")
        retry_us = schedule.next_try_us(failure)
        if retry_us is None:
            then = "no further automatic attempt"
        elif retry_us > context.now.unix_us:
            then = f"next automatic attempt in {format_duration(retry_us - context.now.unix_us)} at the earliest"
        else:
            then = "next automatic attempt when a session starts or ends"
        message = f"session {name}: reflection failed {tries}, last {context.age(failure.at)} ago: {cause}; {then}"
        yield Finding(NOTE, message, _RETRY)


def _missing_transcripts(context: Context, state: Reflections) -> Iterator[Finding]:
    """Report transcripts of the last 30 days that disappeared before reflection."""
    since = clock.moment(context.now.unix_us - _DAYS * _DAY_US).at
    sessions = state.sessions.values()
    failures = [session.failure for session in sessions if session.failure is not None]
    number = sum(failure.cause == GONE and failure.at >= since for failure in failures)
    number += sum(
        session.reflected_to.length < session.request_end and not _has_transcript(session)
        for session in sessions
        if not session.is_transcript_gone
    )
    if number:
        message = f"{format_count(number, 'transcript')} deleted before reflection"
        keep = '`"cleanupPeriodDays"` of Claude Code and `"sessionRetention"` of Gemini CLI keep them longer'
        fix = f"{keep}; run `tallybook reflect` for the rest"
        yield Finding(NOTE, message, fix)


def _cost(context: Context, state: Reflections, options: Settings) -> Iterator[Finding]:
    """Report the tokens that reflection has used."""
    since = clock.moment(context.now.unix_us - (_DAYS - 1) * _DAY_US).at[:10]
    month = sum(tokens for day, tokens in state.tokens_by_day.items() if day >= since)
    if not any((*state.tokens_by_day.values(), *state.tokens_by_model.values())):
        return
    today = state.tokens_by_day.get(context.now.at[:10], 0)
    budget = "" if options.rater == NO_RATER else f" of {options.tokens_per_day:,}"
    by_cost = sorted(state.tokens_by_model.items(), key=lambda item: -item[1])
    models = ", ".join(f"{model} {tokens:,}" for model, tokens in by_cost if tokens)
    in_all = f"; in all {models}" if models else ""
    yield Finding(OK, f"{today:,}{budget} tokens today, {month:,} in {_DAYS} days{in_all}", is_always_shown=True)
