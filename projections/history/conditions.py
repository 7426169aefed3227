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
from collections.abc import Callable, Iterable, Sequence
from functools import cache
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
"""Term of a condition, as it has it → its value: a number, a text, a boolean, or None for a name never used."""


@attrs.frozen
class Condition:
    """A condition on a playbook.

    Attributes:
        text: As it was given.
        tree: As Python parses it.
        names: The names of the entries that it reads.
    """

    text: str
    tree: ast.expr
    names: frozenset[str]

    def evaluate(self, book: Playbook) -> tuple[bool, Values]:
        """Return whether it holds in a playbook, and the values of its terms there."""
        evaluation = _Evaluation(self.text, book)
        return evaluation.holds(self.tree), evaluation.values


def _refuse(place: int, what: str) -> BadInputError:
    hint = 'quote a name such as "pat-001"; see `tallybook bisect --help`'
    return BadInputError(f"CONDITION, character {place}", what, hint)


# A term is evaluated at every moment, and written the same way each time.
_write_term = cache(ast.unparse)


@attrs.define
class _Evaluation:
    """One evaluation of the parts of a condition; all of them are evaluated, and one that may not be there is refused.

    Attributes:
        text: The condition.
        book: The playbook.
        values: The values of the terms so far.
        names: The names so far.
    """

    text: str
    book: Playbook
    values: Values = attrs.field(factory=dict)
    names: set[str] = attrs.field(factory=set)

    def holds(self, node: ast.expr) -> bool:
        """Evaluate what is true or false."""
        match node:
            case ast.BoolOp(op, operands):
                truths = [self.holds(operand) for operand in operands]
                return all(truths) if isinstance(op, ast.And) else any(truths)
            case ast.UnaryOp(ast.Not(), operand):
                return not self.holds(operand)
            case ast.Call(ast.Name(status), [entry], []) if status in STATUSES:
                name = self._name(entry)
                is_pinned, wanted = name in self.book.pinned, STATUSES[status]
                return bool(self._note(node, self.book.status_of(name) == wanted if wanted else is_pinned))
            case ast.Compare(ast.Constant(str(words)), [ast.In()], [ast.Attribute(_, "text") as field]):
                text = self._field(field)
                return text is not None and words.casefold() in text.casefold()
            case ast.Compare(left, [ast.In()], _):
                raise self._error(left, '"words" in NAME.text')
            case ast.Compare(left, signs, others):
                pairs = zip([left, *others], signs, others, strict=False)
                truths = [self._compare(*pair) for pair in pairs]
                return all(truths)
        raise self._error(node, f'a comparison, "words" in NAME.text, or {", ".join(STATUSES)} of a NAME')

    def _compare(self, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> bool:
        if type(sign) not in COMPARED:
            raise self._error(right, "a comparison by one of > >= < <= == !=")
        numbers = self._number(left), self._number(right)
        # With the value of a name never used every comparison is false.
        return None not in numbers and COMPARED[type(sign)](*numbers)

    def _number(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(number) if type(number) is int:
                return number
            case ast.Name(word) if word == COUNT:
                return self._note(node, len(self.book.entries))
            case ast.Attribute(_, field) if field in COUNTS:
                return self._field(node)
        raise self._error(node, "a whole number, count, NAME.helpful or NAME.harmful")

    def _field(self, node: ast.Attribute) -> Any:
        name = self._name(node.value)
        # An update that counts a rating and prunes by it leaves no moment with that count; the entry that left has it,
        # and a name never used has none.
        return self._note(node, getattr(self.book.entries.get(name) or self.book.gone.get(name), node.attr, None))

    def _name(self, node: ast.expr) -> str:
        match node:
            case ast.Name(name) | ast.Constant(str(name)) if name:
                self.names.add(name)
                return name
        raise self._error(node, "the name of an entry")

    def _note(self, node: ast.expr, value: Any) -> Any:
        self.values[_write_term(node)] = value
        return value

    def _error(self, node: ast.expr, expected: str) -> BadInputError:
        # Python counts bytes.
        return _refuse(len(self.text.encode()[: node.col_offset].decode()) + 1, f"expected {expected}")


def parse(text: str) -> Condition:
    """Parse a condition.

    Raises:
        BadInputError: The text is not a condition; the message names the position of the first mistake.
    """
    if len(text) > MAX_CHARS:
        raise _refuse(MAX_CHARS + 1, f"{len(text):,} characters, more than {MAX_CHARS:,}")
    # Python takes blanks before an expression for an indented block.
    source = text.strip()
    # Line breaks and halves of surrogate pairs are among these.
    if odd := next((char for char in source if not char.isprintable()), ""):
        raise _refuse(source.index(odd) + 1, f"{odd!r} has no meaning here")
    try:
        with warnings.catch_warnings():
            # Such as of an unknown escape in quotes.
            warnings.simplefilter("ignore")
            tree = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # Python gives no place for the end.
        place = getattr(error, "offset", 0) or len(source) + 1
        raise _refuse(place, "the condition cannot be read from here on") from error
    # Every part is evaluated, so that one that is not a condition is found in any playbook.
    first = _Evaluation(source, Playbook())
    first.holds(tree)
    return Condition(text, tree, frozenset(first.names))


def search(condition: Condition, read: Read, begin: int = 0, *, last: bool = False) -> dict[str, Any]:
    """Find the first moment at which a condition holds that did not hold at the moment before.

    Each moment is what ``show --at`` shows for it, so events undone later still count. At an undo the playbook is
    therefore folded again up to there.

    Args:
        condition: The condition.
        read: Returns history from the beginning.
        begin: The moment after which the search starts.
        last: Whether to go on to the last such moment.

    Returns:
        ``{condition, moment, event, before, after, began}``: the moment and the event, as ``brief`` returns it, None
        where the condition never became true; each term with its value before and after that moment, or at the end; and
        whether the condition held at the start of the search.
    """
    undos: list[EventRecord] = []
    turn: tuple[Batch, int, Values, Values] | None = None
    book = fold.fold_history(PLAYBOOK, read, begin)
    began, after = condition.evaluate(book)
    holds = began
    for batch in read():
        # Those before the beginning as well: later moments are shown without what they undid.
        undos += (batch_undos := fold.undos_in(batch))
        if batch.last <= begin:
            continue
        if batch_undos:
            book = _playbook_at(read, undos, batch.last)
        else:
            fold.fold(PLAYBOOK, [batch], book)
        before, held = after, holds
        holds, after = condition.evaluate(book)
        if holds and not held:
            turn = (batch, len(undos), before, after)
            if not last:
                break
    moment, event, before = None, None, after
    if turn is not None:
        batch, number, before, after = turn
        record = _find_event(condition, read, batch, undos[:number])
        moment, event = batch.last, event_rows.brief(record)
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
            held, holds = holds, condition.evaluate(book)[0]
            deciding = record if holds and not held else deciding
    return deciding
