"""A verdict on the ledger as an answer: in its stable shape, and as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallybook.projections.event_rows import by_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.ledger.verification import RedactedText, Verdict


def verdict_json(verdict: Verdict, drift: str | None) -> dict[str, Any]:
    """Return a verdict in its stable shape.

    Args:
        verdict: What verification found.
        drift: How ``playbook.json`` differs from the ledger, None where it does not.
    """
    return {
        "ok": verdict.ok,
        "events": verdict.events,
        "head": {"seq": verdict.head.seq, "chain": verdict.head.chain},
        "problems": [{"seq": one.seq, "line": one.line, "message": one.message} for one in verdict.problems],
        "unknown_kinds": verdict.unknown_kinds,
        "redacted": [
            {"seq": one.seq, "id": one.record.id, "at": one.record.at, "by": by_json(one.record.by)}
            for one in verdict.redacted
        ],
        "drift": drift,
    }


def verdict_lines(verdict: Verdict, drift: str | None) -> Iterator[str]:
    """Yield a verdict as lines for people; arguments as for ``verdict_json``."""
    verifies = "event verifies" if verdict.events == 1 else "events verify"
    yield f"{verdict.events:,} {verifies}, the last as {verdict.head.seq}:{verdict.head.chain}"
    for line in verdict.notes:
        yield f"note: {line}"
    for redaction in verdict.redacted:
        yield f"redacted: {_told(redaction)}"
    for kind, number in verdict.unknown_kinds.items():
        yield f"note: {number:,} of kind {kind}, which this version keeps and ignores"
    for problem in verdict.problems:
        yield f"damaged: {problem}"
    if drift is not None:
        yield f"drift: {drift}"


def _told(redaction: RedactedText) -> str:
    said = redaction.record
    why = getattr(said.event, "reason", None) or "its reason was redacted, too"
    return f"the text of seq {redaction.seq}, at {said.at} by {said.by.rater}, event {said.seq}: {why}"
