"""Which entries fit a task: a score for each with its parts, and the choice by it. Standard library only, for hooks.

The relevance is Okapi BM25: S. Robertson and H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond",
Foundations and Trends in Information Retrieval 3 (2009), pages 333 to 389, with the inverse document frequency of
Lucene, which is never negative.
"""

from __future__ import annotations

from math import log

from tallybook.ledger.fast_stdlib import NamedTuple
from tallybook.projections.playbook import inject
from tallybook.projections.playbook.confidence import lower_bound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

MAX_TASK_CHARS = 20_000
"""Of a longer task the beginning and the end are read, a half each: people put a log between their words."""
PROMPT_SHARE = 0.5
"""Share of what is left of a session's budget that one prompt may use, so that later prompts find room."""
ROOM = "room"
TOLD = "told"
UNRELATED = "unrelated"
_LEFT_OUT = "({} more key points were left out; this prompt has little to do with them.)"
_K1, _B = 1.2, 0.75
# Punctuation of ASCII, the general one and that of Chinese and Japanese.
_PUNCTUATION = (*range(0x80), *range(0x2000, 0x2070), *range(0x3000, 0x3040))
_BLANKS = {code: " " for code in _PUNCTUATION if not chr(code).isalnum()}
_NO_SPACES = "\u2e80"
"""From this character on, scripts write words without spaces between them."""
# In a small playbook such a word would be rare enough to count.
_COMMON_WORDS = """
a about after all also am an and any are as at be because been before but by can could did do does don for from get go
got had has have he her here him his how i if in into is it its just let like make me more my need new no not now of off
ok on one only or our out over please she should so some than that the their them then there these they this those to
too up us use using via want was we well were what when where which while who why will with would yes you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())


class TaskFit(NamedTuple):
    """How well an entry fits a task.

    Attributes:
        place: Its place in the playbook, from 0.
        words: The task's words that its text has → the points for each.
        proof: Wilson's lower bound of its share of helpful ratings, from 0 to 1.
    """

    place: int
    words: Mapping[str, float]
    proof: float

    @property
    def total(self) -> float:
        """Return the score: the words decide, and among entries that fit equally well the ratings."""
        return sum(self.words.values()) + self.proof


class _Stems(dict[str, tuple[str, ...]]):
    """A word as it is written → what counts of it; each is worked out once, because words repeat."""

    def __missing__(self, word: str) -> tuple[str, ...]:
        """Return what counts of a new word: nothing of a common one, pairs of characters where words have no spaces."""
        if max(word) >= _NO_SPACES:
            stems = tuple(word[at : at + 2] for at in range(max(1, len(word) - 1)))
        else:
            stems = () if len(word) == 1 or word in _COMMON else (_singular(word),)
        self[word] = stems
        return stems


_STEMS = _Stems()


def words_of(text: str) -> list[str]:
    """Return the words of a text that count, in order: lower case, without common words and plurals."""
    return [stem for word in text.lower().translate(_BLANKS).split() for stem in _STEMS[word]]


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > len("dies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and len(word) > len("is") and not word.endswith(("ss", "us", "is")) else word


def rank(entries: Sequence[Mapping[str, Any]], task: str) -> list[TaskFit]:
    """Return the score of each entry for a task, the best first; of equals the newer.

    Args:
        entries: The playbook's entries in their order, ``{name, text, helpful, harmful}``.
        task: What is to be done, in anybody's words.
    """
    if len(task) > MAX_TASK_CHARS:
        task = f"{task[: MAX_TASK_CHARS // 2]} {task[-MAX_TASK_CHARS // 2 :]}"
    wanted = frozenset(words_of(task))
    counts: list[dict[str, int]] = []
    lengths = []
    for entry in entries:
        words = words_of(entry["text"])
        lengths.append(len(words))
        counts.append({word: words.count(word) for word in wanted.intersection(words)})
    having: dict[str, int] = {}
    for words_of_entry in counts:
        for word in words_of_entry:
            having[word] = having.get(word, 0) + 1
    # The inverse document frequency of each word: rare words count for more.
    weights = {word: log(1 + (len(counts) - n + 0.5) / (n + 0.5)) for word, n in having.items()}
    mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
    scores = []
    for index, entry in enumerate(entries):
        norm = _K1 * (1 - _B + _B * lengths[index] / mean)
        # Sorted, because a sum of floats depends on its order, and a set has another one in each process.
        points = {word: weights[word] * n * (_K1 + 1) / (n + norm) for word, n in sorted(counts[index].items())}
        scores.append(TaskFit(index, points, lower_bound(entry["helpful"], entry["harmful"])))
    return sorted(scores, key=lambda score: (-score.total, -score.place))


def select(
    entries: Sequence[Mapping[str, Any]],
    task: str,
    room: int,
    known: Collection[str] = (),
    *,
    is_first: bool = True,
) -> inject.Selection:
    """Select the entries for a task, the best first, as many as fit.

    An entry counts if its text shares a word with the task; at first also if it has helpful ratings, because what is
    always true need not name the task.

    Args:
        entries: The playbook's entries in their order, as ``inject.choose`` takes them.
        task: What is to be done.
        room: How many characters the lines may take, line feeds and headings included.
        known: Names of entries that the session was given before.
        is_first: Whether the session was given nothing before.
    """
    room -= inject.headings_size(entries)
    room -= len(_LEFT_OUT.format(len(entries))) if is_first else 0
    counts = {own: {ROOM: 0, TOLD: 0, UNRELATED: 0} for own in (False, True)}
    chosen, lines = [], []
    lowest: dict[bool, float] = {}
    for score in rank(entries, task):
        entry = entries[score.place]
        own = isinstance(entry, inject.OwnEntry)
        if entry["name"] in known:
            counts[own][TOLD] += 1
        elif not (score.words or (is_first and score.proof)):
            counts[own][UNRELATED] += 1
        elif (text := inject.cut_line(entry, room)) is None:
            counts[own][ROOM] += 1
        else:
            room -= len(text) + 1
            chosen.append(entry)
            lines.append(text)
            # The best come first.
            lowest[own] = round(score.total, 4)
    if is_first and lines and len(lines) < len(entries):
        lines.append(_LEFT_OUT.format(len(entries) - len(lines)))
    left_out = {own: {cause: number for cause, number in group.items() if number} for own, group in counts.items()}
    return inject.Selection(chosen, tuple(lines), entries, left_out, lowest)
