"""The pieces of a session: as much of its transcripts as a model reflects on at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from tallybook.ledger.events import PointCited, TranscriptRead
from tallybook.projections.playbook.view import AGENT
from tallybook.projections.reflections import NO_RATER, ReadPosition
from tallybook.projections.surfaces.hooks import citations, handler
from tallybook.projections.surfaces.reflection import transcript
from tallybook.projections.surfaces.reflection.marks import MarkedMessage, read_marks
from tallybook.projections.surfaces.reflection.transcript import Line
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

PIECE_CHARS: Final = 100_000
"""Most characters of a piece; a longer session is reflected on in several."""


@attrs.define
class Piece:
    """A part of a session, reflected on at once.

    Attributes:
        room: How many more characters fit.
        lines: Its turns as a model reads them.
        reads: The parts of transcripts that it consists of.
        citations: Requests to record the entries that messages name, each message once, whether or not a hook did:
            the agent's hooks see only the last message of a turn.
        marked: The agent's messages with marks.
        at: When its last turn was written, as the ledger writes it; None where that is unknown.
        is_last: Whether nothing of the session is left after it.
        unknown: How many of its lines are of no form that is known.
    """

    room: int = attrs.field(eq=False)
    lines: list[str] = attrs.field(factory=list)
    reads: list[TranscriptRead] = attrs.field(factory=list)
    citations: list[Request] = attrs.field(factory=list)
    marked: list[MarkedMessage] = attrs.field(factory=list)
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
        find_given: Returns which of some entries the session's lineage was given, or a subagent of it by its id; by
            default none was.
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
    find_given: Callable[[frozenset[str], str], Collection[str]] = lambda _names, _subagent: ()


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
        is_subagents = bool(file) or line.is_subagents
        turns = () if unread.rater == NO_RATER else line.turns
        texts = [transcript.format_turn(turn, subagent=is_subagents) for turn in turns]
        length = sum(map(len, texts)) + len(texts)
        is_full = length > piece.room and bool(piece.lines)
        if is_full:
            break
        piece.room -= length
        piece.lines += texts
        if line.begin >= searched_to:
            _add_messages(piece, line, file, unread)
        piece.at = transcript.ledger_time(line.at) or piece.at
        piece.unknown += line.is_unknown
        end, last_uuid = line.end, line.uuid or last_uuid
    seen = end if is_full else max(size, end, 0 if file else unread.request_end)
    # A session that ended before any prompt: nothing of it was read, and what it was given was given to nobody.
    end = 0 if is_silent else end
    if end > begin or (not file and seen > unread.position.length):
        piece.reads.append(TranscriptRead(file, begin, end, seen, last_uuid, unread.rater))
    return not is_full


def _begin(unread: Unread, file: str, path: Path, size: int) -> int:
    """Return where the unread part begins: after what was read, here or in a session that this one continues."""
    begin = unread.position.end.get(file, 0)
    if 0 < begin <= size:
        return begin
    # A shorter file is another one under the same name.
    others = {} if file else {other: end for other, end in unread.others.items() if end}
    known = {*unread.known_uuids, *transcript.copied_uuids(path, others)}
    lines = transcript.lines(path, 0, transcript.reader_of(unread.path)) if known else iter(())
    return max((line.end for line in lines if line.uuid in known), default=0)


def _add_messages(piece: Piece, line: Line, file: str, unread: Unread) -> None:
    """Add which entries the agent's messages cite and rate, of those that it was given.

    A line of a subagent in the session's own transcript may not say which subagent it is; nothing of it counts.
    """
    subagent = file.removeprefix(transcript.SUBAGENT) or line.subagent
    for turn in line.turns if subagent or not line.is_subagents else ():
        if not turn.occasion:
            continue
        cited = citations.find_cited(turn.whole, unread.names)
        marks = read_marks(turn.whole, unread.names)
        when = transcript.ledger_time(line.at)
        # What the session was given elsewhere, as another project's entry of that name, is no citation here.
        given = unread.find_given(frozenset(cited), "") if cited else ()
        if names := [name for name in cited if name in given]:
            by = {"rater": "tallybook", "session": unread.session} | ({"agent": subagent} if subagent else {})
            key = handler.citation_key(unread.session, subagent, turn.occasion)
            content = PlainEvents(tuple(PointCited(name, transcript.MESSAGE) for name in names))
            piece.citations.append(Request(content, by, key, when))
        rated = frozenset(mark.name for mark in marks.ratings)
        # A subagent votes on what it was given itself.
        given = unread.find_given(rated, subagent) if rated else ()
        ratings = tuple(mark for mark in marks.ratings if mark.name in given)
        if ratings or marks.lessons:
            by = {
                "rater": AGENT,
                "session": unread.session,
                "agent": subagent or transcript.reader_of(unread.path).agent,
            }
            key = f"marks:{unread.session}:{subagent}:{turn.occasion}"
            piece.marked.append(MarkedMessage(ratings, marks.lessons, turn.whole, by, key, when))
