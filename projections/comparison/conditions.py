"""Conditions on the playbook for `bisect`: the grammar, its parser, and conditions as values.

    condition  = all {"or" all}
    all        = one {"and" one}
    one        = "not" one | "(" condition ")" | status "(" name ")" | term compared term | field "contains" text
    status     = "exists" | "pruned" | "retired" | "merged" | "pinned"
    term       = number | "count" | field
    field      = name "." ("helpful" | "harmful" | "text")
    compared   = ">" | ">=" | "<" | "<=" | "==" | "!="

A name needs no quotes if it has only letters, digits, ``_`` and ``-`` and does not begin with ``-``. Other names and
texts are quoted; a quote inside is doubled. A condition is parsed by hand within bounds, and never evaluated as code.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tallybook.projections.playbook.view import Playbook

MAX_CHARS: Final = 2000
MAX_DEPTH: Final = 40
"""Most levels of nested parentheses and ``not``."""
MAX_DIGITS: Final = 15
_SHOWN_CHARS: Final = 20
_NAMES: Final = ("word", "text", "number")
"""Kinds of tokens that may be a name."""

COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
"""Sign → comparison of two numbers; longer signs come first, so that the tokenizer prefers them."""

STATUSES: Final[dict[str, Callable[[Playbook, str], bool]]] = {
    "exists": lambda book, name: name in book.points,
    "pruned": lambda book, name: book.status_of(name) == "pruned",
    "retired": lambda book, name: book.status_of(name) == "retired",
    "merged": lambda book, name: book.status_of(name) == "merged",
    "pinned": lambda book, name: name in book.pinned,
}
"""Status → the test of an entry for it."""

FIELDS: Final = ("helpful", "harmful", "text")
"""Fields of an entry; an entry that left has its last values, a name never used has none."""

Values = tuple[Any, ...]


@attrs.frozen
class Term:
    """A value that a condition reads from a playbook.

    Attributes:
        told: Its text.
        value: Returns its value: a number, a text, a boolean, or None for a name never used.
        name: The entry that it reads, None for the playbook itself.
    """

    told: str
    value: Callable[[Playbook], Any]
    name: str | None = None


@attrs.frozen
class Condition:
    """A condition on a playbook.

    Attributes:
        text: As it was given.
        terms: The values that it reads, each once.
        holds: Takes the values of the terms in their order, and says whether the condition holds.
    """

    text: str
    terms: tuple[Term, ...]
    holds: Callable[[Values], bool]

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the entries that it reads."""
        return frozenset(term.name for term in self.terms if term.name is not None)

    def values(self, book: Playbook) -> Values:
        """Return the values of the terms in a playbook."""
        return tuple([term.value(book) for term in self.terms])


@attrs.frozen
class Token:
    """A word, a number, a sign or a quoted text of a condition.

    Attributes:
        kind: word, number, text, sign, or end after the last.
        said: The word, the digits, the text between the quotes, or the sign.
        place: Position of its first character, from 1.
    """

    kind: str
    said: str
    place: int


def _refuse(place: int, what: str) -> BadInputError:
    return BadInputError(f"CONDITION, character {place}", what, "see `tallybook bisect --help`")


def tokens(text: str) -> list[Token]:
    """Return the tokens of a condition, and the end token.

    Raises:
        BadInputError: It is too long, or has a character that begins no token.
    """
    if len(text) > MAX_CHARS:
        raise _refuse(MAX_CHARS + 1, f"{len(text):,} characters, more than {MAX_CHARS:,}")
    found: list[Token] = []
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        token, place = _token(text, place)
        found.append(token)
    return [*found, Token("end", "", len(text) + 1)]


def _token(text: str, begin: int) -> tuple[Token, int]:
    """Return the token that begins at an index, and the index after it."""
    char = text[begin]
    if char in "\"'":
        return _in_quotes(text, begin)
    for sign in (*COMPARED, *"()."):
        if text.startswith(sign, begin):
            return Token("sign", sign, begin + 1), begin + len(sign)
    end = begin
    while end < len(text) and (text[end].isalnum() or text[end] in "_-"):
        end += 1
    word = text[begin:end]
    if not word or char == "-":
        raise _refuse(begin + 1, f"{_shown(char)} has no meaning here")
    return Token("number" if word.isascii() and word.isdigit() else "word", word, begin + 1), end


def _in_quotes(text: str, begin: int) -> tuple[Token, int]:
    """Return the text in the quotes that open at a place, and where they are closed; doubled, they are one of it."""
    quote, end = text[begin], begin + 1
    while (end := text.find(quote, end)) >= 0 and text.startswith(quote * 2, end):
        end += 2
    if end < 0:
        raise _refuse(begin + 1, "the quotes are not closed")
    return Token("text", text[begin + 1 : end].replace(quote * 2, quote), begin + 1), end + 1


def _shown(said: str) -> str:
    """Return a text in quotes, shortened, without control characters."""
    return repr(said if len(said) <= _SHOWN_CHARS else f"{said[:_SHOWN_CHARS]}...")


class _Parser:
    """A recursive descent parser of one condition, one method for each rule of the grammar."""

    def __init__(self, parts: Sequence[Token]) -> None:
        self.parts = parts
        self.next = 0
        self.depth = 0
        self.terms: dict[str, Term] = {}

    def see(self, *said: str) -> bool:
        """Say whether the next token is one of these signs or words, ignoring case."""
        part = self.parts[self.next]
        return part.kind in {"sign", "word"} and part.said.lower() in said

    def take(self) -> Token:
        """Return the next token and advance."""
        part = self.parts[self.next]
        self.next += part.kind != "end"
        return part

    def expect(self, sign: str) -> None:
        if not self.see(sign):
            raise self.fault(f"expected {sign}")
        self.take()

    def fault(self, expected: str, part: Token | None = None) -> BadInputError:
        part = part or self.parts[self.next]
        found = "the end" if part.kind == "end" else _shown(part.said)
        return _refuse(part.place, f"{expected}, found {found}")

    def any_of(self) -> Callable[[Values], bool]:
        """Read what is joined by ``or``."""
        return self.joined("or", self.all_of, any)

    def all_of(self) -> Callable[[Values], bool]:
        """Read what is joined by ``and``."""
        return self.joined("and", self.one, all)

    def joined(
        self, word: str, part: Callable[[], Callable[[Values], bool]], how: Callable[[Any], bool]
    ) -> Callable[[Values], bool]:
        parts = [part()]
        while self.see(word):
            self.take()
            parts.append(part())
        return parts[0] if len(parts) == 1 else lambda values: how(one(values) for one in parts)

    def one(self) -> Callable[[Values], bool]:
        """Read a part that is true or false by itself."""
        if not self.see("not", "(") or self.is_field():
            return self.plain()
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fault(f"nested deeper than {MAX_DEPTH}")
        if self.take().said == "(":
            inner = holds = self.any_of()
            self.expect(")")
        else:
            inner = self.one()
            holds = lambda values: not inner(values)  # noqa: E731 - as short as what it says
        self.depth -= 1
        return holds

    def plain(self) -> Callable[[Values], bool]:
        """Read a status, a comparison or a search."""
        if self.see(*STATUSES) and self.parts[self.next + 1].said == "(":
            status = self.take().said.lower()
            self.expect("(")
            name = self.name()
            self.expect(")")
            ask = STATUSES[status]
            place = self.place(Term(f"{status}({_name(name)})", lambda book: ask(book, name), name))
            return lambda values: bool(values[place])
        begin = self.parts[self.next]
        left, is_text = self.term()
        if is_text:
            return self.searched(left)
        if not self.see(*COMPARED):
            raise self.fault(f"expected one of {' '.join(sorted(COMPARED))}")
        compare = COMPARED[self.take().said]
        right, is_text = self.term()
        if is_text:
            raise self.fault("expected a number", begin)
        return lambda values: _compared(compare, left(values), right(values))

    def searched(self, left: Callable[[Values], Any]) -> Callable[[Values], bool]:
        """Read what a text is to contain."""
        if not self.see("contains"):
            raise self.fault("expected contains")
        self.take()
        part = self.take()
        if part.kind != "text":
            raise self.fault("expected a text in quotes", part)
        sought = part.said.casefold()
        return lambda values: _contains(left(values), sought)

    def term(self) -> tuple[Callable[[Values], Any], bool]:
        """Read a number, ``count`` or a field; say also whether it is a text."""
        if self.is_field():
            name = self.name()
            self.expect(".")
            return self.field(name)
        part = self.take()
        if part.kind == "number":
            if len(part.said) > MAX_DIGITS:
                raise self.fault(f"expected at most {MAX_DIGITS} digits", part)
            number = int(part.said)
            return lambda _: number, False
        if part.kind == "word" and part.said.lower() == "count":
            place = self.place(Term("count", lambda book: len(book.points)))
            return lambda values: values[place], False
        raise self.fault("expected a number, count, NAME.helpful, NAME.harmful, NAME.text or a status", part)

    def is_field(self) -> bool:
        """Say whether a field comes next: what stands before the point is a name, whatever it means elsewhere."""
        part, behind = self.parts[self.next], self.parts[min(self.next + 1, len(self.parts) - 1)]
        return part.kind in _NAMES and behind.said == "." and behind.kind == "sign"

    def field(self, name: str) -> tuple[Callable[[Values], Any], bool]:
        if not self.see(*FIELDS):
            raise self.fault(f"expected one of {', '.join(FIELDS)}")
        which = self.take().said.lower()
        place = self.place(Term(f"{_name(name)}.{which}", lambda book: _had(book, name, which), name))
        return lambda values: values[place], which == "text"

    def name(self) -> str:
        part = self.take()
        if part.kind not in _NAMES or not part.said:
            raise self.fault("expected the name of an entry", part)
        return part.said

    def place(self, term: Term) -> int:
        """Return the index of a term among the distinct terms of the condition, adding it if it is new."""
        self.terms.setdefault(term.told, term)
        return list(self.terms).index(term.told)


def _name(name: str) -> str:
    """Return a name as a condition has it."""
    if all(char.isalnum() or char in "_-" for char in name) and name[0] != "-":
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _had(book: Playbook, name: str, field: str) -> Any:
    """Return the current or last value of an entry's field; None for a name never used."""
    point = book.points.get(name) or book.gone.get(name)
    return None if point is None else getattr(point, field)


def _compared(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    """Compare two numbers; with the value of a name never used every comparison is false."""
    return left is not None and right is not None and compare(left, right)


def _contains(text: str | None, sought: str) -> bool:
    """Search a text, whatever the case; what was never there contains nothing."""
    return text is not None and sought in text.casefold()


def parse(text: str) -> Condition:
    """Parse a condition.

    Raises:
        BadInputError: The text is not a condition; the message names the position of the first mistake.
    """
    parser = _Parser(tokens(text))
    holds = parser.any_of()
    if parser.parts[parser.next].kind != "end":
        raise parser.fault("expected and, or, or the end")
    return Condition(text, tuple(parser.terms.values()), holds)
