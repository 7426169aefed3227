"""Texts that resemble each other: most of their words are the same, in any order.

Nothing here decides that two texts say the same: "before" and "after" differ in one word. A person is asked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from math import ceil
import re
from shlex import quote
from typing import Any, Final, NamedTuple
import unicodedata

from tallybook.ledger.events import Entry
from tallybook.ledger.names import format_names
from tallybook.projections.playbook.render import entry_json

LEAST: Final = 0.75
"""The similarity from which texts resemble each other, from 0 to 1: four words of which one is another have it."""
MAX_WORDS: Final = 8
"""Most words of a text that a difference lists."""
# A product that should be whole may come out a little above, and would be rounded up to the next number.
_ROUNDING: Final = 1e-9
_WORD: Final = re.compile(r"\w+")
# The end of "don't" is a word, as in "do not": it makes a text the opposite of another.
_NOT: Final = re.compile(r"n['\u2019]t\b")


class Pair(NamedTuple):
    """Two entries that resemble each other.

    Attributes:
        entries: The entries, in the playbook's order.
        similarity: The share of their words that both have, from 0 to 1; 1 is the same words.
    """

    entries: tuple[Entry, Entry]
    similarity: float


def merge_command(entries: Iterable[Entry], option: str = "") -> str:
    """Return the command that merges entries into the first, with what it needs after the names."""
    return f"tallybook merge {' '.join(quote(entry.name) for entry in entries)}{option}"


def _words_of(text: str) -> dict[str, None]:
    """Return the words of a text without case, each once, in order; a text without words is its own word."""
    return dict.fromkeys(_WORD.findall(_NOT.sub(" not", unicodedata.normalize("NFKC", text).casefold())) or [text])


def describe_difference(first: Entry, second: Entry) -> str:
    """Return the words that only one of two entries has."""
    words, other_words = _words_of(first.text), _words_of(second.text)
    rows = (
        (first.name, [repr(word) for word in words if word not in other_words]),
        (second.name, [repr(word) for word in other_words if word not in words]),
    )
    parts = [f"only {name} has {format_names(different, MAX_WORDS)}" for name, different in rows if different]
    same = "they have the same words" + ("" if list(words) == list(other_words) else " in another order")
    return "; ".join(parts) or same


def find_similar(text: str, entries: Iterable[Entry], least: float = LEAST) -> list[Entry]:
    """Return the entries that resemble a text, the most similar first."""
    words = _words_of(text).keys()
    shares = [(_share(words, _words_of(entry.text).keys()), entry) for entry in entries]
    return [entry for share, entry in sorted(shares, key=lambda pair: -pair[0]) if share >= least]


def find_pairs(entries: Iterable[Entry], least: float = LEAST) -> Iterator[Pair]:
    """Yield the pairs of entries that resemble each other, in the playbook's order of the second entry."""
    listed = [(entry, frozenset(_words_of(entry.text))) for entry in entries]
    frequency = Counter(word for _, words in listed for word in words)
    places: dict[str, list[int]] = defaultdict(list)
    for index, (entry, words) in enumerate(listed):
        # Not every pair is compared: a text that has so many of these words has one of the rarest of them.
        enough = ceil(least / (2 - least) * len(words) - _ROUNDING)
        # Equal frequencies are ordered by the word, because a set has another order in each process.
        rarest = sorted(words, key=lambda word: (frequency[word], word))[: len(words) - enough + 1]
        for earlier in sorted({place for word in rarest for place in places[word]}):
            other, other_words = listed[earlier]
            if (share := _share(words, other_words)) >= least:
                yield Pair((other, entry), share)
        for word in rarest:
            places[word].append(index)


def _share(words: Any, others: Any) -> float:
    """Return the share of two sets of words that is in both, from 0 to 1."""
    return 2 * len(words & others) / (len(words) + len(others))


def pair_json(pair: Pair, option: str = "") -> dict[str, Any]:
    """Return a pair as ``{similarity, entries, merge}``."""
    return {
        "similarity": round(pair.similarity, 2),
        "entries": [entry_json(entry) for entry in pair.entries],
        "merge": merge_command(pair.entries, option),
    }
