"""The messages of a stream that holds a book: a run is one message, or several parts that directly follow one another.

Standard library only; nothing here connects to a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tallybook.ledger.line import GENESIS
from tallybook.ledger.sharing.engines.engine import End, Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

FROM, TO, BEFORE, AFTER = "Tallybook-From", "Tallybook-To", "Tallybook-Before", "Tallybook-After"
PART, PARTS = "Tallybook-Part", "Tallybook-Parts"
TOP = "Tallybook-Top"
"""The largest event number that this message or any before it states. Its writer knows it, because it is appended
directly after a message that its writer read. It never falls, so that a place is found without reading the stream."""
NEXT = "Tallybook-Next"
"""In the last message of a stream that was replaced: the name of the stream that holds the book from then on."""


class Piece(NamedTuple):
    """A message of a book's stream.

    Attributes:
        seq: Its sequence in the stream.
        run: The run as its headers state it, with the bytes of this message; None for a message without our headers.
        part: The number of this part of the run, from 1.
        parts: How many parts the run has.
        top: The largest event number that this message or any before it states.
        next: The name of the stream that took this one's place; empty for every other message.
    """

    seq: int
    run: Run | None
    part: int = 1
    parts: int = 1
    top: int = 0
    next: str = ""


class Token(NamedTuple):
    """What an append compares, as the text of `End.token`.

    Attributes:
        generation: Drawn anew for each stream, and part of its subject, so that no other stream takes the append.
        seq: The sequence of its last message.
        top: As in `Piece`, of that message.
    """

    generation: str
    seq: int
    top: int

    def __str__(self) -> str:
        """Return the text."""
        return f"{self.generation}:{self.seq}:{self.top}"

    @classmethod
    def parse(cls, text: str) -> Token | None:
        """Return the token of a text, None where it is not one of this engine."""
        generation, _, numbers = text.partition(":")
        seq, _, top = numbers.partition(":")
        if not (generation and _is_number(seq) and _is_number(top)):
            return None
        return cls(generation, int(seq), int(top))


def _is_number(text: str) -> bool:
    # Sixteen digits are more than any stream has; int() would take others and refuse thousands.
    return text.isascii() and text.isdigit() and len(text) <= 16  # noqa: PLR2004 - explained above


def read_piece(stream: str, seq: int, headers: Mapping[str, str], data: bytes) -> Piece:
    """Return the piece that a message is."""
    if headers.get(NEXT):
        stated = headers.get(TOP, "")
        return Piece(seq, None, top=int(stated) if _is_number(stated) else 0, next=headers[NEXT])
    texts = [headers.get(name, "") for name in (FROM, TO, PART, PARTS, TOP)]
    if not all(map(_is_number, texts)):
        return Piece(seq, None)
    first, last, part, parts, top = map(int, texts)
    run = Run(first, last, headers.get(BEFORE, ""), headers.get(AFTER, ""), data, f"{stream}, message {seq}")
    return Piece(seq, run, part, parts, top)


def make_messages(run: Run, top: int, size: int) -> Iterator[tuple[dict[str, str], bytes]]:
    """Yield headers and bytes of each message of a run.

    Args:
        run: The run.
        top: The largest event number before it.
        size: How many bytes a message has at most.
    """
    parts = max(1, -(-len(run.data) // size))
    for part in range(1, parts + 1):
        headers = {FROM: run.first, TO: run.last, BEFORE: run.before, AFTER: run.after}
        numbers = {PART: part, PARTS: parts, TOP: max(top, run.last)}
        yield (
            {name: str(value) for name, value in (headers | numbers).items()},
            run.data[(part - 1) * size : part * size],
        )


def join_pieces(pieces: Iterable[Piece], stream: str, top: int) -> Iterator[Run]:
    """Yield the runs of consecutive messages.

    Parts that do not directly follow one another, or are not all there, are runs of their own; their bytes do not
    have the chain value that they state, so that no reader counts them. A message without our headers is a run
    without bytes that claims the next event number.

    Args:
        pieces: The messages, in the stream's order.
        stream: The stream's name.
        top: The largest event number before them.
    """
    group: list[Piece] = []
    for piece in pieces:
        if group and not _continues(group[-1], piece):
            yield _join(group, stream)
            group = []
        if piece.run is None:
            yield from () if piece.next else [_unknown(piece, stream, top)]
            continue
        top = max(top, piece.top)
        group.append(piece)
        if piece.part == piece.parts:
            yield _join(group, stream)
            group = []
    if group:
        yield _join(group, stream)


def _continues(one: Piece, other: Piece) -> bool:
    if one.run is None or other.run is None:
        return False
    return (
        other.seq == one.seq + 1
        and (other.part, other.parts) == (one.part + 1, one.parts)
        and other.run[:4] == one.run[:4]
    )


def _join(group: list[Piece], stream: str) -> Run:
    runs = [piece.run for piece in group if piece.run]
    if len(group) == group[0].parts:
        place = runs[0].place if len(runs) == 1 else f"{stream}, messages {group[0].seq} to {group[-1].seq}"
    else:
        place = f"{stream}, messages {group[0].seq} to {group[-1].seq}: {len(group)} of {group[0].parts} parts"
    return runs[0]._replace(data=b"".join(run.data for run in runs), place=place)


def _unknown(piece: Piece, stream: str, top: int) -> Run:
    return Run(top + 1, top + 1, "", "", b"", f"{stream}, message {piece.seq}: no message of a book")


def find_end(pieces: Iterable[Piece], generation: str) -> End:
    """Return the end that the last of some messages gives a stream.

    A message without our headers states nothing, so the end is that of the one before it; an append comes after both.
    """
    seq = top = last = 0
    chain = GENESIS
    for piece in pieces:
        seq, top = piece.seq, max(top, piece.top)
        if piece.run:
            last, chain = piece.run.last, piece.run.after
    return End(last, chain, str(Token(generation, seq, top)))
