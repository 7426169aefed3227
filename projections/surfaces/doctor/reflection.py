"""The doctor's check of reflection: what is owed, what came to nothing and why, and what it has cost."""

from __future__ import annotations

from importlib.util import find_spec
import os
from pathlib import Path
from shlex import quote
import shutil
from typing import TYPE_CHECKING, Final

from tallybook.ledger import clock
from tallybook.projections.reflections import BROKEN_OFF, GONE, NO_RATER, broken_off
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, age, counted, lasting, named
from tallybook.projections.surfaces.install import places
from tallybook.projections.surfaces.reflection import raters, schedule, worker
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.installation import install_command

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tallybook.projections.reflections import Failure, Reflections, Session
    from tallybook.projections.surfaces.doctor.finding import Patient
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.workspace.settings import Settings

KEYS: Final = ("AGENTIC_CONTEXT_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
"""Variables in which the SDK's key may stand."""

_DAY_US: Final = 24 * 3600 * clock.MICROSECONDS
_DAYS: Final = 30
_AT_ONCE: Final = "`tallybook reflect` tries at once"
_JUDGES: Final = "`tallybook reflect` judges what is owed now, else the next session does that starts or ends"


def reflection(patient: Patient) -> Iterator[Finding]:
    """Say what is owed and what failed, whether the rater that is chosen can be asked, and what all that has cost."""
    if not patient.log.exists():
        return
    chosen = _chosen(patient.project)
    known = schedule.look(patient.project)
    if chosen.rater == NO_RATER:
        yield _unjudged(known)
    else:
        yield from _ready(chosen.rater)
        yield from _owed(patient, known, chosen)
        yield from _gone(patient, known)
    yield from _outside(known, chosen)
    yield from _cost(patient, known, chosen)


def _chosen(project: Project) -> Settings:
    """Return the settings in force; to ask in the usual way would write to the cache."""
    return settings.in_force({path: settings.load(path) for path in settings.files(project)})


def _unjudged(known: Reflections) -> Finding:
    number = sum(one.rated.seen < one.asked for one in known.sessions.values())
    what = f"{counted(number, 'session')} not judged" if number else "nothing is owed"
    hint = f"`rater` in the section `[reflection]` of {settings.users_file()} chooses one"
    return Finding(OK, f"{what}, as no rater is chosen", hint if number else "")


def _ready(rater: str) -> Iterator[Finding]:
    """Say what the rater that is chosen lacks."""
    another = f"choose another `rater` in {settings.users_file()}"
    if rater == "claude" and shutil.which("claude") is None:
        hint = f"install Claude Code, or put the folder of `claude` on PATH; or {another}"
        yield Finding(BAD, "the rater is claude, and `claude` is not on PATH", hint)
    if rater == "anthropic" and find_spec("anthropic") is None:
        hint = f"run: {install_command('anthropic')}; or {another}"
        yield Finding(BAD, "the rater is anthropic, and the package anthropic is not installed", hint)
    if rater == "anthropic" and not any(map(os.environ.get, KEYS)):
        what = f"the rater is anthropic, and no key stands in {', '.join(KEYS[:-1])} or {KEYS[-1]}"
        yield Finding(BAD, what, f"set one where the agent is started; or {another}")


def _owed(patient: Patient, known: Reflections, chosen: Settings) -> Iterator[Finding]:
    owed = {name: one for name, one in known.sessions.items() if one.is_owed(chosen.rater) and _stands(one)}
    if not owed:
        yield Finding(OK, "nothing is owed")
        return
    tried = {name: _failure(patient, one) for name, one in owed.items()}
    # What another rater failed at says nothing of this one.
    failed = {name: one for name, one in tried.items() if one is not None and one.rater == chosen.rater}
    fresh = {name: one for name, one in owed.items() if name not in failed}
    begun = {name: one for name, one in fresh.items() if _is_begun(patient, one)}
    waiting = [one for name, one in fresh.items() if name not in begun]
    if waiting:
        yield Finding(NOTE, _pending(patient, waiting), _JUDGES)
    if begun:
        yield Finding(NOTE, f"{_pending(patient, begun.values())}; {_begun(patient, begun.values())}", _AT_ONCE)
    yield from _failures(patient, {name: one for name, one in failed.items() if one.cause != worker.OUTSIDE})
    spent = known.spent.get(patient.now.at[:10], 0)
    if spent >= chosen.tokens_per_day:
        what = f"{worker.SPENT}, {spent:,} of {chosen.tokens_per_day:,}, so what is owed waits for tomorrow (UTC)"
        hint = f"`tallybook reflect --tokens N` goes on today; `tokens_per_day` in {settings.users_file()} for good"
        yield Finding(NOTE, what, hint)


def _stands(session: Session) -> bool:
    return session.transcript is not None and Path(session.transcript).is_file()


def _pending(patient: Patient, sessions: Collection[Session]) -> str:
    since = age(clock.unix_us(min(one.asked_at for one in sessions)), patient.now)
    oldest = "" if len(sessions) == 1 else "the oldest "
    return f"{counted(len(sessions), 'session')} owed a reflection, {oldest}for {since}"


def _begun(patient: Patient, sessions: Iterable[Session]) -> str:
    """Return when reflections began that have not ended, and when they are tried again if their process was killed."""
    begun_us = [clock.unix_us(one.begun.at) for one in sessions if one.begun is not None]
    again_us = min(begun_us) + schedule.FIRST_WAIT_S * clock.MICROSECONDS
    again = f"in {lasting(again_us - patient.now.unix_us)} at the earliest"
    return f"a process began one {age(max(begun_us), patient.now)} ago; if it was killed, it is tried again {again}"


def _is_begun(patient: Patient, session: Session) -> bool:
    """Return whether a try was begun so short a time ago that it may be under way."""
    begun = session.begun
    wait_us = raters.TIMEOUT_S * clock.MICROSECONDS
    return begun is not None and patient.now.unix_us - clock.unix_us(begun.at) < wait_us


def _failure(patient: Patient, session: Session) -> Failure | None:
    """Return what came to nothing last; a try that was just begun may be under way."""
    return session.failure if _is_begun(patient, session) else broken_off(session)


def _outside(known: Reflections, chosen: Settings) -> Iterator[Finding]:
    """Say which transcripts are not read since they lie elsewhere, whoever rates."""
    left = [one for one in known.sessions.values() if one.failure is not None and one.failure.cause == worker.OUTSIDE]
    paths = [Path(one.transcript) for one in left if one.transcript and one.is_owed(chosen.rater)]
    if paths:
        folder = places.users_folder() / "projects"
        hint = f"`tallybook reflect --from {quote(str(paths[0].parent))}` reads those of that folder"
        what = f"{counted(len(paths), 'transcript')} outside {folder} not read: {named(list(map(str, paths)))}"
        yield Finding(NOTE, what, hint)


def _failures(patient: Patient, failed: Mapping[str, Failure]) -> Iterator[Finding]:
    for name, failure in failed.items():
        reason = "its reason was redacted" if failure.reason is None else failure.reason
        cause = f"{failure.cause}: {reason}" if reason else failure.cause
        cause = "it was broken off" if failure.cause == BROKEN_OFF else cause
        tries = "once" if failure.tries == 1 else counted(failure.tries, "time")
        again_us = schedule.next_try_us(failure)
        if again_us is None:
            then = "nobody tries again unasked"
        elif again_us > patient.now.unix_us:
            then = f"tried again unasked in {lasting(again_us - patient.now.unix_us)} at the earliest"
        else:
            then = "tried again when the next session starts or ends"
        ago = age(clock.unix_us(failure.at), patient.now)
        what = f"session {name}: nothing came of it, tried {tries}, last {ago} ago: {cause}; {then}"
        yield Finding(NOTE, what, _AT_ONCE)


def _gone(patient: Patient, known: Reflections) -> Iterator[Finding]:
    """Say how many transcripts went before they were judged; what lies long back is nobody's business any more."""
    since = clock.moment(patient.now.unix_us - _DAYS * _DAY_US).at
    failures = [one.failure for one in known.sessions.values() if one.failure is not None]
    number = sum(one.cause == GONE and one.at >= since for one in failures)
    unseen = (one for one in known.sessions.values() if not one.is_gone)
    number += sum(one.rated.seen < one.asked and not _stands(one) for one in unseen)
    if number:
        what = f"{counted(number, 'transcript')} gone before anybody judged {'it' if number == 1 else 'them'}"
        hint = (
            '`"cleanupPeriodDays"` in the agent\'s settings keeps them longer; `tallybook reflect` takes what is left'
        )
        yield Finding(NOTE, what, hint)


def _cost(patient: Patient, known: Reflections, chosen: Settings) -> Iterator[Finding]:
    """Say what reflection has cost, where it has."""
    since = clock.moment(patient.now.unix_us - (_DAYS - 1) * _DAY_US).at[:10]
    month = sum(tokens for day, tokens in known.spent.items() if day >= since)
    if not any((*known.spent.values(), *known.models.values())):
        return
    today = known.spent.get(patient.now.at[:10], 0)
    budget = "" if chosen.rater == NO_RATER else f" of {chosen.tokens_per_day:,}"
    ranked = sorted(known.models.items(), key=lambda one: -one[1])
    models = ", ".join(f"{model} {tokens:,}" for model, tokens in ranked if tokens)
    in_all = f"; in all {models}" if models else ""
    yield Finding(OK, f"{today:,}{budget} tokens today, {month:,} in {_DAYS} days{in_all}", told=True)
