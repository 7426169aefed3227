"""What reflection would ask: of the sessions that are owed one, or of old transcripts that nobody asked for yet."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import ReflectionRequested
from tallybook.ledger.storage.disk import reason
from tallybook.projections.reflections import NO_RATER, Session
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.reflection import chunks, killed_sessions, raters, schedule, transcript, worker
from tallybook.projections.surfaces.writing import record
from tallybook.projections.surfaces.writing.requests import Facts, Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.reflections import Reflections
    from tallybook.projections.surfaces.reflection.schedule import Plan
    from tallybook.projections.surfaces.workspace.project import Project

TRIGGER: Final = "tallybook reflect --from"
_HEAD_LINES: Final = 100


@attrs.frozen
class Ask:
    """What would be sent at once.

    Attributes:
        session: Whose it is.
        tokens: About what it and its answer cost.
        prompt: What would be sent; empty where a piece costs nothing.
    """

    session: str
    tokens: int
    prompt: str


def transcripts(folder: Path, known: Reflections, rater: str) -> dict[str, Session]:
    """Return the sessions of a folder's transcripts that are not read to their end, the oldest first.

    Raises:
        BadInputError: The folder cannot be read, or has no transcript.
    """
    try:
        paths = [path for path in folder.iterdir() if path.suffix == ".jsonl" and path.is_file()]
        found = {path.stem: (path.absolute(), path.stat().st_size) for path in sorted(paths, key=_begun)}
    except OSError as error:
        raise BadInputError(f"--from {folder}", f"cannot be read: {reason(error)}") from error
    if not found:
        raise BadInputError(f"--from {folder}", "has no transcript", "give a folder with files SESSION.jsonl")
    sessions = {
        name: attrs.evolve(known.sessions.get(name, Session(None)), transcript=str(path), request_end=size)
        for name, (path, size) in found.items()
    }
    return {name: session for name, session in sessions.items() if schedule.has_more(session, rater)}


def _begun(path: Path) -> tuple[str, str]:
    """Return when a session began, by its first line that says so, and its name."""
    with suppress(OSError):
        return next((line.at for line in islice(transcript.lines(path), _HEAD_LINES) if line.at), ""), path.name
    return "", path.name


def request(project: Project, found: Mapping[str, Session]) -> None:
    """Record that these sessions are to be reflected on."""
    record.write(
        project,
        [
            Request(
                Facts((ReflectionRequested(session.request_end, TRIGGER, session.transcript),)),
                {"rater": "human", "session": name},
                f"reflect:{name}:{session.request_end}",
            )
            for name, session in found.items()
        ],
    )


def owed(project: Project, plan: Plan) -> list[Ask]:
    """Return what would be asked of the sessions that are owed a reflection."""
    known = killed_sessions.with_killed(schedule.look(project))
    found = {name: one for name, one in known.sessions.items() if name and schedule.has_more(one, plan.rater)}
    return asks(found, known, commands.now(project), plan)


def asks(found: Mapping[str, Session], known: Reflections, playbook: Playbook, plan: Plan) -> list[Ask]:
    """Return what would be asked, piece by piece; transcripts that are gone ask nothing.

    What earlier pieces bring changes the playbook that later ones are shown, so it is about what is sent.
    """
    return [ask for name, session in found.items() for ask in _asks(name, session, known, playbook, plan)]


def _asks(name: str, session: Session, known: Reflections, playbook: Playbook, plan: Plan) -> Iterable[Ask]:
    if not session.transcript or not Path(session.transcript).is_file():
        return
    # One that cannot be read is told when it is its turn.
    with suppress(OSError):
        for piece in chunks.all_pieces(worker.asked(known, name, plan, session, playbook)):
            if piece.text:
                prompt = worker.prompt_for(piece.text, playbook)
                yield Ask(name, raters.tokens(plan.rater, prompt), prompt)


def estimate(asks: list[Ask], plan: Plan, spent: int = 0) -> str:
    """Return what a reflection would cost, in one line."""
    if plan.rater == NO_RATER:
        return "no rater is chosen: nothing would be sent, and nothing costs"
    tokens = sum(ask.tokens for ask in asks)
    sessions = len({ask.session for ask in asks})
    who = f"{plan.rater}, {plan.model}" if plan.model else plan.rater
    told = f"{format_count(sessions, 'session')} in {format_count(len(asks), 'piece')}, about {tokens:,} tokens ({who})"
    left = max(plan.tokens - spent, 0)
    return told if tokens <= left else f"{told}; today's budget leaves {left:,}, and the rest stays owed"
