"""The table of event kinds: the name on disk, class and version of each.

The classes in ``ledger/kinds`` are the schema of the ledger: one frozen class per kind. Its fields, in their order,
are the fields of the line's ``body``. Fields declared with ``free()`` hold text that a person or a model wrote; they
are written to the line's free section and are None once they were redacted.

To add a kind: write its class in ``ledger/kinds``, add it to ``Event`` and EVENT_TYPES, and add one golden line to
tests/golden.jsonl.
"""

from __future__ import annotations

from typing import Any, Final

from tallybook.ledger.kinds.agent import PlaybookInjected, PointCited
from tallybook.ledger.kinds.curation import (
    EventsVoided,
    PointMerged,
    PointNoted,
    PointPinned,
    PointRestored,
    PointRetired,
    PointReworded,
    PointUnpinned,
)
from tallybook.ledger.kinds.fields import FREE, Numbers
from tallybook.ledger.kinds.limits import MAX_INT
from tallybook.ledger.kinds.log import EventRedacted, LedgerOpened, LogRecovered, UnknownEvent
from tallybook.ledger.kinds.playbook import (
    RATINGS,
    Entry,
    ItemSkipped,
    PlaybookAdopted,
    PlaybookEdited,
    PlaybookOrdered,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointRated,
    PointRemoved,
    PointSeeded,
)
from tallybook.ledger.kinds.reflection import (
    ReflectionCompleted,
    ReflectionFailed,
    ReflectionRequested,
    ReflectionStarted,
    TranscriptRead,
)
from tallybook.ledger.kinds.scores import (
    BaselineSet,
    BenchmarkRecorded,
    FeedbackRecorded,
    MetricsRecorded,
    SessionEnded,
    TelemetryKept,
)

__all__ = [
    "EVENT_TYPES",
    "FREE",
    "KIND_OF",
    "MAX_INT",
    "RATINGS",
    "BaselineSet",
    "BenchmarkRecorded",
    "Entry",
    "Event",
    "EventRedacted",
    "EventsVoided",
    "FeedbackRecorded",
    "ItemSkipped",
    "LedgerOpened",
    "LogRecovered",
    "MetricsRecorded",
    "Numbers",
    "PlaybookAdopted",
    "PlaybookEdited",
    "PlaybookInjected",
    "PlaybookOrdered",
    "PlaybookUpdated",
    "PointAdded",
    "PointCited",
    "PointEdited",
    "PointMerged",
    "PointNoted",
    "PointPinned",
    "PointRated",
    "PointRemoved",
    "PointRestored",
    "PointRetired",
    "PointReworded",
    "PointSeeded",
    "PointUnpinned",
    "ReflectionCompleted",
    "ReflectionFailed",
    "ReflectionRequested",
    "ReflectionStarted",
    "SessionEnded",
    "TelemetryKept",
    "TranscriptRead",
    "UnknownEvent",
]

Event = (
    LedgerOpened
    | PlaybookAdopted
    | PointSeeded
    | ItemSkipped
    | PointAdded
    | PointRated
    | PlaybookUpdated
    | PointEdited
    | PointRemoved
    | PlaybookOrdered
    | PlaybookEdited
    | PointNoted
    | PointReworded
    | PointRetired
    | PointRestored
    | PointPinned
    | PointUnpinned
    | PointMerged
    | EventsVoided
    | PlaybookInjected
    | PointCited
    | ReflectionRequested
    | ReflectionStarted
    | TranscriptRead
    | ReflectionCompleted
    | ReflectionFailed
    | MetricsRecorded
    | BenchmarkRecorded
    | FeedbackRecorded
    | BaselineSet
    | SessionEnded
    | TelemetryKept
    | EventRedacted
    | LogRecovered
    | UnknownEvent
)

EVENT_TYPES: Final[dict[str, tuple[type[Any], int]]] = {
    "ledger.opened": (LedgerOpened, 1),
    "playbook.adopted": (PlaybookAdopted, 1),
    "point.seeded": (PointSeeded, 1),
    "item.skipped": (ItemSkipped, 1),
    "point.added": (PointAdded, 1),
    "point.rated": (PointRated, 1),
    "playbook.updated": (PlaybookUpdated, 1),
    "point.edited": (PointEdited, 1),
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
    "playbook.injected": (PlaybookInjected, 1),
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
}
"""Kind on disk → its class, and the version that this Tallybook writes; the codec upcasts older versions."""

KIND_OF: Final[dict[type[Any], str]] = {cls: kind for kind, (cls, _) in EVENT_TYPES.items()}
