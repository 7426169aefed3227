"""What the marks of an agent's messages come to: requests to record its ratings and its lessons.

A person accepts each lesson, unless the settings say otherwise. Which ratings count is decided when they are recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tallybook.ledger.decisions.curation import MAX_REASON_CHARS
from tallybook.ledger.decisions.update import equal_form
from tallybook.ledger.events import PointNoted, PointProposed
from tallybook.ledger.playbook_constants import RATE
from tallybook.ledger.storage import redacted_digests
from tallybook.projections.playbook.inject import one_line
from tallybook.projections.proposals import LESSON_VERB
from tallybook.projections.surfaces.workspace.settings import LEARNED, MARKS
from tallybook.projections.surfaces.writing import proposals, secrets
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request, Update
from tallybook.projections.surfaces.writing.votes import NEUTRAL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.reflection.marks import Mark
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.workspace.settings import Settings

ADD, _, LESSONS_OFF = LEARNED
MARKS_RATE, _, MARKS_OFF = MARKS
ORIGIN = "a lesson by a mark"


@attrs.frozen
class MarkedMessage:
    """A message of an agent with marks.

    Attributes:
        ratings: Its ratings, of entries that its lineage was given.
        lessons: Its lessons.
        text: The whole message.
        by: Who wrote it.
        key: The idempotency key of what is recorded.
        when: When it was written; None where that is unknown.
    """

    ratings: tuple[Mark, ...]
    lessons: tuple[str, ...]
    text: str
    by: Mapping[str, str]
    key: str
    when: str | None = None


def mark_requests(
    project: Project, playbook: Playbook, own: Collection[str], messages: Sequence[MarkedMessage], options: Settings
) -> Iterator[Request]:
    """Yield what records the marks of messages.

    Args:
        project: The project.
        playbook: The playbook, with the entries of the person's own.
        own: The names of those, on which a mark is a proposal.
        messages: The messages.
        options: The settings.
    """
    if options.marks == MARKS_OFF:
        return
    yield from _lesson_requests(project, playbook, messages, options.learned)
    for message in messages:
        ratings = [mark for mark in message.ratings if playbook.merged.get(mark.name, mark.name) in playbook.entries]
        counted = [mark for mark in ratings if options.marks == MARKS_RATE and mark.name not in own]
        if counted:
            notes = tuple(PointNoted(mark.name, f"{mark.rating}: {mark.reason}") for mark in counted if mark.reason)
            evaluations = [{"name": mark.name, "rating": mark.rating} for mark in counted]
            # One batch a message: with one for each vote, a worker took half as long again.
            update = Update({"evaluations": evaluations}, plain_events=notes, by_marks=True)
            yield Request(update, message.by, message.key, message.when)
        wishes = [mark for mark in ratings if mark not in counted and mark.rating != NEUTRAL]
        if wishes:
            events = (PointProposed(RATE, one.name, (), "marks propose", "", one.rating, one.reason) for one in wishes)
            yield Request(PlainEvents(tuple(events)), message.by, f"{message.key}:proposed", message.when)


def _lesson_requests(
    project: Project, playbook: Playbook, messages: Sequence[MarkedMessage], learned: str
) -> Iterator[Request]:
    """Yield what records the lessons that nothing in the playbook or among the proposals says already.

    What left the playbook, was redacted or was rejected once is not proposed again.
    """
    messages = [message for message in messages if message.lessons]
    if not messages or learned == LESSONS_OFF:
        return
    entries = (*playbook.entries.values(), *playbook.gone.values())
    known = {*map(equal_form, (*(entry.text for entry in entries), *proposals.load(project).lessons))}
    redactions = redacted_digests.load(project.ledger)
    for message in messages:
        texts = []
        for sentence in message.lessons:
            text = secrets.mask(sentence).text
            if equal_form(text) not in known and redactions.refusal(text) is None:
                known.add(equal_form(text))
                texts.append(text)
        if texts:
            action = Update({"new_key_points": texts}, origin=ORIGIN) if learned == ADD else _proposals(texts, message)
            yield Request(action, message.by, f"{message.key}:lessons", message.when)


def _proposals(texts: Sequence[str], message: MarkedMessage) -> PlainEvents:
    # Masked before it is cut, as half of a secret is not recognised.
    whole = " ".join(one_line(secrets.mask(message.text).text).split())
    end = whole if len(whole) <= MAX_REASON_CHARS else f"…{whole[1 - MAX_REASON_CHARS :]}"
    return PlainEvents(tuple(PointProposed(LESSON_VERB, "", (), "lesson", "", text, end) for text in texts))
