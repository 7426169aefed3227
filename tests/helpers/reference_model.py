"""The plain reference model: the specification in dict code, for property tests to compare with, and their input.

Nothing of Tallybook is imported here, and nothing is optimised: a reader who knows the specification can compare this
page with it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
import copy
import re
from typing import Any

from hypothesis import strategies as st


def point(name: str = "kpt_001", text: str = "use types", helpful: int = 0, harmful: int = 0) -> dict[str, Any]:
    """Return a PlaybookEntry."""
    return {"name": name, "text": text, "helpful": helpful, "harmful": harmful}


def book(*key_points: Any, version: str = "1.0", last_updated: str | None = None, **top: Any) -> dict[str, Any]:
    """Return a Playbook of these entries or legacy items, with any further top-level keys."""
    return {"version": version, "last_updated": last_updated, "key_points": list(key_points), **top}


def extraction(*rated: tuple[Any, Any], new: Iterable[Any] = ()) -> dict[str, Any]:
    """Return an ExtractionResult of these (name, rating) pairs and new texts."""
    return {"new_key_points": list(new), "evaluations": [{"name": name, "rating": rating} for name, rating in rated]}


def number_of(name: str) -> int:
    """Return the NNN of ``kpt_NNN``, 0 for a name of another form."""
    match = re.fullmatch(r"kpt_([0-9]+)", name)
    return int(match[1]) if match else 0


def next_name(highest: int, taken: Container[Any] = ()) -> str:
    """Return the first name with a number above ``highest`` that is not taken."""
    number = highest + 1
    while f"kpt_{number:03d}" in taken:
        number += 1
    return f"kpt_{number:03d}"


def counters_of(item: dict[str, Any]) -> tuple[int, int]:
    """Return helpful and harmful of a dict entry: branches 0, 3 and 2 of the design's decision tree."""
    if "helpful" in item and "harmful" in item:
        return item["helpful"], item["harmful"]
    score = item.get("score", 0)
    return max(score, 0), max(-score, 0)


def migrate(doc: dict[str, Any]) -> dict[str, Any]:
    """Return the playbook of a well-formed legacy document (REQ-SCORE-004, -005, -006).

    Args:
        doc: A playbook whose items are strings or dicts with ``text``. A name is one more than the highest among
            those seen before it; since names are unique, it passes over those that the document gives itself, and
            of two entries with one name the first keeps it.

    Returns:
        The document with its top-level keys as they were and every entry canonical.
    """
    items = [{"text": item} if isinstance(item, str) else item for item in doc.get("key_points", [])]
    own = {item.get("name") for item in items}
    entries: list[dict[str, Any]] = []
    for item in items:
        seen = [kp["name"] for kp in entries]
        name = item.get("name")
        if name is None or name in seen:
            name = next_name(max(map(number_of, seen), default=0), own)
        entries.append(point(name, item["text"], *counters_of(item)))
    return {**doc, "key_points": entries}


class ReferenceModel:
    """The playbook under updates, and the highest number that a name of it ever had; ``copy`` stores a moment of it."""

    def __init__(self, playbook: dict[str, Any]) -> None:
        """Start from a canonical playbook."""
        self.playbook = copy.deepcopy(playbook)
        self.high_water = max((number_of(kp["name"]) for kp in self.playbook["key_points"]), default=0)

    def copy(self) -> ReferenceModel:
        """Return an independent copy of the model."""
        return copy.deepcopy(self)

    def update(self, extraction: dict[str, Any]) -> None:
        """Apply an extraction result: new entries, then counters, then the prune (contract, "When Pruning Occurs").

        Args:
            extraction: ``new_key_points``, whose items other than texts are ignored, and ``evaluations``, dicts of
                ``name`` and ``rating``; either may be missing.
        """
        self._add(extraction.get("new_key_points", []))
        self._rate(extraction.get("evaluations", []))
        self.playbook["key_points"] = [
            kp for kp in self.playbook["key_points"] if not (kp["harmful"] >= 3 and kp["harmful"] > kp["helpful"])
        ]

    def _add(self, texts: list[Any]) -> None:
        for text in texts:
            standing = [kp["text"] for kp in self.playbook["key_points"]]
            if isinstance(text, str) and text.strip() and text not in standing:
                self.playbook["key_points"].append(point(next_name(self.high_water), text))
                self.high_water += 1

    def _rate(self, evaluations: list[Any]) -> None:
        by_name = {kp["name"]: kp for kp in self.playbook["key_points"]}
        for evaluation in evaluations:
            if evaluation["name"] in by_name and evaluation["rating"] in ("helpful", "harmful"):
                by_name[evaluation["name"]][evaluation["rating"]] += 1


# What to feed it: few names and texts, so that they meet; ratings that lead to a prune more often than not.

NAMES = st.sampled_from([*(f"kpt_{number:03d}" for number in (1, 2, 3, 4, 5, 10, 11)), "pat-001"])
TEXTS = st.sampled_from(["a", "b", "c", "d", "e", "ünï ✨"]) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12
).filter(str.strip)
COUNTS = st.integers(0, 6)
LEGACY_ITEMS = (
    TEXTS
    | st.fixed_dictionaries({"text": TEXTS}, optional={"name": NAMES, "tags": st.just(["x"])})
    | st.fixed_dictionaries({"text": TEXTS, "score": st.integers(-6, 6)}, optional={"name": NAMES, "helpful": COUNTS})
    | st.fixed_dictionaries(
        {"text": TEXTS, "helpful": COUNTS, "harmful": COUNTS}, optional={"name": NAMES, "score": COUNTS}
    )
)
LEGACY_FILES = st.lists(LEGACY_ITEMS, max_size=6).map(lambda items: book(*items))
RATINGS = st.sampled_from(["helpful", "harmful", "harmful", "neutral", "bogus"])
EXTRACTIONS = st.fixed_dictionaries(
    {},
    optional={
        "new_key_points": st.lists(TEXTS | st.sampled_from([None, 7, "", " "]), max_size=4),
        "evaluations": st.lists(
            st.fixed_dictionaries({"name": NAMES | st.just("unknown"), "rating": RATINGS}), max_size=8
        ),
    },
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=8,
)
