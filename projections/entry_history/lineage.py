"""Finding entries by their words, and following advice through merges and new names. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
import unicodedata

from tallybook.projections.playbook.entry_state import REDACTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.entry_history.status import EntryStatuses

SAME_TEXT: Final = "same text"
SAME_WORDS: Final = "same words"
WENT_INTO: Final = "went into"
TOOK_IN: Final = "took in"

_WORD: Final = re.compile(r"\w+")


def normalize_words(text: str) -> str:
    """Return a text's words without case, white space, punctuation and Unicode variants, to compare texts by.

    A text without any word stays as it is.
    """
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold())) or text


def find_by_words(state: EntryStatuses, words: str) -> list[str]:
    """Return the names that had a text with these words, in the order of first use.

    Args:
        state: The status of every name.
        words: Parts of words, in any order; no words match nothing. Where exactly one entry had these words and no
            others, it is the only match.
    """
    normalized = normalize_words(words)
    texts = {name: {normalize_words(text) for text in _texts(state, name)} for name in state.names}
    exact = [name for name, normalized_texts in texts.items() if normalized in normalized_texts]
    if len(exact) == 1 or not normalized.strip():
        return exact
    parts = normalized.split()
    return [
        name
        for name, normalized_texts in texts.items()
        if any(all(part in text for part in parts) for text in normalized_texts)
    ]


def _texts(state: EntryStatuses, name: str) -> list[str]:
    """Return every text that a name had, undone ones included, redacted ones not."""
    undone = [state.undone[name][0]] if name in state.undone else []
    return [*state.texts.get(name, ()), *(text for text in undone if text != REDACTED)]


def entry_rows(state: EntryStatuses, names: list[str]) -> list[dict[str, Any]]:
    """Return entries as a list to choose from: ``{name, status, text}`` each."""
    return [{"name": name, "status": state.status(name), "text": state.text(name)} for name in names]


def lineage(state: EntryStatuses, name: str) -> list[dict[str, Any]]:
    """Return the other names that the advice of an entry has had, the nearest first.

    Names are related where one was merged into the other or both had a text with the same words; relations chain.

    Returns:
        ``{name, status, text, relation, of}`` each: ``relation`` is its relation to the name ``of``: SAME_TEXT,
        SAME_WORDS (differing in case, white space or punctuation), WENT_INTO or TOOK_IN.
    """
    if name not in state.last_changes and name not in state.undone:
        return []
    kin = {name: ("", "")}
    queue = [name]
    for current in queue:
        for other, relation in _kin(state, current):
            if other not in kin:
                kin[other] = (relation, current)
                queue.append(other)
    del kin[name]
    rows = entry_rows(state, list(kin))
    return [row | {"relation": kin[row["name"]][0], "of": kin[row["name"]][1]} for row in rows]


def _kin(state: EntryStatuses, name: str) -> Iterator[tuple[str, str]]:
    """Yield the names directly related to one, each with the relation."""
    texts = set(_texts(state, name))
    words = set(map(normalize_words, texts))
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
            elif not words.isdisjoint(map(normalize_words, theirs)):
                yield other, SAME_WORDS
