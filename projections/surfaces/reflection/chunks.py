"""The pieces of a session: as much of its transcripts as a model reflects on at once."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger import clock
from tallybook.ledger.events import PointCited, PointNoted, TranscriptRead
from tallybook.projections.playbook.inject import one_line
from tallybook.projections.reflections import NO_RATER, ReadPosition
from tallybook.projections.surfaces.hooks import citations, handler
from tallybook.projections.surfaces.reflection import transcript
from tallybook.projections.surfaces.writing import secrets
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from tallybook.projections.surfaces.reflection.transcript import Line

PIECE_CHARS: Final = 100_000
"""Most characters of a piece; a longer session is reflected on in several."""
QUOTE_CHARS: Final = 200
QUOTES_PER_ENTRY: Final = 3
"""Most quotes of one entry in a piece."""

# A transcript may begin with lines without an id.
_HEAD_LINES: Final = 100


@attrs.define
class Piece:
    """A part of a session, reflected on at once.

    Attributes:
        room: How many more characters fit.
        lines: Its turns as a model reads them.
        reads: The parts of transcripts that it consists of.
        quotes: The agent's words around citations of entries.
        citations: Requests to record the entries that messages name, each message once, whether or not a hook did:
            the agent's hooks see only the last message of a turn.
        at: When its last turn was written, as the ledger writes it; None where that is unknown.
        is_last: Whether nothing of the session is left after it.
        unknown: How many of its lines are of no form that is known.
    """

    room: int = attrs.field(eq=False)
    lines: list[str] = attrs.field(factory=list)
    reads: list[TranscriptRead] = attrs.field(factory=list)
    quotes: list[PointNoted] = attrs.field(factory=list)
    citations: list[Request] = attrs.field(factory=list)
    at: str | None = None
    is_last: bool = True
    unknown: int = 0

    @property
    def text(self) -> str:
        """Return the turns as one text, empty without any."""
        return "\n".join(self.lines)


@attrs.frozen
class Unread:
    """What of a session is left to read, and for which rater.

    Attributes:
        session: The session.
        path: The session's own transcript.
        rater: The rater that reads it.
        position: How far that rater has read.
        searched_to: How far any rater has searched for citations.
        known_uuids: Ids of the last line of each earlier read, in any session: lines up to one of them are a copy.
        request_end: Length of the session's own transcript up to which reflection was requested, in bytes.
        names: The entries that can be cited.
        others: Transcripts of other sessions → how far the rater read them: this one may begin with a copy of one.
        max_chars: Most characters of a piece.
        find_given: Returns which of some entries the session's lineage was given; by default none was.
    """

    session: str
    path: Path
    rater: str
    position: ReadPosition
    searched_to: ReadPosition
    known_uuids: Collection[str]
    request_end: int
    names: Collection[str]
    others: Mapping[Path, int] = attrs.field(factory=dict)
    max_chars: int = PIECE_CHARS
    find_given: Callable[[frozenset[str]], Collection[str]] = lambda _: ()


def next_piece(unread: Unread) -> Piece:
    """Return the next piece: at least one line where there is any, whatever its length.

    Raises:
        OSError: The session's transcript cannot be read.
    """
    piece = Piece(unread.max_chars)
    piece.is_last = all(_add_file(piece, unread, file, path) for file, path in transcript.files_of(unread.path).items())
    return piece


def all_pieces(unread: Unread) -> Iterator[Piece]:
    """Yield every piece that is left.

    Raises:
        OSError: The session's transcript cannot be read.
    """
    is_last = False
    while not is_last:
        piece = next_piece(unread)
        is_last = piece.is_last
        if piece.reads:
            yield piece
        position = unread.position
        for read in piece.reads:
            position = position.through(read)
        unread = attrs.evolve(unread, position=position)


def _add_file(piece: Piece, unread: Unread, file: str, path: Path) -> bool:
    """Add what is left of one transcript; return False where the piece is full before its end."""
    size = transcript.size_of(path)
    begin = _begin(unread, file, path, size)
    end, last_uuid, is_full, is_silent = begin, "", False, begin == 0
    searched_to = unread.searched_to.end.get(file, 0)
    # A shorter file is another one under the same name.
    searched_to = searched_to if searched_to <= size else 0
    for line in transcript.lines(path, begin, transcript.reader_of(unread.path)):
        is_silent = is_silent and not line.turns
        texts = [] if unread.rater == NO_RATER else _format_line(line, file)
        length = sum(map(len, texts)) + len(texts)
        is_full = length > piece.room and bool(piece.lines)
        if is_full:
            break
        piece.room -= length
        piece.lines += texts
        if line.begin >= searched_to:
            _add_citations(piece, line, file, unread)
        piece.at = _ledger_time(line.at) or piece.at
        piece.unknown += line.is_unknown
        end, last_uuid = line.end, line.uuid or last_uuid
    seen = end if is_full else max(size, end, 0 if file else unread.request_end)
    # A session that ended before any prompt: nothing of it was read, and what it was given was given to nobody.
    end = 0 if is_silent else end
    if end > begin or (not file and seen > unread.position.length):
        piece.reads.append(TranscriptRead(file, begin, end, seen, last_uuid, unread.rater))
    return not is_full


def _format_line(line: Line, file: str) -> list[str]:
    return [transcript.format_turn(turn, subagent=bool(file) or line.sidechain) for turn in line.turns]


def _begin(unread: Unread, file: str, path: Path, size: int) -> int:
    """Return where the unread part begins: after what was read, here or in a session that this one continues."""
    begin = unread.position.end.get(file, 0)
    if 0 < begin <= size:
        return begin
    # A shorter file is another one under the same name.
    known = {*unread.known_uuids, *(() if file else _uuids_read_elsewhere(unread, path))}
    lines = transcript.lines(path, 0, transcript.reader_of(unread.path)) if known else iter(())
    return max((line.end for line in lines if line.uuid in known), default=0)


def _uuids_read_elsewhere(unread: Unread, path: Path) -> Iterator[str]:
    """Yield the ids of lines that were read in sessions which begin with the same line."""
    first = _first_uuid(path)
    for other, end in unread.others.items():
        with suppress(OSError):
            if first and end and other != path and _first_uuid(transcript.locate(other)) == first:
                read = transcript.lines(transcript.locate(other))
                yield from (line.uuid for line in read if line.uuid and line.end <= end)


def _first_uuid(path: Path) -> str:
    # What is taken back later has an id as well.
    reader = transcript.reader_of(path)._replace(undo_mark=b"")
    return next((line.uuid for line in islice(transcript.lines(path, 0, reader), _HEAD_LINES) if line.uuid), "")


def _ledger_time(at: str) -> str | None:
    """Return a transcript's time as the ledger writes it, None where it is not a time in UTC."""
    text = at.removesuffix("Z")
    text = f"{text if '.' in text else text + '.'}{'0' * 6}"
    try:
        return clock.moment(clock.to_unix_us(f"{text[:26]}Z")).at if at.endswith("Z") else None
    except (ValueError, OverflowError, OSError):
        return None


def _add_citations(piece: Piece, line: Line, file: str, unread: Unread) -> None:
    """Add the agent's words around each entry that it cited, and which entries its messages name."""
    for turn in line.turns:
        cited = quote_citations(turn.whole, unread.names)
        # What the session was given elsewhere, as another project's entry of that name, is no citation here.
        given = unread.find_given(frozenset(cited)) if cited else ()
        cited = {name: quote for name, quote in cited.items() if name in given}
        for name, quote in cited.items():
            if sum(note.name == name for note in piece.quotes) < QUOTES_PER_ENTRY:
                where = "" if turn.where == transcript.MESSAGE else f" ({turn.where})"
                piece.quotes.append(PointNoted(name, f"cited: {quote}{where}"))
        subagent = file.removeprefix(transcript.SUBAGENT) or line.subagent
        # A line of a subagent in the session's own transcript may not say which subagent it is.
        if cited and turn.occasion and (subagent or not line.sidechain):
            by = {"rater": "tallybook", "session": unread.session} | ({"agent": subagent} if subagent else {})
            action = PlainEvents(tuple(PointCited(name, transcript.MESSAGE) for name in cited))
            key = handler.citation_key(unread.session, subagent, turn.occasion)
            piece.citations.append(Request(action, by, key, _ledger_time(line.at)))


def quote_citations(text: str, names: Collection[str]) -> dict[str, str]:
    """Return each entry that a text cites, with the words around its first citation, masked."""
    if not citations.find_cited(text, names):
        return {}
    # Masked before it is cut, as half of a secret is not recognised.
    text = secrets.mask(text).text
    return {name: _quote(text, begin) for name, (begin, _) in citations.find_cited(text, names).items()}


def _quote(text: str, place: int) -> str:
    begin = max(place - QUOTE_CHARS // 2, 0)
    return f"“{' '.join(one_line(text[begin : begin + QUOTE_CHARS]).split())}”"
