"""Conditions on a playbook, and the event that made one true.

A condition is an expression in the syntax of Python, of these parts alone:

    A and B, A or B, not A, (A)
    exists(NAME), pruned(NAME), retired(NAME), merged(NAME), pinned(NAME)
    TERM > TERM, and in the same way >=, <, <=, == and !=; a term is a number, count, NAME.helpful or NAME.harmful
    "words" in NAME.text

A name that is no identifier is quoted: ``"pat-001".harmful``. Python parses a condition, and never evaluates it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
import operator
from typing import TYPE_CHECKING, Any, Final
import warnings

import attrs

from tallybook.ledger.errors import BadInputError
from tallybook.projections.history import event_rows
from tallybook.projections.playbook import fold
from tallybook.projections.playbook.view import CHANGES, PLAYBOOK, Playbook

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch, EventRecord

    Read = Callable[[], Iterable[Batch]]


# What fits into it is nested less deep than Python's recursion goes.
MAX_CHARS: Final = 1000

COMPARED: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.GtE: operator.ge,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Gt: operator.gt,
    ast.Lt: operator.lt,
}
"""Operator in the tree of an expression → the comparison of two numbers."""

STATUSES: Final = {"exists": "kept", "pruned": "pruned", "retired": "retired", "merged": "merged", "pinned": ""}
"""Status → what ``Playbook.status_of`` says of such an entry; empty for the mark of an entry that stands."""

COUNT: Final = "count"
"""The term that reads no entry: how many the playbook has."""
COUNTS: Final = ("helpful", "harmful")
"""The counts of an entry; one that left has its last values, a name never used has none."""

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


def _refuse(place: int, what: str) -> BadInputError:
    hint = 'quote a name such as "pat-001"; see `tallybook bisect --help`'
    return BadInputError(f"CONDITION, character {place}", what, hint)


class _Reader:
    """What reads the parts of a condition that may be in it, and notes its terms and names."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.terms: dict[str, Callable[[Playbook], Any]] = {}
        self.names: set[str] = set()

    def error(self, node: ast.expr, expected: str) -> BadInputError:
        # Python counts bytes.
        return _refuse(len(self.text.encode()[: node.col_offset].decode()) + 1, f"expected {expected}")

    def read_test(self, node: ast.expr) -> Test:
        """Read what is true or false."""
        match node:
            case ast.BoolOp(op, operands):
                join, tests = all if isinstance(op, ast.And) else any, [self.read_test(part) for part in operands]
                return lambda values: join(test(values) for test in tests)
            case ast.UnaryOp(ast.Not(), operand):
                inner = self.read_test(operand)
                return lambda values: not inner(values)
            case ast.Call(ast.Name(status), [entry], []) if status in STATUSES:
                name, wanted = self.read_name(entry), STATUSES[status]
                if status == "pinned":
                    return self.add(node, lambda book: name in book.pinned)
                return self.add(node, lambda book: book.status_of(name) == wanted)
            case ast.Compare(left, [ast.In()], [right]):
                return self.read_search(left, right)
            case ast.Compare(left, signs, others):
                pairs = zip([left, *others], signs, others, strict=False)
                comparisons = [self.read_comparison(*pair) for pair in pairs]
                return lambda values: all(holds(values) for holds in comparisons)
        raise self.error(node, f'a comparison, "words" in NAME.text, or {", ".join(STATUSES)} of a NAME')

    def read_search(self, words: ast.expr, field: ast.expr) -> Test:
        match words, field:
            case ast.Constant(str(wanted)), ast.Attribute(_, "text"):
                text = self.read_field(field)
                return lambda values: text(values) is not None and wanted.casefold() in text(values).casefold()
        raise self.error(words, '"words" in NAME.text')

    def read_comparison(self, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> Test:
        if type(sign) not in COMPARED:
            raise self.error(right, "a comparison by one of > >= < <= == !=")
        compare, terms = COMPARED[type(sign)], (self.read_number(left), self.read_number(right))

        def holds(values: Values) -> bool:
            numbers = [term(values) for term in terms]
            # With the value of a name never used every comparison is false.
            return None not in numbers and compare(*numbers)

        return holds

    def read_number(self, node: ast.expr) -> Callable[[Values], Any]:
        match node:
            case ast.Constant(number) if type(number) is int:
                return lambda _: number
            case ast.Name(word) if word == COUNT:
                return self.add(node, lambda book: len(book.entries))
            case ast.Attribute(_, field) if field in COUNTS:
                return self.read_field(node)
        raise self.error(node, "a whole number, count, NAME.helpful or NAME.harmful")

    def read_field(self, node: ast.Attribute) -> Callable[[Values], Any]:
        name, field = self.read_name(node.value), node.attr
        # An update that counts a rating and prunes by it leaves no moment with that count; the entry that left has it,
        # and a name never used has none.
        return self.add(node, lambda book: getattr(book.entries.get(name) or book.gone.get(name), field, None))

    def read_name(self, node: ast.expr) -> str:
        match node:
            case ast.Name(name) | ast.Constant(str(name)) if name:
                self.names.add(name)
                return name
        raise self.error(node, "the name of an entry")

    def add(self, node: ast.expr, value: Callable[[Playbook], Any]) -> Callable[[Values], Any]:
        """Add a term to those of the condition, and return the function that gives its value."""
        term = ast.unparse(node)
        self.terms[term] = value
        return operator.itemgetter(term)


def parse(text: str) -> Condition:
    """Parse a condition.

    Raises:
        BadInputError: The text is not a condition; the message names the position of the first mistake.
    """
    if len(text) > MAX_CHARS:
        raise _refuse(MAX_CHARS + 1, f"{len(text):,} characters, more than {MAX_CHARS:,}")
    # Python takes blanks before an expression for an indented block.
    reader = _Reader(source := text.strip())
    # Line breaks and halves of surrogate pairs are among these.
    if odd := next((char for char in source if not char.isprintable()), ""):
        raise _refuse(source.index(odd) + 1, f"{odd!r} has no meaning here")
    try:
        with warnings.catch_warnings():
            # Such as of an unknown escape in quotes.
            warnings.simplefilter("ignore")
            expression = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # Python gives no place for the end.
        place = getattr(error, "offset", 0) or len(source) + 1
        raise _refuse(place, "the condition cannot be read from here on") from error
    holds = reader.read_test(expression)
    return Condition(text, reader.terms, frozenset(reader.names), holds)


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
        holds = condition.holds(after)
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
