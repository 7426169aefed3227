"""The table of event kinds: the name on disk, class and version of each.

The classes in ``ledger/kinds`` are the schema of the ledger: one frozen class per kind. Its fields, in their order,
are the fields of the line's ``body``. Fields declared with ``FREE_TEXT`` hold text that a person or a model wrote; they
are written to the line's free section and are None once they were redacted.

To add a kind, follow "An event kind" in CONTRIBUTING.md: besides this table it needs a golden line and a summary.
"""

from __future__ import annotations

from typing import Any, Final

# All names of these modules belong to the vocabulary, so they are not listed once more here.
from tallybook.ledger.kinds.fields import *
from tallybook.ledger.kinds.limits import *
from tallybook.ledger.kinds.playbook import *
from tallybook.ledger.kinds.sessions import *
from tallybook.ledger.kinds.sharing import *

EVENT_TYPES: Final[dict[str, tuple[type[Any], int]]] = {
    "ledger.opened": (LedgerOpened, 1),
    "playbook.adopted": (PlaybookAdopted, 1),
    "point.seeded": (PointSeeded, 1),
    "item.skipped": (ItemSkipped, 1),
    "point.added": (PointAdded, 1),
    "point.rated": (PointRated, 1),
    "playbook.updated": (PlaybookUpdated, 1),
    "point.edited": (PointEdited, 2),
    "point.removed": (PointRemoved, 1),
    "playbook.ordered": (PlaybookOrdered, 1),
    "playbook.edited": (PlaybookEdited, 1),
    "point.noted": (PointNoted, 1),
    "point.reworded": (PointReworded, 1),
    "point.retired": (PointRetired, 1),
    "point.restored": (PointRestored, 1),
    "point.pinned": (PointPinned, 1),
    "point.unpinned": (PointUnpinned, 1),
    "point.merged": (PointMerged, 1),
    "events.voided": (EventsVoided, 1),
    "playbook.injected": (PlaybookInjected, 3),
    "point.cited": (PointCited, 1),
    "reflection.requested": (ReflectionRequested, 1),
    "reflection.started": (ReflectionStarted, 1),
    "transcript.read": (TranscriptRead, 1),
    "reflection.completed": (ReflectionCompleted, 1),
    "reflection.failed": (ReflectionFailed, 1),
    "metrics.recorded": (MetricsRecorded, 1),
    "benchmark.recorded": (BenchmarkRecorded, 1),
    "feedback.recorded": (FeedbackRecorded, 1),
    "baseline.set": (BaselineSet, 1),
    "session.ended": (SessionEnded, 1),
    "telemetry.kept": (TelemetryKept, 1),
    "event.redacted": (EventRedacted, 1),
    "log.recovered": (LogRecovered, 1),
    "point.proposed": (PointProposed, 2),
    "playbook.decided": (ProposalDecided, 1),
    "point.reviewed": (PointReviewed, 1),
    "book.opened": (BookOpened, 1),
    "book.rules": (BookRules, 1),
    "book.block": (BookBlock, 1),
    "point.matched": (PointMatched, 1),
    "event.repeated": (EventRepeated, 1),
    "redaction.linked": (RedactionLinked, 1),
    "book.taken": (BookTaken, 1),
    "names.meant": (NamesMeant, 1),
    "lift.asked": (LiftAsked, 1),
    "lift.stopped": (LiftStopped, 1),
    "point.placed": (PointPlaced, 1),
    "session.measured": (SessionMeasured, 1),
    "point.limited": (PointLimited, 1),
}
"""Kind on disk → its class, and the version that this Tallybook writes; the codec upcasts older versions."""

MAKERS: Final = (PointAdded, PointSeeded, PointEdited, PointMatched)
"""Classes of the events that make an entry; a manual edit only where its writer had no entry of that name."""
TEXT_GIVERS: Final = (*MAKERS, PointReworded)
"""Classes of the events that give an entry its text."""
KIND_OF: Final[dict[type[Any], str]] = {cls: kind for kind, (cls, _) in EVENT_TYPES.items()}
