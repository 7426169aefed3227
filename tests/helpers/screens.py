"""Screens for tests: the output of a view in a pipe of some width and encoding, and stories to print."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from typing import Any

import pytest
from rich.console import Console

from tallybook.projections.surfaces.console import terminal

AT = "2026-11-21T20:17:03.123456Z"
BY = {"rater": "reflector", "session": "s1"}
WIDTHS = pytest.mark.parametrize("width", [40, 80])


def render_screen(screen: Callable[[Console], object], width: int = 80, encoding: str = "utf-8") -> str:
    """Return the output of a screen in a pipe of this width and encoding."""
    stream = TextIOWrapper(BytesIO(), encoding=encoding, newline="\n")
    screen(terminal.console_for(stream, width))
    stream.seek(0)
    return stream.read()


def words(text: str) -> str:
    """Return a text with every run of white space as one space."""
    return " ".join(text.split())


def make_rating_row(seq: int, helpful: int, harmful: int, rating: str = "harmful") -> dict[str, Any]:
    """Return a row of a trail: a rating that counted, with the counters after it."""
    row = {"seq": seq, "at": AT, "kind": "point.rated", "by": BY, "rating": rating}
    return row | {"helpful": helpful, "harmful": harmful}


def make_ignored_row(seq: int, reason: str, rating: str = "helpful") -> dict[str, Any]:
    """Return a row of an event without effect."""
    return {"seq": seq, "at": AT, "kind": "point.rated", "by": BY, "rating": rating, "reason": reason}


LEARNED = {"seq": 2, "at": AT, "kind": "point.added", "by": BY, "rating": None, "helpful": 0, "harmful": 0}
PRUNED: dict[str, Any] = {
    "name": "kpt_003",
    "text": "Mock everything",
    "status": "pruned",
    "helpful": 1,
    "harmful": 3,
    "rule": "harmful >= 3 AND harmful > helpful",
    "decided_by": {"seq": 12, "id": "019a", "at": AT, "by": BY},
    "trail": [
        LEARNED,
        make_rating_row(4, 1, 0, "helpful"),
        make_rating_row(6, 1, 1),
        make_rating_row(8, 1, 2),
        make_rating_row(11, 1, 3),
        {**LEARNED, "seq": 12, "kind": "playbook.updated", "helpful": 1, "harmful": 3},
    ],
    "ignored": [
        make_ignored_row(5, "has no effect", "neutral"),
        make_ignored_row(14, "already pruned"),
        make_ignored_row(16, "already pruned"),
    ],
    **dict.fromkeys(("origin", "original")),
    **{field: [] for field in ("notes", "deciding", "lineage")},
    **{field: {"count": 0, "last": None} for field in ("told", "cited")},
    "stood": True,
}
KEPT = PRUNED | {"status": "kept", "rule": None, "decided_by": None, "trail": PRUNED["trail"][:5], "ignored": []}
BRIEF = {"seq": 812, "at": AT, "by": BY, "summary": 'learned kpt_004 "Write tests…"'}
RELATIVE = {"name": "kpt_009", "status": "kept", "text": "mock everything!", "relation": "same words", "of": "kpt_003"}
NOTE = {"seq": 10, "at": AT, "by": BY, "note": "harmful: the suite hung"}
