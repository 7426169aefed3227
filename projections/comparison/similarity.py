"""Near duplicates: entries whose texts say nearly the same, by their words and whatever the order of these."""

from __future__ import annotations

from collections import defaultdict
import re
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, NamedTuple
import unicodedata

from tallybook.ledger.fast_stdlib import import_lazily
from tallybook.projections.playbook.render import entry_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rapidfuzz import fuzz, process

    from tallybook.ledger.events import Entry
else:
    fuzz, process = import_lazily("rapidfuzz.fuzz", "rapidfuzz.process")

LEAST: Final = 0.85
"""The similarity from which texts are near duplicates, from 0 to 1."""
_WORD: Final = re.compile(r"\w+")
_NUMBER: Final = re.compile(r"\d")
_NOT: Final = re.compile(r"n['\u2019]t\b")
_NEGATIONS: Final = frozenset({"not", "no", "never", "without", "avoid"})


class Likeness(NamedTuple):
    """An entry that says nearly the same as a text.

    Attributes:
        entry: The entry.
        similarity: From 0 to 1, where 1 is the same words.
    """

    entry: Entry
    similarity: float


class Group(NamedTuple):
    """Entries that say nearly the same, each as another one of them.

    Attributes:
        entries: The entries, in the playbook's order.
        similarity: The lowest similarity of two of them that are near duplicates, from 0 to 1.
    """

    entries: tuple[Entry, ...]
    similarity: float

    def merge(self, option: str = "") -> str:
        """Return the command that merges them into the first, with what it needs after the names."""
        return f"tallybook merge {' '.join(quote(entry.name) for entry in self.entries)}{option}"


class _Words(NamedTuple):
    """A text as it is compared.

    Attributes:
        meaning: Its numbers, and whether it says not: texts that differ in these say something else.
        words: Its words in alphabetical order, so that the order of the text does not count.
    """

    meaning: tuple[tuple[str, ...], bool]
    words: str


def _words_of(text: str) -> _Words:
    words = _WORD.findall(_NOT.sub(" not", unicodedata.normalize("NFKC", text).casefold()))
    numbers = tuple(sorted(filter(_NUMBER.search, words)))
    return _Words((numbers, not _NEGATIONS.isdisjoint(words)), " ".join(sorted(words)) or text)


def find_similar(text: str, entries: Iterable[Entry], least: float = LEAST) -> list[Likeness]:
    """Return the entries that say nearly the same as a text, the most similar first."""
    meaning, words = _words_of(text)
    found = []
    for entry in entries:
        other = _words_of(entry.text)
        similarity = fuzz.ratio(words, other.words) / 100 if other.meaning == meaning else 0.0
        if similarity >= least:
            found.append(Likeness(entry, similarity))
    return sorted(found, key=lambda one: -one.similarity)


def find_groups(entries: Iterable[Entry], least: float = LEAST) -> list[Group]:
    """Return the groups of near duplicates, in the playbook's order."""
    places: dict[Any, list[tuple[int, str]]] = defaultdict(list)
    listed = list(entries)
    for index, entry in enumerate(listed):
        meaning, words = _words_of(entry.text)
        places[meaning].append((index, words))
    # Each entry leads to the first one of its group.
    first = list(range(len(listed)))
    lowest = [1.0] * len(listed)
    for texts in places.values():
        later = [one for _, one in texts]
        for place, (index, text) in enumerate(texts):
            rest = later[place + 1 :]
            for _, score, other in process.extract_iter(text, rest, scorer=fuzz.ratio, score_cutoff=least * 100):
                _join(first, lowest, (index, texts[place + 1 + other][0]), score / 100)
    groups: dict[int, list[Entry]] = defaultdict(list)
    for index, entry in enumerate(listed):
        groups[_first_of(first, index)].append(entry)
    return [Group(tuple(some), lowest[index]) for index, some in groups.items() if len(some) > 1]


def _first_of(first: list[int], index: int) -> int:
    while first[index] != index:
        index = first[index]
    return index


def _join(first: list[int], lowest: list[float], pair: tuple[int, int], similarity: float) -> None:
    """Join the groups of two entries."""
    one, other = sorted(_first_of(first, index) for index in pair)
    first[other] = one
    lowest[one] = min(lowest[one], lowest[other], similarity)


def group_json(group: Group, option: str = "") -> dict[str, Any]:
    """Return a group as ``{similarity, entries, merge}``."""
    return {
        "similarity": round(group.similarity, 2),
        "entries": [entry_json(entry) for entry in group.entries],
        "merge": group.merge(option),
    }
