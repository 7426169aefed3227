"""Injections as events, with what a hook records without an open question."""

from __future__ import annotations

from hashlib import sha256
import json
from typing import TYPE_CHECKING

from tallybook.ledger.events import Numbers, PlaybookInjected

if TYPE_CHECKING:
    from collections.abc import Sequence


def injected(names: Sequence[str], left_out: int = 0) -> PlaybookInjected:
    """Return the injection of these entries, selected from themselves alone."""
    digest = sha256(json.dumps(list(names), ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()[:32]
    return PlaybookInjected(tuple(names), (), Numbers({"room": left_out}), None, digest, "", "", (), 0.0)


def injected_by_task(names: Sequence[str], lowest: float, **left_out: float) -> PlaybookInjected:
    """Return the injection of the entries that fitted a prompt."""
    return PlaybookInjected(tuple(names), (), Numbers(left_out), lowest, "", "", "", (), 0.0)
