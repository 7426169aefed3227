"""Entries found by their words, and guidance followed from name to name: merged, renamed, or learned again. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
import unicodedata

from tallybook.projections.playbook.entry_state import REDACTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.entry_history.status import Standing

SAME_TEXT: Final = "same text"
SAME_WORDS: Final = "same words"
WENT_INTO: Final = "went into"
TOOK_IN: Final = "took in"

_WORD: Final = re.compile(r"\w+")


def folded(text: str) -> str:
    """Return a text without what makes no other guidance of it: case, white space, punctuation, ways to write a letter.

    A text without any word stays as it is.
    """
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold())) or text


def found(state: Standing, words: str) -> list[str]:
    """Return the names that had a text with these words, in the order they came.

    Args:
        state: Every name that ever was.
        words: Parts of words, in any order; none finds nothing. Where exactly one entry had just these words and no
            others, it alone is meant.
    """
    wanted = folded(words)
    texts = {name: {folded(text) for text in _texts(state, name)} for name in state.names}
    just = [name for name, had in texts.items() if wanted in had]
    if len(just) == 1 or not wanted.strip():
        return just
    parts = wanted.split()
    return [name for name, had in texts.items() if any(all(part in text for part in parts) for text in had)]


def _texts(state: Standing, name: str) -> list[str]:
    """Return every text that a name had, one that was undone included; what was redacted is none."""
    undone = [state.undone[name][0]] if name in state.undone else []
    return [*state.texts.get(name, ()), *(text for text in undone if text != REDACTED)]


def named(state: Standing, names: list[str]) -> list[dict[str, Any]]:
    """Return entries as a list to choose from: ``{name, status, text}`` each."""
    return [{"name": name, "status": state.status(name), "text": state.text(name)} for name in names]


def lineage(state: Standing, name: str) -> list[dict[str, Any]]:
    """Return the other names that the guidance of one has had, the nearest first.

    Two names are kin where one went into the other, or where both had a text with the same words; so are their kin.

    Returns:
        ``{name, status, text, relation, of}`` each: ``relation`` is what it is to ``of``, another of them or the one
        asked for: SAME_TEXT, SAME_WORDS (which may differ in case, white space and punctuation), WENT_INTO or TOOK_IN.
    """
    if name not in state.changed and name not in state.undone:
        return []
    kin = {name: ("", "")}
    queue = [name]
    for at in queue:
        for other, relation in _kin(state, at):
            if other not in kin:
                kin[other] = (relation, at)
                queue.append(other)
    del kin[name]
    rows = named(state, list(kin))
    return [row | {"relation": kin[row["name"]][0], "of": kin[row["name"]][1]} for row in rows]


def _kin(state: Standing, name: str) -> Iterator[tuple[str, str]]:
    """Yield the names next to one, each with what it is to it."""
    texts = set(_texts(state, name))
    words = set(map(folded, texts))
    into = state.book.merged
    for other in state.names:
        if other == name:
            continue
        if into.get(other) == name:
            yield other, WENT_INTO
        elif into.get(name) == other:
            yield other, TOOK_IN
        elif theirs := _texts(state, other):
            if not texts.isdisjoint(theirs):
                yield other, SAME_TEXT
            elif not words.isdisjoint(map(folded, theirs)):
                yield other, SAME_WORDS
