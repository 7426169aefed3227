"""What is injected into a session: the choice of entries, one line each, by proof or by task. Standard library only.

How sure the counts of an entry are is the lower end of Wilson's score interval: E. B. Wilson, "Probable inference, the
law of succession, and statistical inference", Journal of the American Statistical Association 22 (1927), pages 209 to
212.

The relevance for a task is Okapi BM25: S. Robertson and H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and
Beyond", Foundations and Trends in Information Retrieval 3 (2009), pages 333 to 389, with the inverse document frequency
of Lucene, which is never negative.
"""

from __future__ import annotations

from tallybook.ledger.fast_stdlib import NamedTuple
from tallybook.ledger.names import UNPRINTABLE
from tallybook.ledger.playbook_constants import UNTIL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping, Sequence
    from typing import Any

PLACEHOLDER = "{key_points}"
MAX_ENTRY_CHARS = 1_000
UNTESTED_SHARE = 0.2
"""Share of the room reserved for unrated entries, so that they can be tried."""

OWN_HEADING = "\nFrom the user's own playbook, for all projects:"
"""The line before a person's own entries; an entry cannot forge it, for its line begins with its name."""

# Terminals act on some of these characters, and a model may read others as the end of a line.
_BLANK = dict.fromkeys(map(ord, UNPRINTABLE), " ")
_LEFT_OUT = "({} more key points were left out for want of room.)"


# Shown intervals and the choice of entries to inject take the exact quantile of the normal distribution for 95 %, both
# tails. The policy `wilson` prunes by a rounded one.
_Z = 1.959963984540054


def lower_bound(helpful: int, harmful: int) -> float:
    """Return the lower end of the 95 % interval of an entry's share of helpful ratings.

    Args:
        helpful: Count of helpful ratings, 0 or more.
        harmful: Count of harmful ratings, 0 or more.

    Returns:
        Wilson's lower bound for helpful / (helpful + harmful), from 0 to 1; 0 without a helpful rating.
    """
    number = helpful + harmful
    if not helpful:
        # The formula would give 0, or the rounding error of a float.
        return 0.0
    share, square = helpful / number, _Z * _Z
    # A power instead of math.sqrt: this runs in hooks, which would import a module for that alone.
    spread: float = _Z * ((share * (1 - share) + square / (4 * number)) / number) ** 0.5
    return (share + square / (2 * number) - spread) / (1 + square / number)


def interval(helpful: int, harmful: int) -> tuple[float, float]:
    """Return both ends of that interval: (0, 1) where the entry is unrated."""
    # The upper end for helpful is one minus the lower end for harmful.
    return lower_bound(helpful, harmful), 1 - lower_bound(harmful, helpful)


class OwnEntry(dict[str, object]):
    """An entry of the person's own playbook, which no draw withholds and the project does not record."""


class Draw(NamedTuple):
    """A draw; without an open question all of it is empty.

    Attributes:
        held: The selected entries that are withheld, in order.
        question: Id of the event that asked.
        lineage: The session with which the conversation began.
        units: What was drawn for.
        probability: With which each unit is held.
    """

    held: tuple[str, ...] = ()
    question: str = ""
    lineage: str = ""
    units: tuple[str, ...] = ()
    probability: float = 0.0


class Selection(NamedTuple):
    """What is selected for a session, before a draw withholds some of it.

    Attributes:
        chosen: The entries that were selected, in the order in which they are injected.
        lines: Their lines, and a last line that counts the entries left out, if any.
        candidates: The entries that were selected from.
        left_out: For the project's entries (False) and the person's own (True), cause → how many were left out for it.
        lowest: For either, the lowest score of one that was selected; nothing where no task ranked them.
        template: The text around the lines.
    """

    chosen: Sequence[Mapping[str, Any]] = ()
    lines: tuple[str, ...] = ()
    candidates: Sequence[Mapping[str, Any]] = ()
    left_out: Mapping[bool, Mapping[str, int]] = {}
    lowest: Mapping[bool, float] = {}
    template: str = ""

    def text_without(self, held: Container[str] = ()) -> str:
        """Return the text for a model without the entries that are withheld; their room stays empty.

        In the later format each section has its heading before its entries. The person's own entries come last and
        under a heading.
        """
        by_section: dict[str, list[str]] = {}
        mine = []
        for entry, text in zip(self.chosen, self.lines, strict=False):
            section = entry.get("section", "")
            if isinstance(entry, OwnEntry):
                mine.append(text)
            elif entry["name"] not in held:
                by_section.setdefault(section, [f"## {section}"] if section else []).append(text)
        lines = [text for texts in by_section.values() for text in texts]
        lines += [OWN_HEADING, *mine] if mine else []
        return fill(self.template, [*lines, *self.lines[len(self.chosen) :]] if lines else [])


def names_of(entries: Iterable[Mapping[str, Any]], *, own: bool = False) -> tuple[str, ...]:
    """Return the names of the project's entries, or of the person's own."""
    return tuple(entry["name"] for entry in entries if isinstance(entry, OwnEntry) is own)


def leave_out_expired(entries: Sequence[Mapping[str, Any]], today: str) -> Sequence[Mapping[str, Any]]:
    """Return the entries that a session can be given: those whose last day, where they have one, is not past."""
    return [entry for entry in entries if entry.get(UNTIL, today) >= today]


def blank_controls(text: str) -> str:
    """Return a text with every character that could end a line or steer a terminal replaced by a blank."""
    # All of these are unprintable, and nearly every text is printable.
    return text if text.isprintable() else text.translate(_BLANK)


def line(entry: Mapping[str, Any]) -> str:
    """Return an entry as the line that a model reads (REQ-SCORE-003); nothing in it can forge another line."""
    text_line = f"[{entry['name']}] helpful={entry['helpful']} harmful={entry['harmful']} :: {entry['text']}"
    return blank_controls(text_line)


def choose(entries: Sequence[Mapping[str, Any]], room: int) -> Selection:
    """Choose the entries of a playbook to inject.

    Where all fit, all are injected. Otherwise unrated entries get UNTESTED_SHARE of the room, the newest first, and
    rated ones the rest, the best by ``lower_bound`` first and of equals the newer; room that one group leaves goes to
    the other. A line of more than MAX_ENTRY_CHARS is cut.

    Args:
        entries: The playbook's entries in their order, ``{name, text, helpful, harmful}``, in the later format
            ``section``; OwnEntry where they are the person's own.
        room: How many characters the lines may take, line feeds and headings included.
    """
    # The headings of all sections, because which of them are shown follows only from the choice.
    room -= headings_size(entries)
    # The last line has no line feed after it.
    fitting, _ = _choose_fitting(range(len(entries)), entries, room + 1)
    has_all = len(fitting) == len(entries)
    if not has_all:
        room -= len(_LEFT_OUT.format(len(entries)))
        newest = range(len(entries) - 1, -1, -1)
        unrated = [index for index in newest if not (entries[index]["helpful"] or entries[index]["harmful"])]
        rated = [index for index in newest if entries[index]["helpful"] or entries[index]["harmful"]]
        # A stable sort: the newer of equals comes first.
        rated.sort(key=lambda index: -lower_bound(entries[index]["helpful"], entries[index]["harmful"]))
        trial_room = int(room * UNTESTED_SHARE)
        fitting, room_left = _choose_fitting(unrated, entries, trial_room)
        proven, room_left = _choose_fitting(rated, entries, room - trial_room + room_left)
        more, _ = _choose_fitting([index for index in unrated if index not in fitting], entries, room_left)
        fitting |= proven | more
    chosen = [entries[index] for index in sorted(fitting)]
    lines = [fitting[index] for index in sorted(fitting)]
    lines += [] if has_all else [_LEFT_OUT.format(len(entries) - len(chosen))]
    own_left_out = len(names_of(entries, own=True)) - len(names_of(chosen, own=True))
    left_out = {False: {"room": len(entries) - len(chosen) - own_left_out}, True: {"room": own_left_out}}
    return Selection(chosen, tuple(lines), entries, left_out)


def headings_size(entries: Sequence[Mapping[str, Any]]) -> int:
    """Return the characters that the headings of all sections and of the own entries take, line feeds included."""
    headings = {entry.get("section", "") for entry in entries if not isinstance(entry, OwnEntry)} - {""}
    own_size = len(OWN_HEADING) + 1 if names_of(entries, own=True) else 0
    return sum(len(f"## {heading}\n") for heading in headings) + own_size


def cut_line(entry: Mapping[str, Any], room: int) -> str | None:
    """Return the line of an entry, cut where it is too long; None where it and a line feed do not fit."""
    # A line is longer than its text unless it is cut, so most lines that do not fit are never built.
    if min(len(entry["text"]), MAX_ENTRY_CHARS) < room:
        text = line(entry)
        text = text if len(text) <= MAX_ENTRY_CHARS else text[: MAX_ENTRY_CHARS - 1] + "…"
        if len(text) + 1 <= room:
            return text
    return None


def _choose_fitting(
    indexes: Iterable[int], entries: Sequence[Mapping[str, Any]], room: int
) -> tuple[dict[int, str], int]:
    """Return each index whose line still fits, with that line, and the remaining room."""
    fitting = {}
    for index in indexes:
        if (text := cut_line(entries[index], room)) is not None:
            room -= len(text) + 1
            fitting[index] = text
    return fitting, room


def fill(template: str, lines: Sequence[str]) -> str:
    """Return a template with ``{key_points}`` replaced by the lines; an empty text without any (REQ-SCORE-003).

    Only that placeholder is replaced, so braces in a template or a text are harmless.
    """
    return template.replace(PLACEHOLDER, "\n".join(lines)) if lines else ""


def prompt(key_points: Iterable[Mapping[str, Any]], template: str) -> str:
    """Return the template filled with all entries, an empty text without any (REQ-SCORE-003)."""
    return fill(template, [line(entry) for entry in key_points])


# By task

MAX_TASK_CHARS = 20_000
"""Of a longer task the beginning and the end are read, a half each: people put a log between their words."""
PROMPT_SHARE = 0.5
"""Share of what is left of a session's budget that one prompt may use, so that later prompts find room."""
ROOM = "room"
TOLD = "told"
UNRELATED = "unrelated"
_UNRELATED_LEFT = "({} more key points were left out; this prompt has little to do with them.)"
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
    # A session that is given everything at its start does without this module.
    from math import log  # noqa: PLC0415

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
    entries: Sequence[Mapping[str, Any]], task: str, room: int, known: Collection[str] = (), *, is_first: bool = True
) -> Selection:
    """Select the entries for a task, the best first, as many as fit.

    An entry counts if its text shares a word with the task; at first also if it has helpful ratings, because what is
    always true need not name the task.

    Args:
        entries: The playbook's entries in their order, as ``choose`` takes them.
        task: What is to be done.
        room: How many characters the lines may take, line feeds and headings included.
        known: Names of entries that the session was given before.
        is_first: Whether the session was given nothing before.
    """
    room -= headings_size(entries)
    room -= len(_UNRELATED_LEFT.format(len(entries))) if is_first else 0
    counts = {own: {ROOM: 0, TOLD: 0, UNRELATED: 0} for own in (False, True)}
    chosen, lines = [], []
    lowest: dict[bool, float] = {}
    for score in rank(entries, task):
        entry = entries[score.place]
        own = isinstance(entry, OwnEntry)
        if entry["name"] in known:
            counts[own][TOLD] += 1
        elif not (score.words or (is_first and score.proof)):
            counts[own][UNRELATED] += 1
        elif (text := cut_line(entry, room)) is None:
            counts[own][ROOM] += 1
        else:
            room -= len(text) + 1
            chosen.append(entry)
            lines.append(text)
            # The best come first.
            lowest[own] = round(score.total, 4)
    if is_first and lines and len(lines) < len(entries):
        lines.append(_UNRELATED_LEFT.format(len(entries) - len(lines)))
    left_out = {own: {cause: number for cause, number in group.items() if number} for own, group in counts.items()}
    return Selection(chosen, tuple(lines), entries, left_out, lowest)
