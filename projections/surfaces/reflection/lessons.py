"""Lessons: the entries that an agent proposes by a mark. A person accepts each, unless the settings say otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallybook.ledger.decisions.curation import MAX_REASON_CHARS
from tallybook.ledger.decisions.update import equal_form
from tallybook.ledger.events import PointProposed
from tallybook.ledger.storage import redacted_digests
from tallybook.projections.playbook.inject import one_line
from tallybook.projections.proposals import LESSON_VERB
from tallybook.projections.surfaces.workspace.settings import LEARNED
from tallybook.projections.surfaces.writing import proposals, secrets
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request, Update

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.votes import MarkedMessage

ADD, _, OFF = LEARNED
ORIGIN = "a lesson by a mark"


def requests(
    project: Project, playbook: Playbook, messages: Iterable[MarkedMessage], learned: str
) -> Iterator[Request]:
    """Yield what records the lessons that nothing in the playbook or among the proposals says already.

    What left the playbook, was redacted or was rejected once is not proposed again.
    """
    messages = [message for message in messages if message.lessons]
    if not messages or learned == OFF:
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
