r"""Marks: the ratings and lessons that an agent writes on lines of their own, such as ``[kpt_003 harmful: why]``.

Only the agent's own words are read, by line, in linear time. A line counts if it consists of marks once the signs of a
list, a table and emphasis are taken off; quotes, code, comments, links and quoted documents never count. Which ratings
count is decided when they are recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
import re
from typing import Final

import attrs

from tallybook.ledger.decisions.curation import MAX_REASON_CHARS
from tallybook.ledger.decisions.update import equal_form
from tallybook.ledger.events import PointNoted, PointProposed
from tallybook.ledger.playbook_constants import RATE
from tallybook.ledger.storage import redacted_digests
from tallybook.projections.history.review import LESSON_VERB
from tallybook.projections.playbook.inject import blank_controls
from tallybook.projections.playbook.view import Playbook
from tallybook.projections.surfaces.hooks import citations
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.workspace.settings import LEARNED, MARKS, Settings
from tallybook.projections.surfaces.writing import curation, secrets
from tallybook.projections.surfaces.writing.requests import NEUTRAL, PlainEvents, Request, Update

# A first parser was quadratic, and took 8 s for 40 kB.
MAX_LINE_CHARS: Final = 2_000
"""A longer line is passed over."""
MAX_RATINGS: Final = 10
MAX_LESSONS: Final = 3
"""Most ratings and lessons of a message."""
# Characters and not words, because some scripts have no blanks.
LESSON_CHARS: Final = range(12, 301)
_MAX_LINES: Final = 3
"""So many lines a mark may be broken over."""
_MAX_TEXTS_AFTER: Final = 1
"""After more lines of text than this, earlier marks are no longer at the end of the message."""

_INVISIBLE: Final = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))
_ESCAPED: Final = re.compile(r"\\([\[\]_*`|.:#-])")
# Any signs but those that open a mark, a quote, a tag or a link.
_SIGNS: Final = r"""(?:[^\w\[(<>"'\u2018-\u201e\u00ab\u00bb\u300c\u300e]|_)*"""
# A colon or a dash, those of other scripts among them.
_BREAK: Final = r"(?:\s*[:\uff1a\u2013\u2014]\s*|\s+-\s+)"
# The signs of a list item, a task or a number come first.
_LEAD: Final = re.compile(rf"(?:[-*+•] )?(?:\[[ xX]\] )?(?:\d{{1,3}}[.)] )?{_SIGNS}(?=\[)")
_AFTER: Final = re.compile(_SIGNS)
# Not the word learned: public agent files and two other tools have it in brackets.
_LESSON: Final = re.compile(rf"[*`]*kpt_new[*`]*{_BREAK}(.*)", re.IGNORECASE)
_RATING: Final = re.compile(
    rf"(.{{1,200}}?)(?:{_BREAK}|\s+)[*_`]*(helpful|harmful|neutral)[*_`]*(?:{_BREAK}(.*))?", re.IGNORECASE
)
# The request for marks, repeated whole by an agent, gives none.
_PLACEHOLDERS: Final = frozenset({"", "why", "reason"})
_FENCE: Final = re.compile(r"\s*(?:[-*+]\s+|\d{1,3}[.)]\s+)?(`{3,}(?=[^`]*$)|~{3,})")
_CODE: Final = re.compile(r" {4}|\t| {1,3}\t")
_ITEM: Final = re.compile(r"\s*(?:[-*+•|>`~]|\d{1,3}[.)])")
_TAG: Final = re.compile(r"\s*<(pre|code|blockquote|details|script|style|textarea)\b", re.IGNORECASE)
# Such a line with a colon introduces the agent's own marks.
_OWN_HEADINGS: Final = frozenset({"marks", "ratings", "playbook", "playbook marks", "playbook ratings"})
# A line with one of these and a colon introduces a document, which ends nowhere.
_DOCUMENT: Final = re.compile(
    r"\b(?:commit|pull request|pr|message|description|readme|document|says|reads|contains|contents?|md|txt|rst)\b",
    re.IGNORECASE,
)


@attrs.frozen
class Mark:
    """A rating by a mark.

    Attributes:
        name: The entry.
        rating: helpful, harmful or neutral.
        reason: Why, on one line; empty for none, which a harmful one never is.
    """

    name: str
    rating: str
    reason: str = ""


def read_marks(message: str, names: Collection[str] = ()) -> tuple[tuple[Mark, ...], tuple[str, ...]]:
    """Return the marks at the end of a message of the agent.

    Args:
        message: The whole message.
        names: The entries that can be rated; a mark that names another word as well is void.

    Returns:
        At most MAX_RATINGS ratings, one an entry; and the sentences of at most MAX_LESSONS proposed entries.
    """
    ratings: dict[str, Mark] = {}
    lessons: dict[str, None] = {}
    by_form: dict[str, str] = {}
    for inside in _find_closing_marks(message.translate(_INVISIBLE).rstrip().splitlines()):
        if lesson := _LESSON.fullmatch(inside):
            if len(lesson[1]) in LESSON_CHARS:
                lessons[lesson[1]] = None
        elif rating := _RATING.fullmatch(inside):
            kind, reason = rating[2].casefold(), (rating[3] or "").strip()
            is_given = reason.casefold().strip(".…?! ") not in _PLACEHOLDERS
            # A reason costs the agent a thought and is what a person reads later: nothing is harmful by a slip.
            if is_given or kind != "harmful":
                for name in citations.names_in(rating[1], names, by_form, all_known=True):
                    ratings[name] = Mark(name, kind, reason if is_given else "")
    return tuple(ratings.values())[:MAX_RATINGS], tuple(lessons)[:MAX_LESSONS]


def _find_closing_marks(lines: Sequence[str]) -> list[str]:
    """Return the insides of the marks at the end of a message: at most one line of text follows them."""
    marks: list[str] = []
    texts_after, introduction, is_document, is_quote, place = 0, "", False, False, 0
    while place < len(lines):
        line = lines[place]
        end = _end_of_block(lines, place)
        is_quote = line.lstrip().startswith(">") or (is_quote and bool(line.strip()))
        found, count = ([], 1) if end > place or is_quote or _CODE.match(line) else _read_line(lines, place)
        if end == len(lines) and _FENCE.match(line):
            # Agents like to fence their last lines.
            found = _read_fence(lines[place + 1 : -1])
        is_text = not line.lstrip().startswith("<!--") and (end > place or any(map(str.isalnum, line)))
        place = max(end, place + count)
        if found:
            marks += () if is_document or introduction else found
            texts_after = 0
        elif is_text:
            texts_after += 1
            is_document |= not _ITEM.match(line) and bool(_DOCUMENT.search(introduction))
            introduction = _introduction(line)
            if texts_after > _MAX_TEXTS_AFTER or line.startswith("#"):
                marks.clear()
    return marks


def _introduction(line: str) -> str:
    """Return a line that ends in a colon and so introduces what follows it; empty for another."""
    text = line.strip().rstrip("*_ ")
    return text if text.endswith((":", "\uff1a")) and text.strip("*_#:\uff1a ").casefold() not in _OWN_HEADINGS else ""


def _end_of_block(lines: Sequence[str], place: int) -> int:
    """Return the line after a fence, a comment or an element that begins here, or after a line that is too long.

    Where nothing of these begins it is the line itself; what has no end lasts beyond the message.
    """
    line = lines[place]
    if len(line) > MAX_LINE_CHARS:
        return place + 1
    following = range(place + 1, len(lines))
    if fence := _FENCE.match(line):
        stripped = (lines[at].strip() for at in following)
        ends = (text.startswith(fence[1]) and not text.strip(fence[1][0]) for text in stripped)
    else:
        closing = "-->" if line.rfind("<!--") > line.rfind("-->") and "`<!--" not in line else ""
        if (tag := _TAG.match(line)) and f"</{tag[1]}".casefold() not in line.casefold():
            closing = f"</{tag[1]}".casefold()
        if not closing:
            return place
        ends = (closing in lines[at].casefold() for at in following)
    return next((at + 1 for at, is_end in zip(following, ends, strict=True) if is_end), len(lines) + 1)


def _read_fence(lines: Sequence[str]) -> list[str]:
    """Return the marks of a fence that holds nothing else."""
    marks: list[str] = []
    place = 0
    while place < len(lines):
        found, count = _read_line(lines, place)
        if lines[place].strip() and not found:
            return []
        marks += found
        place += count
    return marks


def _read_line(lines: Sequence[str], place: int) -> tuple[list[str], int]:
    """Return the insides of the marks that a line consists of, none for another line, and how many lines they take."""
    text = ""
    for count, line in enumerate(lines[place : place + _MAX_LINES], 1):
        if not line.strip() or len(line) > MAX_LINE_CHARS:
            break
        plain = _ESCAPED.sub(r"\1", " ".join(line.split()))
        text = f"{text} {plain}".lstrip()
        if count == 1:
            lead = _LEAD.match(text)
            if lead is None:
                break
            text = text[lead.end() :]
        if _end_of_bracket(text):
            return _split(text), count
    return [], 1


def _end_of_bracket(text: str) -> int:
    """Return where the bracket ends with which a text begins, 0 for nowhere."""
    depth = 0
    for place, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if not depth:
            return place
    return 0


def _split(text: str) -> list[str]:
    """Return the inside of each mark of a text that begins with one; nothing where a part of the text is no mark."""
    found = []
    while text.startswith("[") and (end := _end_of_bracket(text)):
        inside, after = text[1:end].strip(), text[end + 1 :]
        if after.startswith(("(", ":")) and _is_mark(inside):
            # A link, or the definition of one.
            return []
        text = _AFTER.sub("", after, count=1)
        if text and not text.startswith("["):
            # A rating or a reason may stand outside the brackets.
            inside, text = f"{inside} {after.strip(' *_`|.。')}", ""
        found.append(inside)
    return found if not text and all(map(_is_mark, found)) else []


def _is_mark(inside: str) -> bool:
    return bool(_LESSON.fullmatch(inside) or _RATING.fullmatch(inside))


# What the marks of messages come to: a person accepts each lesson, unless the settings say otherwise

ADD, _, LESSONS_OFF = LEARNED
MARKS_RATE, _, MARKS_OFF = MARKS
ORIGIN = "a lesson by a mark"


@attrs.frozen
class MarkedMessage:
    """A message of an agent with marks.

    Attributes:
        ratings: Its ratings, of entries that its lineage was given.
        lessons: Its lessons.
        text: The whole message.
        by: Who wrote it.
        key: The idempotency key of what is recorded.
        when: When it was written; None where that is unknown.
    """

    ratings: tuple[Mark, ...]
    lessons: tuple[str, ...]
    text: str
    by: Mapping[str, str]
    key: str
    when: str | None = None


def mark_requests(
    project: Project, playbook: Playbook, own: Collection[str], messages: Sequence[MarkedMessage], options: Settings
) -> Iterator[Request]:
    """Yield what records the marks of messages.

    Args:
        project: The project.
        playbook: The playbook, with the entries of the person's own.
        own: The names of those, on which a mark is a proposal.
        messages: The messages.
        options: The settings.
    """
    if options.marks == MARKS_OFF:
        return
    yield from _lesson_requests(project, playbook, messages, options.learned)
    for message in messages:
        ratings = [mark for mark in message.ratings if playbook.merged.get(mark.name, mark.name) in playbook.entries]
        counted = [mark for mark in ratings if options.marks == MARKS_RATE and mark.name not in own]
        if counted:
            notes = tuple(PointNoted(mark.name, f"{mark.rating}: {mark.reason}") for mark in counted if mark.reason)
            evaluations = [{"name": mark.name, "rating": mark.rating} for mark in counted]
            # One batch a message: with one for each vote, a worker took half as long again.
            update = Update({"evaluations": evaluations}, plain_events=notes, by_marks=True)
            yield Request(update, message.by, message.key, message.when)
        wishes = [mark for mark in ratings if mark not in counted and mark.rating != NEUTRAL]
        events = (PointProposed(RATE, mark.name, (), "marks propose", "", mark.rating, mark.reason) for mark in wishes)
        if wishes:
            yield Request(PlainEvents(tuple(events)), message.by, f"{message.key}:proposed", message.when)


def _lesson_requests(
    project: Project, playbook: Playbook, messages: Sequence[MarkedMessage], learned: str
) -> Iterator[Request]:
    """Yield what records the lessons that nothing in the playbook or among the proposals says already.

    What left the playbook, was redacted or was rejected once is not proposed again.
    """
    messages = [message for message in messages if message.lessons]
    if not messages or learned == LESSONS_OFF:
        return
    entries = (*playbook.entries.values(), *playbook.gone.values())
    known = {*map(equal_form, (*(entry.text for entry in entries), *curation.load_proposals(project).lessons))}
    redactions = redacted_digests.load(project.ledger)
    for message in messages:
        texts = []
        for sentence in message.lessons:
            text = secrets.mask(sentence)
            if equal_form(text) not in known and redactions.refusal(text) is None:
                known.add(equal_form(text))
                texts.append(text)
        if texts:
            # Masked before it is cut, as half of a secret is not recognised.
            whole = " ".join(blank_controls(secrets.mask(message.text)).split())
            end = whole if len(whole) <= MAX_REASON_CHARS else f"…{whole[1 - MAX_REASON_CHARS :]}"
            proposals = (PointProposed(LESSON_VERB, "", (), "lesson", "", text, end) for text in texts)
            added = Update({"new_key_points": texts}, origin=ORIGIN)
            action = added if learned == ADD else PlainEvents(tuple(proposals))
            yield Request(action, message.by, f"{message.key}:lessons", message.when)
