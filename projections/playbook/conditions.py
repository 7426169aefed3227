"""Conditions on a playbook or a score, and the event that made one true.

    condition  = all {"or" all}
    all        = test {"and" test}
    test       = "not" test | "(" condition ")" | status "(" name ")" | term compared term | field "contains" text
    status     = "exists" | "pruned" | "retired" | "merged" | "pinned"
    term       = number | "count" | field
    field      = name "." ("helpful" | "harmful" | "text")
    compared   = ">" | ">=" | "<" | "<=" | "==" | "!="

A name needs no quotes if it has only letters, digits, ``_`` and ``-`` and does not begin with ``-``. Other names and
texts are quoted; a quote inside is doubled. A condition is parsed by hand within bounds, and never evaluated as code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import operator
from operator import itemgetter
import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.errors import BadInputError
from tallybook.projections import fold
from tallybook.projections.history import event_rows
from tallybook.projections.playbook.view import CHANGES, PLAYBOOK, Playbook

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch, EventRecord

    Read = Callable[[], Iterable[Batch]]


MAX_CHARS: Final = 2000
MAX_DEPTH: Final = 40
"""Most levels of nested parentheses and ``not``."""
MAX_DIGITS: Final = 15
_SHOWN_CHARS: Final = 20
_NAMES: Final = ("word", "text", "number")
"""Kinds of tokens that may be a name."""
_WORD: Final = r"[^\W-][\w-]*"
# Whatever begins no token is `other`, so that the matches of a text leave nothing out but white space.
_TOKEN: Final = re.compile(
    rf"""\s*(?:(?P<text>"(?:[^"]|"")*"(?!")|'(?:[^']|'')*'(?!'))|(?P<sign>[<>=!]=|[<>().])|(?P<word>{_WORD})"""
    r"|(?P<other>\S))"
)

COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
"""Sign → comparison of two numbers."""

STATUSES: Final = {"exists": "kept", "pruned": "pruned", "retired": "retired", "merged": "merged", "pinned": ""}
"""Status → what ``Playbook.status_of`` says of such an entry; empty for one that the playbook has besides."""

COUNT: Final = "count"
"""The term that reads no entry: how many the playbook has."""
FIELDS: Final = ("helpful", "harmful", "text")
"""Fields of an entry; an entry that left has its last values, a name never used has none."""

Values = dict[str, Any]
"""Term of a condition, as it has it → its value."""

Test = Callable[[Values], bool]
"""Takes the values of a condition's terms, and says whether a part of the condition holds."""


@attrs.frozen
class Condition:
    """A condition on a playbook.

    Attributes:
        text: As it was given.
        terms: Term, as a condition has it → what returns its value in a playbook: a number, a text, a boolean, or None
            for a name never used.
        names: The names of the entries that it reads.
        holds: The test of the whole condition.
    """

    text: str
    terms: Mapping[str, Callable[[Playbook], Any]]
    names: frozenset[str]
    holds: Test

    def values(self, book: Playbook) -> Values:
        """Return the values of the terms in a playbook."""
        return {term: value(book) for term, value in self.terms.items()}


@attrs.frozen
class Token:
    """A part of a condition.

    Attributes:
        kind: word, number, text, sign, or end after the last.
        value: The word, the digits, the text between the quotes, or the sign.
        place: Position of its first character, from 1.
    """

    kind: str
    value: str
    place: int


def _refuse(place: int, what: str) -> BadInputError:
    return BadInputError(f"CONDITION, character {place}", what, "see `tallybook bisect --help`")


def _tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a condition, and the end token.

    Raises:
        BadInputError: It is too long, or has a character that begins no token.
    """
    if len(text) > MAX_CHARS:
        raise _refuse(MAX_CHARS + 1, f"{len(text):,} characters, more than {MAX_CHARS:,}")
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        value, place = match[kind], match.start(kind) + 1
        if kind == "other":
            what = "the quotes are not closed" if value in "\"'" else f"{_quote(value)} has no meaning here"
            raise _refuse(place, what)
        if kind == "text":
            value = value[1:-1].replace(value[0] * 2, value[0])
        elif kind == "word" and value.isascii() and value.isdigit():
            kind = "number"
        yield Token(kind, value, place)
    yield Token("end", "", len(text) + 1)


def _quote(text: str) -> str:
    """Return a text in quotes, shortened, without control characters."""
    # The message is one printable line, whatever was typed.
    return repr(text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}...")


class _Parser:
    """A recursive descent parser of one condition, one method for each rule of the grammar."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.next = 0
        self.depth = 0
        self.terms: dict[str, Callable[[Playbook], Any]] = {}
        self.names: set[str] = set()

    @property
    def token(self) -> Token:
        """Return the next token."""
        return self.tokens[self.next]

    def sees(self, *values: str) -> bool:
        """Say whether the next token is one of these signs or words, ignoring case."""
        return self.token.kind in {"sign", "word"} and self.token.value.lower() in values

    def take(self) -> Token:
        """Return the next token and advance."""
        token = self.token
        self.next += token.kind != "end"
        return token

    def expect(self, value: str) -> None:
        """Advance past a sign or a word."""
        if not self.sees(value):
            raise self.error(f"expected {value}")
        self.take()

    def error(self, expected: str, token: Token | None = None) -> BadInputError:
        token = token or self.token
        actual = "the end" if token.kind == "end" else _quote(token.value)
        return _refuse(token.place, f"{expected}, found {actual}")

    def parse_any(self) -> Test:
        """Parse alternatives, joined by ``or``."""
        return self.parse_joined("or", lambda: self.parse_joined("and", self.parse_one, all), any)

    def parse_joined(self, word: str, parse_part: Callable[[], Test], join: Callable[[Iterable[bool]], bool]) -> Test:
        parts = [parse_part()]
        while self.sees(word):
            self.take()
            parts.append(parse_part())
        return parts[0] if len(parts) == 1 else lambda values: join(part(values) for part in parts)

    def parse_one(self) -> Test:
        """Parse a part that is true or false by itself."""
        if not self.sees("not", "(") or self.sees_field():
            return self.parse_test()
        self.depth += 1
        # The parser calls itself for each level, and the limit of Python would end in a traceback.
        if self.depth > MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH}")
        if self.take().value == "(":
            inner = holds = self.parse_any()
            self.expect(")")
        else:
            inner = self.parse_one()
            holds = lambda values: not inner(values)  # noqa: E731 - as short as what it says
        self.depth -= 1
        return holds

    def parse_test(self) -> Test:
        """Parse a status, a comparison or a search."""
        # Without a parenthesis after it the word is the name of an entry.
        if self.sees(*STATUSES) and self.tokens[self.next + 1].value == "(":
            status = self.take().value.lower()
            self.expect("(")
            name = self.parse_name()
            self.expect(")")
            return self.add(
                f"{status}({_name(name)})",
                lambda book: book.status_of(name) == STATUSES[status] if STATUSES[status] else name in book.pinned,
            )
        begin = self.token
        left, is_text = self.parse_term()
        if is_text:
            self.expect("contains")
            token = self.take()
            if token.kind != "text":
                raise self.error("expected a text in quotes", token)
            words = token.value.casefold()
            return lambda values: (text := left(values)) is not None and words in text.casefold()
        if not self.sees(*COMPARED):
            raise self.error(f"expected one of {' '.join(sorted(COMPARED))}")
        compare = COMPARED[self.take().value]
        right, is_text = self.parse_term()
        if is_text:
            raise self.error("expected a number", begin)

        def holds(values: Values) -> bool:
            numbers = (left(values), right(values))
            # With the value of a name never used every comparison is false.
            return None not in numbers and compare(*numbers)

        return holds

    def parse_term(self) -> tuple[Callable[[Values], Any], bool]:
        """Parse a number, ``count`` or a field; return also whether it is a text."""
        if self.sees_field():
            name = self.parse_name()
            self.expect(".")
            if not self.sees(*FIELDS):
                raise self.error(f"expected one of {', '.join(FIELDS)}")
            field = self.take().value.lower()

            def value(book: Playbook) -> Any:
                # An update that counts a rating and prunes by it leaves no moment with that count; the entry that left
                # has it, and a name never used has none.
                return getattr(book.entries.get(name) or book.gone.get(name), field, None)

            return self.add(f"{_name(name)}.{field}", value), field == "text"
        token = self.take()
        if token.kind == "number":
            if len(token.value) > MAX_DIGITS:
                raise self.error(f"expected at most {MAX_DIGITS} digits", token)
            number = int(token.value)
            return lambda _: number, False
        if token.kind == "word" and token.value.lower() == COUNT:
            return self.add(COUNT, lambda book: len(book.entries)), False
        raise self.error("expected a number, count, NAME.helpful, NAME.harmful, NAME.text or a status", token)

    def sees_field(self) -> bool:
        """Say whether a field comes next: a name and a dot, even if the name means something elsewhere."""
        after = self.tokens[min(self.next + 1, len(self.tokens) - 1)]
        return self.token.kind in _NAMES and (after.kind, after.value) == ("sign", ".")

    def parse_name(self) -> str:
        token = self.take()
        if token.kind not in _NAMES or not token.value:
            raise self.error("expected the name of an entry", token)
        self.names.add(token.value)
        return token.value

    def add(self, term: str, value: Callable[[Playbook], Any]) -> Callable[[Values], Any]:
        """Add a term to those of the condition, and return the function that gives its value."""
        self.terms.setdefault(term, value)
        return itemgetter(term)


def _name(name: str) -> str:
    """Return a name as a condition has it."""
    if re.fullmatch(_WORD, name):
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def parse(text: str) -> Condition:
    """Parse a condition.

    Raises:
        BadInputError: The text is not a condition; the message names the position of the first mistake.
    """
    parser = _Parser(list(_tokens(text)))
    holds = parser.parse_any()
    if parser.token.kind != "end":
        raise parser.error("expected and, or, or the end")
    return Condition(text, parser.terms, frozenset(parser.names), holds)


def search(
    condition: Condition, read: Read, span: tuple[int, int | None] = (0, None), *, last: bool = False
) -> dict[str, Any]:
    """Find the first moment at which a condition holds that did not hold at the moment before.

    Each moment is what ``show --at`` shows for it, so events undone later still count. At an undo the playbook is
    therefore folded again up to there.

    Args:
        condition: The condition.
        read: Returns history from the beginning.
        span: The moments after which the search starts and ends; None for the end of history.
        last: Whether to go on to the last such moment.

    Returns:
        ``{condition, moment, event, before, after, began}``: the moment and ``{seq, at, [when], kind, by, summary}`` of
        the event, both None where the condition never became true; each term with its value before and after that
        moment, or at the end; and whether the condition held at the start of the search.
    """
    begin, end = span
    undos: list[EventRecord] = []
    turn: tuple[Batch, int, Values, Values] | None = None
    book = fold.fold_history(PLAYBOOK, read, begin)
    before = after = condition.values(book)
    began = holds = condition.holds(after)
    for batch in read():
        if end is not None and batch.last > end:
            break
        # Those before the span as well: later moments are shown without what they undid.
        undos += (batch_undos := fold.undos_in(batch))
        if batch.last <= begin:
            continue
        if batch_undos:
            book = _playbook_at(read, undos, batch.last)
        else:
            fold.fold(PLAYBOOK, [batch], book)
        before, held, after = after, holds, condition.values(book)
        holds = held if after == before else condition.holds(after)
        if holds and not held:
            turn = (batch, len(undos), before, after)
            if not last:
                break
    moment, event, before = None, None, after
    if turn is not None:
        batch, number, before, after = turn
        record = _find_event(condition, read, batch, undos[:number])
        moment, event = batch.last, {"seq": record.seq, "at": record.at}
        event |= {} if record.when is None else {"when": record.when}
        event |= {"kind": event_rows.kind_of(record.event)[0], "by": event_rows.by_json(record.by)}
        event |= {"summary": event_rows.summary(record.event)}
    found = {"condition": condition.text, "moment": moment, "event": event}
    return found | {"before": before, "after": after, "began": began}


def _playbook_at(read: Read, undos: Sequence[EventRecord], until: int) -> Playbook:
    """Return the playbook after an event, without what these undos undid."""
    return fold.fold(PLAYBOOK, fold.mark_undone(read(), fold.find_undone(undos)), until=until)


def _find_event(condition: Condition, read: Read, batch: Batch, undos: Sequence[EventRecord]) -> EventRecord:
    """Return the event of a batch that made a condition true: of several the last; in a batch with an undo, the undo.

    Args:
        condition: The condition, which holds after the batch and did not before it.
        read: Returns history from the beginning.
        batch: The batch.
        undos: The undos up to the batch, its own included.
    """
    # An undo changes how all of history reads, so no other event of its batch can be named.
    if batch_undos := fold.undos_in(batch):
        return batch_undos[0]
    deciding, holds = batch.records[0], False
    book = _playbook_at(read, undos, deciding.seq - 1)
    for record in batch.records:
        if change := CHANGES.get(type(record.event)):
            change(book, record.event, batch)
            held, holds = holds, condition.holds(condition.values(book))
            deciding = record if holds and not held else deciding
    return deciding
