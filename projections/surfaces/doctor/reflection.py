"""The doctor's check of reflection: pending and failed sessions, what the chosen rater lacks, and the cost."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
import shutil
from typing import TYPE_CHECKING, Final

from tallybook.projections.reflections import INTERRUPTED, NO_RATER, last_failure
from tallybook.projections.review import AGENT, DISPUTED, why_shown
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, format_names
from tallybook.projections.surfaces.reflection import schedule, transcript, worker
from tallybook.projections.surfaces.reflection.raters import CLIENTS, OWN
from tallybook.projections.surfaces.review.stale import load_reviews
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.writing import proposals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallybook.projections.reflections import Reflections, Session
    from tallybook.projections.surfaces.doctor.finding import Context
    from tallybook.projections.surfaces.workspace.settings import Settings

_REFLECT: Final = "run `tallybook reflect`"


def check_reflection(context: Context) -> Iterator[Finding]:
    """Report pending and failed reflections, what the chosen rater lacks, and how its cost is limited."""
    if not context.log.exists():
        return
    options, state = context.settings, schedule.load_reflections(context.project)
    if options.rater == NO_RATER:
        number = sum(session.reflected_to.length < session.request_end for session in state.sessions.values())
        message = f"{format_count(number, 'session')} not reflected on, as no rater is chosen"
        fix = f"`rater` in the section `[reflection]` of {settings.users_file()} chooses one"
        yield Finding(OK, message, fix if number else "")
        pending: dict[str, Session] = {}
    else:
        yield from _missing_tools(options)
        pending = {
            name: session
            for name, session in state.sessions.items()
            if session.awaits_reflection(options.rater) and _has_transcript(session)
        }
        yield from _pending_sessions(pending, options)
    unmeasured = [
        name
        for name, session in state.sessions.items()
        if session.searched_to.end.get("") and name not in state.measured
    ]
    if unmeasured:
        message = f"{format_count(len(unmeasured), 'session')} read and not measured: {format_names(unmeasured)}"
        yield Finding(OK, message, "a transcript without a prompt or call that is understood has no numbers")
    yield from _transcripts_outside(state, options)
    yield from _cost(context, state, options, is_waiting=bool(pending))


def check_marks(context: Context) -> Iterator[Finding]:
    """Report how many sessions had marks, and what they came to."""
    if not context.log.exists() or context.settings.marks == settings.MARKS[-1]:
        return
    reviews, found = load_reviews(context.project), proposals.load(context.project)
    left = sum(reviews.blame.get(name, ("",))[0] == AGENT for name in commands.playbook(context.project).state.pruned)
    numbers = (
        format_count(reviews.votes, "vote"),
        f"{format_count(found.accepted, 'lesson')} accepted",
        f"{format_count(left, 'entry', 'entries')} left",
        f"{sum(why_shown(proposal) == DISPUTED for proposal in found.open.values())} in dispute",
    )
    if reviews.told:
        sessions = format_count(len(reviews.told), "session")
        message = f"marks in {len(reviews.marked & reviews.told)} of {sessions} that were given entries"
        fix = f"`marks` in the section `[reflection]` of {settings.users_file()} says what becomes of them"
        yield Finding(OK, f"{message}; {', '.join(numbers)}", fix)


def _missing_tools(options: Settings) -> Iterator[Finding]:
    """Report what the chosen rater needs and does not have."""
    rater, place = options.rater, settings.users_file()
    another = f"choose another `rater` in {place}"
    command = options.command[0] if rater == OWN and options.command else rater if rater in CLIENTS else ""
    if rater == OWN and not command:
        fix = f"set `command` in the section `[reflection]` of {place}; or {another}"
        yield Finding(BAD, "the rater is command, and no command is set", fix)
    if command and shutil.which(command) is None:
        fix = f"install it, or put the folder of `{command}` on PATH; or {another}"
        yield Finding(BAD, f"the rater is {rater}, and `{command}` is not on PATH", fix)
    if rater == "openai":
        for name in ("address", "model"):
            if not getattr(options, name):
                fix = f"set `{name}` in the section `[reflection]` of {place}; or {another}"
                yield Finding(BAD, f"the rater is openai, and no {name} is set", fix)
        if options.key_variable and not os.environ.get(options.key_variable):
            message = f"the rater is openai, and {options.key_variable}, which `key_variable` names, is not set"
            yield Finding(BAD, message, f"set it where the agent starts; or {another}")


def _has_transcript(session: Session) -> bool:
    return session.transcript is not None and transcript.locate(Path(session.transcript)).is_file()


def _pending_sessions(pending: Mapping[str, Session], options: Settings) -> Iterator[Finding]:
    """Report the sessions that await reflection, and each whose last attempt failed or may have been killed."""
    if pending:
        yield Finding(NOTE, f"{format_count(len(pending), 'session')} awaiting reflection", _REFLECT)
    for name, session in pending.items():
        failure = last_failure(session)
        # A failure of another rater says nothing about the chosen one; `_transcripts_outside` reports its own.
        if failure is None or failure.rater != options.rater or failure.cause == schedule.OUTSIDE:
            continue
        reason = "its reason was redacted" if failure.reason is None else failure.reason
        cause = f"{failure.cause}: {reason}" if reason else failure.cause
        cause = "it was interrupted, or is still running" if failure.cause == INTERRUPTED else cause
        tries = "once" if failure.tries == 1 else format_count(failure.tries, "time")
        yield Finding(NOTE, f"session {name}: reflection failed {tries}: {cause}", f"{_REFLECT} to try now")


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
        names = format_names(list(map(str, paths)))
        message = f"{format_count(len(paths), 'transcript')} outside the agents' folders not read: {names}"
        fix = f"run `tallybook reflect --from {quote(str(paths[0].parent))}` to read those of that folder"
        yield Finding(NOTE, message, fix)


def _cost(context: Context, state: Reflections, options: Settings, *, is_waiting: bool) -> Iterator[Finding]:
    """Report the tokens of the day, and whether they are all spent."""
    tokens = state.tokens_by_day.get(context.now.at[:10], 0)
    limit = f"`tokens_per_day` in {settings.users_file()}"
    if is_waiting and tokens >= options.tokens_per_day:
        spent = f"{worker.SPENT}, {tokens:,} of {options.tokens_per_day:,}"
        message = f"{spent}, so pending sessions wait until tomorrow (UTC)"
        yield Finding(NOTE, message, f"run `tallybook reflect --tokens N`, or raise {limit}")
    elif tokens:
        yield Finding(OK, f"{tokens:,} tokens used today", f"{limit} limits them")
