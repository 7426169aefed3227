"""The prompts for a rater about a session, one per piece, and the parsing of its answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
import json
import os
from pathlib import Path
import re
from typing import Annotated, Any, Final, NamedTuple

import attrs
import msgspec

from tallybook.ledger import strict_json
from tallybook.ledger.decisions.curation import OPERATIONS
from tallybook.ledger.decisions.update import FIELDS, UNKNOWN_KEY, shorten_key
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import RATINGS, PointCited, PointNoted, TranscriptRead
from tallybook.ledger.playbook_constants import AGENT
from tallybook.projections.history.reflections import NO_RATER, ReflectedSession, Reflections
from tallybook.projections.playbook import inject
from tallybook.projections.surfaces.hooks import citations, handler
from tallybook.projections.surfaces.reflection import transcript
from tallybook.projections.surfaces.reflection.marks import MarkedMessage, read_marks
from tallybook.projections.surfaces.reflection.transcript import TranscriptLine, shorten
from tallybook.projections.surfaces.workspace.personal import load_template
from tallybook.projections.surfaces.writing import secrets
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

# The pieces of a session

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
        name: The session.
        session: What was requested and read of it.
        known: What was read of any session: lines up to the end of an earlier read are a copy.
        rater: The rater that reads it.
        names: The entries that can be cited.
        max_chars: Most characters of a piece.
        find_given: Returns which of some entries the session's lineage was given, or a subagent of it by its id; by
            default none was.
    """

    name: str
    session: ReflectedSession
    known: Reflections
    rater: str
    names: Collection[str]
    max_chars: int = PIECE_CHARS
    find_given: Callable[[frozenset[str], str], Collection[str]] = lambda _names, _subagent: ()

    @property
    def path(self) -> Path:
        """Return where the session's own transcript lies now."""
        return transcript.locate(Path(self.session.transcript or os.devnull))


def read_pieces(unread: Unread) -> Iterator[Piece]:
    """Yield the pieces that are left, each with at least one line, whatever its length.

    Raises:
        OSError: The session's transcript cannot be read.
    """
    is_last = False
    while not is_last:
        piece, files = Piece(unread.max_chars), transcript.files_of(unread.path)
        is_last = piece.is_last = all(_add_file(piece, unread, file, path) for file, path in files.items())
        if piece.reads:
            yield piece
        for read in piece.reads:
            unread = attrs.evolve(unread, session=unread.session.add_read(read))


def _add_file(piece: Piece, unread: Unread, file: str, path: Path) -> bool:
    """Add what is left of one transcript; return False where the piece is full before its end."""
    size = transcript.size_of(path)
    begin = _begin(unread, file, path, size)
    end, last_uuid, is_full, is_silent = begin, "", False, begin == 0
    searched_to = unread.session.searched_to.end.get(file, 0)
    # A shorter file is another one under the same name.
    searched_to = searched_to if searched_to <= size else 0
    for line in transcript.lines(path, begin, transcript.reader_of(unread.path)):
        is_silent = is_silent and not line.turns
        is_subagents = bool(file) or line.entry.is_subagents
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
        piece.at = transcript.ledger_time(line.entry.at) or piece.at
        piece.unknown += line.is_unknown
        end, last_uuid = line.end, line.entry.uuid or last_uuid
    seen = end if is_full else max(size, end, 0 if file else unread.session.request_end)
    # A session that ended before any prompt: nothing of it was read, and what it was given was given to nobody.
    end = 0 if is_silent else end
    if end > begin or (not file and seen > unread.session.position(unread.rater).length):
        piece.reads.append(TranscriptRead(file, begin, end, seen, last_uuid, unread.rater))
    return not is_full


def _begin(unread: Unread, file: str, path: Path, size: int) -> int:
    """Return where the unread part begins: after what was read, here or in a session that this one continues."""
    begin = unread.session.position(unread.rater).end.get(file, 0)
    if 0 < begin <= size:
        return begin
    # A shorter file is another one under the same name.
    others = {}
    for name, other in unread.known.sessions.items() if not file else ():
        end = other.position(unread.rater).end.get("", 0)
        if other.transcript and name != unread.name and end:
            others[Path(other.transcript)] = end
    read = unread.known.searched_uuids if unread.rater == NO_RATER else unread.known.reflected_uuids
    known = read | transcript.find_copied_uuids(path, others)
    lines = transcript.lines(path, 0, transcript.reader_of(unread.path)) if known else ()
    return max((line.end for line in lines if line.entry.uuid in known), default=0)


def _add_messages(piece: Piece, line: TranscriptLine, file: str, unread: Unread) -> None:
    """Add which entries the agent's messages cite and rate, of those that it was given.

    A line of a subagent in the session's own transcript may not say which subagent it is; nothing of it counts.
    """
    subagent = file.removeprefix(transcript.SUBAGENT) or line.entry.subagent
    for turn in line.turns if subagent or not line.entry.is_subagents else ():
        if not turn.occasion:
            continue
        cited = citations.find_cited(turn.whole, unread.names)
        ratings, lessons = read_marks(turn.whole, unread.names)
        when = transcript.ledger_time(line.entry.at)
        # What the session was given elsewhere, as another project's entry of that name, is no citation here.
        given = unread.find_given(frozenset(cited), "")
        if names := [name for name in cited if name in given]:
            by = {"rater": "tallybook", "session": unread.name} | ({"agent": subagent} if subagent else {})
            key = handler.citation_key(unread.name, subagent, turn.occasion)
            content = PlainEvents(tuple(PointCited(name, transcript.MESSAGE) for name in names))
            piece.citations.append(Request(content, by, key, when))
        # A subagent votes on what it was given itself.
        given = unread.find_given(frozenset(mark.name for mark in ratings), subagent)
        ratings = tuple(mark for mark in ratings if mark.name in given)
        if ratings or lessons:
            agent = subagent or transcript.reader_of(unread.path).agent
            by = {"rater": AGENT, "session": unread.name, "agent": agent}
            key = f"marks:{unread.name}:{subagent}:{turn.occasion}"
            piece.marked.append(MarkedMessage(ratings, lessons, turn.whole, by, key, when))


# The prompt about a piece, and what an answer to it says

TEMPLATE: Final = "reflection.txt"
PLAYBOOK_CHARS: Final = 40_000
"""Most characters of the playbook in a prompt; of a longer one, the entries that an agent would be given."""
PRUNED_SHOWN: Final = 50
"""Most entries that left the playbook in a prompt: the last to leave, which the model must not bring back."""
PRUNED_CHARS: Final = 300
# Claude Code and Gemini delete transcripts after 30 days: the quote is the evidence that stays.
QUOTE_CHARS: Final = 200
MAX_NEW: Final = 20
"""Most new key points in an answer; the prompt asks for five."""
MAX_OPERATIONS: Final = 5
"""Most changes of the playbook in an answer; the prompt asks for three."""

_PLACES: Final = re.compile(r"\{(playbook|pruned|transcript)\}")
_ENDS: Final = re.compile(r"<\s*/\s*(playbook|pruned|transcript)", re.IGNORECASE)
_NOTHING: Final = "(nothing)"


@attrs.frozen
class _ReplyEvaluation:
    name: Annotated[str, msgspec.Meta(min_length=1)]
    rating: Annotated[str, msgspec.Meta(pattern=rf"^({'|'.join(RATINGS)})\Z")]
    quote: str | None = None


@attrs.frozen
class ParsedReply:
    """What an answer says.

    Attributes:
        new_key_points: Texts of new entries.
        evaluations: The ratings, one an entry.
        operations: Changes of the playbook, as ``record`` takes them.
        ignored: The other parts of the answer, and why they have no effect.
    """

    new_key_points: Annotated[list[Annotated[str, msgspec.Meta(pattern=r"\S")]], msgspec.Meta(max_length=MAX_NEW)]
    evaluations: list[_ReplyEvaluation]
    operations: Sequence[Any] = ()
    ignored: tuple[str, ...] = ()

    @property
    def payload(self) -> dict[str, Any]:
        """Return ``{"new_key_points": [...], "evaluations": [{"name", "rating"}]}``, as ``record`` takes it."""
        rated = [{"name": evaluation.name, "rating": evaluation.rating} for evaluation in self.evaluations]
        return {"new_key_points": self.new_key_points, "evaluations": rated}

    @property
    def notes(self) -> Iterator[PointNoted]:
        """Yield the quotes of the evaluations that came with one."""
        for evaluation in self.evaluations:
            if quote := inject.blank_controls(evaluation.quote or "").strip():
                words = shorten(secrets.mask(quote), QUOTE_CHARS)
                yield PointNoted(evaluation.name, f"{evaluation.rating}: “{words}”")

    @property
    def result(self) -> dict[str, Any]:
        """Return the answer as an extraction result; with operations, its new key points are operations as well."""
        if not self.operations:
            return self.payload
        added = [{"type": "ADD", "text": text} for text in self.new_key_points]
        return {"operations": [*self.operations, *added], "evaluations": self.payload["evaluations"]}

    def restrict(self, names: Collection[str], texts: Collection[str] = ()) -> ParsedReply:
        """Return the answer with the evaluations of these names only, and without these new key points.

        A model rates what its prompt showed. Any other name is invented, and can be the one that a new entry gets; the
        texts are those that the prompt said not to bring back.
        """
        new = [text for text in self.new_key_points if text not in texts]
        rated = [evaluation for evaluation in self.evaluations if evaluation.name in names]
        others = [evaluation.name for evaluation in self.evaluations if evaluation.name not in names]
        ignored = (*self.ignored, *(f"the rating of {name}: the prompt did not show it" for name in others))
        return attrs.evolve(self, new_key_points=new, evaluations=rated, ignored=ignored)


class UnusableError(Exception):
    """An answer says nothing that can be recorded; the message says what is wrong with it."""


class Prompt(NamedTuple):
    """A prompt about a piece of a session.

    Attributes:
        text: The prompt.
        shown: Names of the entries in it, which alone a rater may rate.
        unwanted: Texts that must not be learned anew.
    """

    text: str
    shown: frozenset[str]
    unwanted: tuple[str, ...]


def write_prompt(
    entries: Sequence[Mapping[str, Any]], pruned: Sequence[str], session: str, withheld: Sequence[str] = ()
) -> Prompt:
    """Return the prompt for a session, by the template: its other braces stay as they are.

    Args:
        entries: The playbook's entries, each ``{name, text, helpful, harmful}``.
        pruned: Texts of entries that left the playbook, the last to leave at the end.
        session: The turns of the session.
        withheld: Texts of entries that the session was not given, so that they are not learned anew.

    Raises:
        BadInputError: The template has no place for the transcript.
    """
    template = load_template(TEMPLATE)
    # A template of the user's that forgot it would ask about nothing, and cost all the same.
    if "{transcript}" not in template:
        raise BadInputError(TEMPLATE, "has no {transcript}", "put it in the place of the session's text")
    playbook = inject.choose(entries, PLAYBOOK_CHARS)
    unwanted = (*pruned[-PRUNED_SHOWN:], *withheld)
    contents = {
        "playbook": "\n".join(playbook.lines),
        "pruned": "\n".join(f"- {shorten(inject.blank_controls(text), PRUNED_CHARS)}" for text in unwanted),
        "transcript": session,
    }
    # Data must not close the tag that marks it as data.
    text = _PLACES.sub(lambda place: _ENDS.sub(r"< /\1", contents[place[1]]) or _NOTHING, template)
    shown = inject.names_of(playbook.chosen) if "{playbook}" in template else ()
    return Prompt(text, frozenset(shown), (*pruned, *withheld))


def read_answer(text: str) -> ParsedReply:
    """Return what an answer says: the one JSON object in it; prose around it does not matter.

    Raises:
        UnusableError: It has none, or more than one, or one of another shape.
    """
    value = _parse(text)
    known = (*FIELDS, OPERATIONS)
    try:
        answer = msgspec.convert({key: value[key] for key in known if key in value}, ParsedReply)
    except msgspec.ValidationError as error:
        raise UnusableError(f"is not what the prompt asks for: {error}") from error
    names = [evaluation.name for evaluation in answer.evaluations]
    for name in names:
        # An answer in doubt is not recorded.
        if names.count(name) > 1:
            raise UnusableError(f"rates {name} twice")
    unknown = tuple(f"{secrets.mask(shorten_key(key))}: {UNKNOWN_KEY}" for key in value if key not in known)
    return attrs.evolve(answer, operations=answer.operations[:MAX_OPERATIONS], ignored=unknown)


def _parse(text: str) -> Any:
    """Return the one JSON object of an answer."""
    decoder, objects, place = json.JSONDecoder(), [], text.find("{")
    while place >= 0:
        end = place + 1
        # Prose can have braces, too.
        with suppress(ValueError, RecursionError):
            value, end = decoder.raw_decode(text, place)
            if "new_key_points" in value or "evaluations" in value:
                objects.append(text[place:end])
        place = text.find("{", end)
    if len(objects) != 1:
        raise UnusableError(f"holds {len(objects)} JSON objects" if objects else "holds no whole JSON object")
    try:
        return strict_json.loads(objects[0].encode("utf-8", "surrogatepass"), "the answer")
    except BadInputError as error:
        raise UnusableError(f"is not JSON: {error}") from error
