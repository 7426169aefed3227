"""Redacted texts that must not come back: keyed digests of them, in one private file of the ledger's folder.

The file holds no text. It is never shared: git ignores its folder even where the ledger is tracked, and its key is
random, so the digests of two ledgers cannot be compared.
"""

from __future__ import annotations

from contextlib import suppress
import json
import os
import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import clock
from tallybook.ledger.decisions.update import RefusedText
from tallybook.ledger.errors import EXIT_NO, CannotWriteError, TallybookError
from tallybook.ledger.events import PointNoted
from tallybook.ledger.fast_stdlib import dumps, import_lazily
from tallybook.ledger.storage import disk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    import hashlib
    from pathlib import Path

    from tallybook.ledger.decisions.legacy_import import LegacyFile
    from tallybook.ledger.events import Event
else:
    # Most ledgers have nothing redacted.
    hashlib = import_lazily("hashlib")

FOLDER: Final = "redacted"
NAME: Final = "digests.json"
MIN_PART_CHARS: Final = 8
"""A shorter redacted text is recognised as whole words alone."""
_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = 16
_CHAR_BYTES: Final = 4
_WORD: Final = re.compile(r"\w")
_WAY_BACK: Final = "a person can add it with `tallybook add --again`"


class RedactedTextError(TallybookError):
    """A text was redacted and must not come back."""

    exit_code = EXIT_NO

    def __init__(self, what: str, why: str) -> None:
        """Name the text's place and its redaction."""
        super().__init__(f"{what}: {why}; nothing was recorded")


@attrs.frozen
class Redaction:
    """What is known of a redaction of one text.

    Attributes:
        at: When, UTC.
        event: Id of the event that held the text, empty where only files held it.
        seq: Number of the event that says so, 0 where there is none yet.
    """

    at: str
    event: str = ""
    seq: int = 0


@attrs.define
class Redactions:
    """What a ledger redacted, as digests.

    Attributes:
        key: The ledger's own random key.
        texts: Digest of a whole text → its redaction.
        parts: Number of characters → digest of a text so long that was redacted wherever it stood → its redaction.
        accepted: Digests of whole texts that a person added again.
    """

    key: bytes
    texts: dict[str, Redaction] = attrs.field(factory=dict)
    parts: dict[int, dict[str, Redaction]] = attrs.field(factory=dict)
    accepted: set[str] = attrs.field(factory=set)

    def digest(self, text: str) -> str:
        """Return the digest of a text under this ledger's key."""
        return hashlib.blake2b(_encode(text), key=self.key, digest_size=_DIGEST_BYTES).hexdigest()

    def refusal(self, text: str) -> str | None:
        """Say why a new text is refused and which redaction it was, None where it may be recorded."""
        if not (self.texts or self.parts):
            return None
        whole = self.digest(text.strip())
        if whole in self.accepted:
            return None
        found = self.texts.get(whole) or next(self._find_parts(text), None)
        if found is None:
            return None
        named = f"redacted by event {found.seq}" if found.seq else f"redacted on {found.at[:10]}"
        return f"the text was {named}; {_WAY_BACK}"

    def _find_parts(self, text: str) -> Iterator[Redaction]:
        """Yield the redaction of each part of a text that was redacted wherever it stood."""
        # Once for each character of each new text.
        data, blake2b, key, size = _encode(text), hashlib.blake2b, self.key, _DIGEST_BYTES
        for chars, digests in self.parts.items():
            for begin in range(len(text) - chars + 1):
                end = begin + chars
                if chars < MIN_PART_CHARS and not _is_whole(text, begin, end):
                    continue
                part = data[begin * _CHAR_BYTES : end * _CHAR_BYTES]
                if (found := digests.get(blake2b(part, key=key, digest_size=size).hexdigest())) is not None:
                    yield found

    def refusal_in_json(self, data: str) -> str | None:
        """Say why JSON that holds a redacted text in any of its strings is refused, None where none does."""
        if not (self.texts or self.parts):
            return None
        waiting: list[Any] = [data]
        with suppress(ValueError, RecursionError):
            waiting.append(json.loads(data))
        while waiting:
            one = waiting.pop()
            if isinstance(one, str) and (why := self.refusal(one)) is not None:
                return why
            if isinstance(one, dict):
                waiting += (*one, *one.values())
            elif isinstance(one, list):
                waiting += one
        return None

    def filter_legacy(self, legacy: LegacyFile) -> tuple[LegacyFile, tuple[RefusedText, ...]]:
        """Return a file without what must not come back: entries, items and top-level keys."""
        refused: list[RefusedText] = []

        def is_kept(place: str, *said: str) -> bool:
            why = next((why for one in said if (why := self.refusal_in_json(one)) is not None), None)
            if why is not None:
                refused.append(RefusedText(place, why))
            return why is None

        items = [
            attrs.evolve(item, original=item.original if self.refusal_in_json(item.original) is None else "")
            for item in legacy.items
            if is_kept(item.point.name, item.point.text)
        ]
        skipped = [item for item in legacy.skipped if is_kept(f"item {item.index}", item.original or "")]
        top = {key: value for key, value in legacy.top_keys.items() if is_kept(key, key, dumps(value))}
        if not refused and items == [*legacy.items]:
            return legacy, ()
        return attrs.evolve(legacy, items=tuple(items), skipped=tuple(skipped), top=dumps(top)), tuple(refused)

    def filter_notes(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Return events with the notes left empty that hold what must not come back."""
        return tuple(
            attrs.evolve(event, note="")
            if isinstance(event, PointNoted) and event.note and self.refusal(event.note) is not None
            else event
            for event in events
        )


def _encode(text: str) -> bytes:
    """Return a text as bytes in which each character takes as many."""
    return text.encode("utf-32-le", "surrogatepass")


def _is_whole(text: str, begin: int, end: int) -> bool:
    """Say whether a part of a text neither begins nor ends within a word."""
    before, after = text[max(begin - 1, 0) : begin], text[end : end + 1]
    return not (_WORD.match(before) or _WORD.match(after))


NO_REDACTIONS: Final = Redactions(b"")
"""Nothing was redacted."""


def load(folder: Path) -> Redactions:
    """Return what a ledger redacted; nothing where this user may not read it.

    Raises:
        CannotWriteError: The file is damaged, so nobody knows which texts must not come back.
    """
    try:
        return _read(folder)
    except PermissionError:
        return NO_REDACTIONS


def _read(folder: Path) -> Redactions:
    """Return what a ledger redacted.

    Raises:
        CannotWriteError: The file is damaged.
        PermissionError: It is another user's.
    """
    path = folder / FOLDER / NAME
    try:
        value: Any = json.loads(disk.read_file(path))
        found = Redactions(bytes.fromhex(value["key"]), accepted={*map(str, value["accepted"])})
        for digest, chars, at, event, seq in value["redacted"]:
            redaction = Redaction(str(at), str(event), int(seq))
            (found.parts.setdefault(int(chars), {}) if chars else found.texts)[str(digest)] = redaction
        found.digest("")
    except FileNotFoundError:
        return Redactions(clock.new_secret(_KEY_BYTES))
    except CannotWriteError as error:
        if isinstance(error.__cause__, PermissionError):
            raise error.__cause__ from error
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        hint = "redacted texts are not recognised without it: put it back, or delete it"
        raise CannotWriteError(path, f"cannot be read: {type(error).__name__}", hint) from error
    return found


def _write(folder: Path, what: Redactions) -> None:
    """Replace the file, durably, readable by this user alone.

    Raises:
        CannotWriteError: It stands as it was.
    """
    own = folder / FOLDER
    rows = [[digest, 0, *attrs.astuple(one)] for digest, one in what.texts.items()]
    rows += [[digest, chars, *attrs.astuple(one)] for chars, ones in what.parts.items() for digest, one in ones.items()]
    value = {"key": what.key.hex(), "redacted": rows, "accepted": sorted(what.accepted)}
    disk.make_folder(own)
    fresh = own / f".{NAME}.{os.getpid()}.tmp"
    try:
        if not (own / ".gitignore").exists():
            _create(own / ".gitignore", b"*\n")
        _create(fresh, dumps(value).encode())
        fresh.replace(own / NAME)
        disk.flush_folder(own)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise CannotWriteError(own / NAME, disk.reason(error), "try again") from error


def _create(path: Path, data: bytes) -> None:
    """Write a new file, durably, readable by this user alone; a leftover of a killed process is replaced.

    Raises:
        OSError, CannotWriteError: It cannot be written.
    """
    with suppress(FileNotFoundError):
        path.unlink()
    fd = disk.create_file(path)
    try:
        # Also in a folder that is shared: with the key others could try texts.
        path.chmod(0o600)
        disk.write_all(fd, data, path)
        os.fsync(fd)
    finally:
        os.close(fd)


def _change(folder: Path, change: Callable[[Redactions], bool]) -> None:
    """Change what is known, under the ledger's lock.

    Raises:
        CannotWriteError: It is another user's, damaged, or could not be written.
    """
    try:
        found = _read(folder)
    except PermissionError as error:
        raise CannotWriteError(folder / FOLDER / NAME, disk.reason(error), "its owner can redact") from error
    if change(found):
        _write(folder, found)


def remember(folder: Path, part: str | None, texts: Mapping[str, Collection[str]], at: str, seq: int = 0) -> None:
    """Note what is about to be redacted; the caller holds the ledger's lock.

    Args:
        folder: The ledger's folder.
        part: The text that is redacted wherever it stands, None where an event is.
        texts: Id of each event that is redacted → its texts.
        at: Now, UTC.
        seq: Number that the event about the first of them gets if no other process appends before it; `name_events`
            corrects it.

    Raises:
        CannotWriteError: It cannot be noted; nothing was redacted.
    """

    def change(found: Redactions) -> bool:
        for index, (event, those) in enumerate(texts.items()):
            for text in those:
                digest = found.digest(text.strip())
                found.texts[digest] = Redaction(at, event, seq + index)
                found.accepted.discard(digest)
        if part is not None:
            found.parts.setdefault(len(part), {})[found.digest(part)] = Redaction(
                at, next(iter(texts), ""), seq if texts else 0
            )
            found.accepted.discard(found.digest(part.strip()))
        return True

    _change(folder, change)


def name_events(folder: Path, seqs: Mapping[str, int]) -> None:
    """Note which event says that the text of each of these events, by id, was redacted.

    Raises:
        CannotWriteError: It cannot be noted.
    """

    def named(one: Redaction) -> Redaction:
        return attrs.evolve(one, seq=seqs.get(one.event, one.seq))

    def change(found: Redactions) -> bool:
        before = dict(found.texts), {chars: dict(ones) for chars, ones in found.parts.items()}
        found.texts = {digest: named(one) for digest, one in found.texts.items()}
        found.parts = {chars: {d: named(one) for d, one in ones.items()} for chars, ones in found.parts.items()}
        return before != (found.texts, found.parts)

    _change(folder, change)


def accept(folder: Path, text: str) -> None:
    """Let a text be recorded again, from every source; the caller holds the ledger's lock.

    Raises:
        CannotWriteError: It cannot be noted.
    """

    def change(found: Redactions) -> bool:
        if found.refusal(text) is None:
            return False
        found.accepted.add(found.digest(text.strip()))
        return True

    _change(folder, change)
