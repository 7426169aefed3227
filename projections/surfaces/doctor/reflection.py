"""The doctor's checks of reflection: pending and failed sessions, what the chosen rater lacks, and marks."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
import shutil
from typing import TYPE_CHECKING, Final

from tallybook.projections.reflections import INTERRUPTED, last_failure
from tallybook.projections.review import AGENT, DISPUTED, why_shown
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, format_names
from tallybook.projections.surfaces.reflection import schedule, transcript, worker
from tallybook.projections.surfaces.reflection.raters import CLIENTS, OWN
from tallybook.projections.surfaces.review.decisions import load_reviews
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.writing import proposals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.surfaces.doctor.finding import Context
    from tallybook.projections.surfaces.workspace.settings import Settings

_REFLECT: Final = "run `tallybook reflect`"


def check_reflection(context: Context) -> Iterator[Finding]:
    """Report what the chosen rater lacks, pending and failed sessions, a spent budget, and transcripts not read."""
    if not context.log.exists():
        return
    options, state = context.settings, schedule.load_reflections(context.project)
    awaiting = {name: one for name, one in state.sessions.items() if one.awaits_reflection(options.rater)}
    for message, fix in _find_missing(options):
        yield Finding(BAD, message, f"{fix}, or choose another `rater`, in the settings {settings.users_file()}")
    # A transcript that is gone is not pending: no command brings it back.
    pending = {
        name: session
        for name, session in awaiting.items()
        if session.transcript is not None and transcript.locate(Path(session.transcript)).is_file()
    }
    tokens = state.tokens_by_day.get(context.now.at[:10], 0)
    if pending and tokens >= options.tokens_per_day:
        message = f"{worker.SPENT}, {tokens:,} of {options.tokens_per_day:,}, so pending sessions wait until tomorrow"
        yield Finding(NOTE, message, "run `tallybook reflect --tokens N`")
    elif pending:
        yield Finding(NOTE, f"{format_count(len(pending), 'session')} awaiting reflection", _REFLECT)
    for name, session in pending.items():
        failure = last_failure(session)
        # A failure of another rater says nothing about the chosen one; transcripts outside have a finding below.
        if failure is None or failure.rater != options.rater or failure.cause == schedule.OUTSIDE:
            continue
        reason = "its reason was redacted" if failure.reason is None else failure.reason
        cause = f"{failure.cause}: {reason}" if reason else failure.cause
        cause = "it was interrupted, or is still running" if failure.cause == INTERRUPTED else cause
        tries = "once" if failure.tries == 1 else format_count(failure.tries, "time")
        yield Finding(NOTE, f"session {name}: reflection failed {tries}: {cause}", f"{_REFLECT} to try now")
    outside = [
        Path(session.transcript)
        for session in awaiting.values()
        if session.transcript and session.failure is not None and session.failure.cause == schedule.OUTSIDE
    ]
    if outside:
        names = format_names(list(map(str, outside)))
        message = f"{format_count(len(outside), 'transcript')} outside the agents' folders not read: {names}"
        fix = f"run `tallybook reflect --from {quote(str(outside[0].parent))}` to read those of that folder"
        yield Finding(NOTE, message, fix)


def _find_missing(options: Settings) -> Iterator[tuple[str, str]]:
    """Yield what the chosen rater needs and does not have, and how it gets it."""
    rater = options.rater
    command = options.command[0] if rater == OWN and options.command else rater if rater in CLIENTS else ""
    if rater == OWN and not command:
        yield "the rater is command, and no command is set", "set `command`"
    if command and shutil.which(command) is None:
        yield f"the rater is {rater}, and `{command}` is not on PATH", f"install `{command}`"
    if rater == "openai":
        for name in ("address", "model"):
            if not getattr(options, name):
                yield f"the rater is openai, and no {name} is set", f"set `{name}`"
        if options.key_variable and not os.environ.get(options.key_variable):
            message = f"the rater is openai, and {options.key_variable}, which `key_variable` names, is not set"
            yield message, f"set {options.key_variable} where the agent starts"


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
