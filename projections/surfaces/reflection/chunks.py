"""What of a session is reflected on at once: stretches of its transcripts, as much as a model is asked at a time."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
import re
from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger import clock
from tallybook.ledger.events import PointNoted, TranscriptRead
from tallybook.projections.playbook.inject import one_line
from tallybook.projections.reflections import NO_RATER, ReadPosition
from tallybook.projections.surfaces.reflection import transcript
from tallybook.projections.surfaces.writing import secrets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from tallybook.projections.surfaces.reflection.transcript import Line

PIECE_CHARS: Final = 100_000
"""What a model is asked about at once; a longer session is reflected on in several pieces."""
QUOTE_CHARS: Final = 200
QUOTES_A_POINT: Final = 3
"""Quotes of one entry that one piece keeps."""

# Lines without an id that a transcript may begin with.
_HEAD_LINES: Final = 100
_CITED: Final = re.compile(r"\[([^\[\]\n]{1,200})\]")


@attrs.frozen
class Citation:
    """The entries that one message of the agent's names.

    Attributes:
        names: Their names.
        subagent: Id of the subagent that wrote it, empty in the session itself.
        occasion: What names the message in the idempotency key.
        at: When it was written, as the ledger writes it; None where that is not known.
    """

    names: tuple[str, ...]
    subagent: str
    occasion: str
    at: str | None


@attrs.frozen
class Piece:
    """What is reflected on at once.

    Attributes:
        text: What was said, a line a turn; empty where nobody said anything.
        stretches: What of which transcript it is.
        quotes: What the agent said where it cited an entry.
        at: When the last of it was said, as the ledger writes it; None where that is not known.
        whole: Whether nothing is left behind it.
        citations: The entries that messages name: the agent's hooks see the last message of a turn alone.
    """

    text: str
    stretches: tuple[TranscriptRead, ...]
    quotes: tuple[PointNoted, ...] = ()
    at: str | None = None
    whole: bool = True
    citations: tuple[Citation, ...] = ()


@attrs.define
class _Gathered:
    """What a piece has so far."""

    room: int
    told: list[str] = attrs.field(factory=list)
    stretches: list[TranscriptRead] = attrs.field(factory=list)
    quotes: list[PointNoted] = attrs.field(factory=list)
    citations: list[Citation] = attrs.field(factory=list)
    at: str | None = None


@attrs.frozen
class Asked:
    """What is to be read, and for whom.

    Attributes:
        path: The session's own transcript.
        rater: Who judges it.
        reached: How far that rater was.
        heard: How far it was searched for citations.
        lasts: Last lines of what was read, here or in another session: what stands up to one of them is a copy.
        upto: Length of the session's own transcript up to which it is owed, in bytes.
        names: The entries that may be cited.
        others: Transcripts of other sessions → how far the rater was in them: this one may go on from a copy of one.
        chars: How much at once.
    """

    path: Path
    rater: str
    reached: ReadPosition
    heard: ReadPosition
    lasts: Collection[str]
    upto: int
    names: Collection[str]
    others: Mapping[Path, int] = attrs.field(factory=dict)
    chars: int = PIECE_CHARS


def next_piece(asked: Asked) -> Piece:
    """Return what is to be reflected on next: at least one line where there is any, whatever its length.

    Raises:
        OSError: The session's transcript cannot be read.
    """
    gathered = _Gathered(asked.chars)
    for file, path in transcript.files_of(asked.path).items():
        if not _gather(gathered, asked, file, path):
            return _piece(gathered, whole=False)
    return _piece(gathered, whole=True)


def _piece(gathered: _Gathered, *, whole: bool) -> Piece:
    return Piece(
        "\n".join(gathered.told),
        tuple(gathered.stretches),
        tuple(gathered.quotes),
        gathered.at,
        whole,
        tuple(gathered.citations),
    )


def _gather(gathered: _Gathered, asked: Asked, file: str, path: Path) -> bool:
    """Take in what one transcript holds behind what was read of it; False where the room ended first."""
    size = path.stat().st_size
    begin = _begin(asked, file, path, size)
    end, last, ended = begin, "", True
    heard = asked.heard.end.get(file, 0)
    heard = heard if heard <= size else 0
    for line in transcript.lines(path, begin):
        told = [] if asked.rater == NO_RATER else _told(line, file)
        length = sum(map(len, told)) + len(told)
        if length > gathered.room and gathered.told:
            ended = False
            break
        gathered.room -= length
        gathered.told += told
        if line.begin >= heard:
            _keep_quotes(gathered, line, file, asked.names)
        gathered.at = _moment(line.at) or gathered.at
        end, last = line.end, line.uuid or last
    seen = max(size, end, 0 if file else asked.upto) if ended else end
    if end > begin or (not file and seen > asked.reached.length):
        gathered.stretches.append(TranscriptRead(file, begin, end, seen, last, asked.rater))
    return ended


def _told(line: Line, file: str) -> list[str]:
    return [transcript.told(turn, subagent=bool(file) or line.sidechain) for turn in line.turns]


def _begin(asked: Asked, file: str, path: Path, size: int) -> int:
    """Return where the unread part begins: behind what was read, here or in a session that this one goes on from."""
    begin = asked.reached.end.get(file, 0)
    if begin > size:
        # Another file under the same name.
        begin = 0
    if begin:
        return begin
    known = {*asked.lasts, *(_read_elsewhere(asked, path) if not file else ())}
    return max((line.end for line in transcript.lines(path) if line.uuid in known), default=0) if known else 0


def _read_elsewhere(asked: Asked, path: Path) -> Iterator[str]:
    """Yield the ids of lines that were read in sessions which begin as this one does."""
    first = _first_uuid(path)
    for other, end in asked.others.items():
        with suppress(OSError):
            if first and end and other != path and other.is_file() and _first_uuid(other) == first:
                yield from (line.uuid for line in transcript.lines(other) if line.uuid and line.end <= end)


def _first_uuid(path: Path) -> str:
    return next((line.uuid for line in islice(transcript.lines(path), _HEAD_LINES) if line.uuid), "")


def _moment(at: str) -> str | None:
    """Return a transcript's time as the ledger writes it, None where it is no time in UTC."""
    text = at.removesuffix("Z")
    text = f"{text if '.' in text else text + '.'}{'0' * 6}"
    try:
        return clock.moment(clock.to_unix_us(f"{text[:26]}Z")).at if at.endswith("Z") else None
    except (ValueError, OverflowError, OSError):
        return None


def _keep_quotes(gathered: _Gathered, line: Line, file: str, names: Collection[str]) -> None:
    """Keep what the agent said around each entry that it cited, and which entries its messages name."""
    for turn in line.turns:
        cited = citations(turn.whole, names)
        for name, quote in cited.items():
            if sum(1 for kept in gathered.quotes if kept.name == name) < QUOTES_A_POINT:
                where = "" if turn.where == transcript.MESSAGE else f" ({turn.where})"
                gathered.quotes.append(PointNoted(name, f"cited: {quote}{where}"))
        # A line of a subagent in the session's own transcript does not say which subagent it is.
        if cited and turn.occasion and (file or not line.sidechain):
            subagent = file.removeprefix(transcript.SUBAGENT)
            gathered.citations.append(Citation(tuple(cited), subagent, turn.occasion, _moment(line.at)))


def citations(text: str, names: Collection[str]) -> Mapping[str, str]:
    """Return each entry that a text cites as ``[kpt_001]``, with the words around its first citation, masked."""
    return dict(reversed([(name, quote) for name, quote in _quotes(text, names)]))


def _quotes(text: str, names: Collection[str]) -> Iterator[tuple[str, str]]:
    if not any(cited in names for cited in _CITED.findall(text)):
        return
    # Before it is cut: half of a secret is not known for one.
    text = secrets.mask(text).text
    for cited in _CITED.finditer(text):
        if cited[1] in names:
            begin = max(cited.start() - QUOTE_CHARS // 2, 0)
            words = " ".join(one_line(text[begin : begin + QUOTE_CHARS]).split())
            yield cited[1], f"“{words}”"


def all_pieces(asked: Asked) -> Iterator[Piece]:
    """Yield every piece of what is to be read, as one after another would be reflected on.

    Raises:
        OSError: The session's transcript cannot be read.
    """
    whole = False
    while not whole:
        piece = next_piece(asked)
        whole = piece.whole
        if piece.stretches:
            yield piece
        reached = asked.reached
        for stretch in piece.stretches:
            reached = reached.through(stretch)
        asked = attrs.evolve(asked, reached=reached)
