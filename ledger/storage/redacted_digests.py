"""Redacted texts that must not come back: keyed digests of them, in one private file of the ledger's folder.

The file holds no text. It is never shared: git ignores its folder even where the ledger is tracked, and its key is
random, so the digests of two ledgers cannot be compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
import json
from pathlib import Path
import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import clock
from tallybook.ledger.errors import EXIT_NO, CannotWriteError, TallybookError
from tallybook.ledger.events import Event, PointNoted
from tallybook.ledger.fast_stdlib import dumps, import_lazily
from tallybook.ledger.storage import disk

if TYPE_CHECKING:
    import hashlib

    from tallybook.ledger.decisions.legacy_import import LegacyFile
    from tallybook.ledger.decisions.update import RefusedText
else:
    # Most ledgers have nothing redacted.
    [hashlib] = import_lazily("hashlib")

FOLDER: Final = "redacted"
NAME: Final = "digests.json"
MIN_TEXT_CHARS: Final = 4
"""A shorter text would match much that should stay."""
MIN_PART_CHARS: Final = 8
"""A shorter redacted text is recognised only as whole words."""
_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = 16
_CHAR_BYTES: Final = 4
_WORD: Final = re.compile(r"\w")
_SPACE: Final = re.compile(r"\s+")
# Control characters, and those that nothing shows although Unicode does not call them formatting.
_INVISIBLE: Final = re.compile(
    "[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
_WAY_BACK: Final = "a person can add it with `tallybook add --again`"


def normalize_look(text: str) -> str:
    """Return what is equal for texts that look the same.

    Composed and compatible characters are one, white space is one blank, and invisible characters are left out.
    """
    if not text.isascii():
        import unicodedata  # noqa: PLC0415 - rarely needed

        hidden = dict.fromkeys(ord(char) for char in set(text) if unicodedata.category(char) == "Cf")
        text = unicodedata.normalize("NFKC", text.translate(hidden))
    return _SPACE.sub(" ", _INVISIBLE.sub("", text))


class RedactedTextError(TallybookError):
    """A text was redacted and must not come back."""

    exit_code = EXIT_NO

    def __init__(self, what: str, why: str) -> None:
        """Name the place of the text, and the reason."""
        super().__init__(f"{what}: {why}; nothing was recorded")


@attrs.frozen
class Redaction:
    """A redaction of one text.

    Attributes:
        at: When, UTC.
        event: Id of the event that had the text; empty where only files had it.
    """

    at: str
    event: str = ""


_NO_REDACTION: Final = Redaction("")


@attrs.define
class Redactions:
    """The redacted texts of a ledger, as digests.

    Attributes:
        key: The ledger's own random key.
        digests: Length of a text that was redacted wherever it occurred, in characters, or 0 for the whole text of an
            event, and its digest → its redaction.
        accepted: Digests of whole texts that a person added again.
    """

    key: bytes
    digests: dict[tuple[int, str], Redaction] = attrs.field(factory=dict)
    accepted: set[str] = attrs.field(factory=set)

    def digest(self, text: str) -> str:
        """Return the digest of a text under this ledger's key."""
        return hashlib.blake2b(_encode(text), key=self.key, digest_size=_DIGEST_BYTES).hexdigest()

    def whole_digests(self, text: str) -> set[str]:
        """Return the digests of a whole text: as it is, and as it looks."""
        return {self.digest(form.strip()) for form in (text, normalize_look(text))}

    def refusal(self, text: str) -> str | None:
        """Return why a new text is refused, and which redaction it was; None where it may be recorded."""
        if not self.digests:
            return None
        wholes = self.whole_digests(text)
        # A person accepted this text as a whole, and no other text that contains the redacted words.
        if not self.accepted.isdisjoint(wholes):
            return None
        forms = dict.fromkeys((text, normalize_look(text)))
        parts = (redaction for form in forms for redaction in self._find_parts(form))
        known = (self.digests[0, whole] for whole in wholes if (0, whole) in self.digests)
        redaction = next(known, None) or next(parts, None)
        if redaction is None:
            return None
        return f"the text was redacted on {redaction.at[:10]}; {_WAY_BACK}"

    def check(self, what: str, text: str | None) -> None:
        """Refuse a text that was redacted.

        Raises:
            RedactedTextError: It was.
        """
        if text and (why := self.refusal(text)) is not None:
            raise RedactedTextError(what, why)

    def former(self, text: str) -> str:
        """Return the id of the event that had exactly this text when it was redacted; empty for none."""
        return self.digests.get((0, self.digest(text.strip())), _NO_REDACTION).event

    def _find_parts(self, text: str) -> Iterator[Redaction]:
        """Yield the redaction of each part of a text that was redacted wherever it occurred."""
        # Local names, because the inner loop runs once for each character of each new text.
        data, digests, blake2b, key, size = _encode(text), self.digests, hashlib.blake2b, self.key, _DIGEST_BYTES
        for chars in dict.fromkeys(chars for chars, _ in self.digests):
            for begin in range(len(text) - chars + 1 if chars else 0):
                end = begin + chars
                if chars < MIN_PART_CHARS and not _is_whole(text, begin, end):
                    continue
                part = data[begin * _CHAR_BYTES : end * _CHAR_BYTES]
                place = chars, blake2b(part, key=key, digest_size=size).hexdigest()
                if place in digests:
                    yield digests[place]

    def refusal_in_json(self, data: str) -> str | None:
        """Return why JSON is refused that has a redacted text in any of its strings; None where it has none."""
        if not self.digests:
            return None
        unchecked: list[Any] = [data]
        with suppress(ValueError, RecursionError):
            unchecked.append(json.loads(data))
        while unchecked:
            value = unchecked.pop()
            if isinstance(value, str) and (reason := self.refusal(value)) is not None:
                return reason
            if isinstance(value, dict):
                unchecked += (*value, *value.values())
            elif isinstance(value, list):
                unchecked += value
        return None

    def filter_legacy(self, legacy: LegacyFile) -> tuple[LegacyFile, tuple[RefusedText, ...]]:
        """Return a file without redacted texts in its entries, items and top-level keys, and what was left out."""
        # A reading command loads no decisions.
        from tallybook.ledger.decisions.update import RefusedText  # noqa: PLC0415 - as above

        refused: list[RefusedText] = []

        def is_allowed(place: str, text: str) -> bool:
            if (reason := self.refusal_in_json(text)) is not None:
                refused.append(RefusedText(place, reason))
            return reason is None

        items = [
            attrs.evolve(item, original=item.original if self.refusal_in_json(item.original) is None else "")
            for item in legacy.items
            if is_allowed(item.entry.name, item.entry.text)
        ]
        skipped = [item for item in legacy.skipped if is_allowed(f"item {item.index}", item.original or "")]
        top = {key: value for key, value in legacy.top_keys.items() if is_allowed(key, dumps({key: value}))}
        return attrs.evolve(legacy, items=tuple(items), skipped=tuple(skipped), top=dumps(top)), tuple(refused)

    def filter_notes(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Return events with empty notes in place of those that contain a redacted text."""
        return tuple(
            event.evolve(note="") if isinstance(event, PointNoted) and self.refusal(event.note or "") else event
            for event in events
        )


def _encode(text: str) -> bytes:
    """Return a text as bytes, the same number for each character."""
    return text.encode("utf-32-le", "surrogatepass")


def _is_whole(text: str, begin: int, end: int) -> bool:
    """Return whether a part of a text neither begins nor ends within a word."""
    before, after = text[max(begin - 1, 0) : begin], text[end : end + 1]
    return not (_WORD.match(before) or _WORD.match(after))


NO_REDACTIONS: Final = Redactions(b"")
"""Nothing was redacted."""


def load(folder: Path, *, to_change: bool = False) -> Redactions:
    """Return the redactions of a ledger; none where this user may not read them, except ``to_change`` the file.

    Raises:
        CannotWriteError: The file is damaged, so it is unknown which texts must not come back; or it is another user's
            and would be changed.
    """
    path = folder / FOLDER / NAME
    try:
        value: Any = json.loads(disk.read_file(path))
        redactions = Redactions(bytes.fromhex(value["key"]), accepted={*map(str, value["accepted"])})
        for digest, chars, at, event, *_ in value["redacted"]:
            redactions.digests[int(chars), str(digest)] = Redaction(str(at), str(event))
        # A key that blake2b does not accept is damage as well.
        redactions.digest("")
    except FileNotFoundError:
        return Redactions(clock.new_secret(_KEY_BYTES))
    except CannotWriteError as error:
        if not isinstance(error.__cause__, PermissionError):
            raise
        if to_change:
            raise CannotWriteError(path, error.reason, "its owner can redact") from error
        # In a shared ledger the file is its owner's alone; what other users record is not compared.
        return NO_REDACTIONS
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        hint = "redacted texts are not recognised without it: put it back, or delete it"
        raise CannotWriteError(path, f"cannot be read: {type(error).__name__}", hint) from error
    return redactions


def _write(folder: Path, redactions: Redactions) -> None:
    """Replace the file, durably, readable by this user alone.

    Raises:
        CannotWriteError: It is unchanged.
        OutcomeUnknownError: The disk did not confirm its name.
    """
    own = folder / FOLDER
    rows = [[digest, chars, *attrs.astuple(redaction)] for (chars, digest), redaction in redactions.digests.items()]
    value = {"key": redactions.key.hex(), "redacted": rows, "accepted": sorted(redactions.accepted)}
    disk.make_folder(own)
    # Private also in a folder that is shared: with the key others could try texts.
    if not (own / ".gitignore").exists():
        disk.replace_file(own / ".gitignore", b"*\n", private=True)
    disk.replace_file(own / NAME, dumps(value).encode(), private=True)


def remember(folder: Path, part: str | None, texts: Mapping[str, Collection[str]], at: str) -> None:
    """Note what is about to be redacted; the caller holds the ledger's lock.

    Args:
        folder: The ledger's folder.
        part: The text that is redacted wherever it occurs; None where an event is redacted.
        texts: Id of each event that is redacted → its texts.
        at: Now, UTC.

    Raises:
        CannotWriteError: It cannot be noted; nothing was redacted.
        OutcomeUnknownError: The disk did not confirm the note.
    """
    redactions = load(folder, to_change=True)
    for event, event_texts in texts.items():
        for text in event_texts:
            wholes = redactions.whole_digests(text)
            redactions.digests |= dict.fromkeys(((0, whole) for whole in wholes), Redaction(at, event))
            # A text that is redacted anew is refused anew, although a person had accepted it.
            redactions.accepted -= wholes
    if part is not None:
        redaction = Redaction(at, next(iter(texts), ""))
        look = normalize_look(part)
        # A text of which almost nothing is visible is redacted as it is, not wherever its one letter occurs.
        for form in {part, look if len(look.strip()) >= MIN_TEXT_CHARS else part}:
            redactions.digests[len(form), redactions.digest(form)] = redaction
        redactions.accepted -= redactions.whole_digests(part)
    _write(folder, redactions)


def accept(folder: Path, text: str) -> None:
    """Let a text be recorded again, from every source; the caller holds the ledger's lock.

    Raises:
        CannotWriteError: It cannot be noted.
        OutcomeUnknownError: The disk did not confirm the note.
    """
    redactions = load(folder, to_change=True)
    if redactions.refusal(text) is not None:
        redactions.accepted |= redactions.whole_digests(text)
        _write(folder, redactions)
