"""The spool: requests that wait because another process held the lock, one file each, to be recorded exactly once.

Standard library only, because hooks write to it.
"""

from __future__ import annotations

from contextlib import suppress
import os

from tallybook.ledger.clock import new_id
from tallybook.ledger.errors import CannotWriteError, Problem
from tallybook.ledger.fast_stdlib import NamedTuple, dumps
from tallybook.ledger.line import GENESIS, MAX_BATCH_BYTES, Draft, Position, Stamp, frame, normalize_key
from tallybook.ledger.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from tallybook.ledger.clock import Now
    from tallybook.ledger.fast_stdlib import StrPath

FOLDER = "spool"
# Event numbers grow until the file is recorded, and the length of each line with them.
_FAR = Position(10**15, GENESIS, 0)
_ID, _SALT = "0" * 36, "0" * 16


class SpoolFile(NamedTuple):
    """A file of the spool.

    Attributes:
        path: Its path; the file is removed once its requests are durable in the ledger.
        id: Its own id, part of the idempotency keys under which its requests are recorded.
        at: When they were sent, UTC.
        requests: The requests, not yet decided, as ``requests.request_to_json`` writes them.
    """

    path: str
    id: str
    at: str
    requests: list[dict[str, Any]]

    @property
    def name(self) -> str:
        """Return the name of the file."""
        return os.path.basename(self.path)


def check(drafts: Sequence[Draft], by: Mapping[str, str], key: str | None, at: str) -> None:
    """Refuse a batch that could never be recorded, with the error that an append would raise.

    Args:
        drafts: The events.
        by: Who sent them.
        key: The idempotency key; None for one that the spool assigns.
        at: When they were sent.

    Raises:
        BadInputError: A line or the batch would be too long, a text is not Unicode, or ``by`` is invalid.
    """
    # A spooled event always says when it happened, because it is recorded later, and its line is longer for it.
    sent = [draft._replace(when=draft.when or at) for draft in drafts]
    frame(sent, Stamp(_FAR, at, by, lambda: _ID, lambda: _SALT, normalize_key(key or f"{FOLDER}:{_ID}:{len(sent)}")))


def put(folder: StrPath, at: str, id_: str, requests: list[dict[str, Any]]) -> str:
    """Write requests to a file of their own, durably.

    Args:
        folder: The ledger's folder.
        at: When they were sent.
        id_: A fresh id.
        requests: The requests, as JSON values.

    Raises:
        CannotWriteError: It cannot be written; nothing was recorded.
    """
    spool = os.path.join(folder, FOLDER)
    disk.make_folder(spool)
    # The time comes first, so that a sorted folder is in the order of sending; Windows takes no colons.
    path = os.path.join(spool, f"{at.replace(':', '')}-{id_}.json")
    try:
        data = dumps({"id": id_, "at": at, "requests": requests}).encode()
    except ValueError as error:
        # A number that JSON does not have, or half of a surrogate pair.
        raise CannotWriteError(path, str(error), "nothing was recorded") from error
    if len(data) > MAX_BATCH_BYTES:
        raise CannotWriteError(path, f"would hold more than {MAX_BATCH_BYTES:,} bytes")
    disk.replace_file(path, data)
    disk.acknowledged += 1
    return path


def put_batches(
    folder: StrPath, now: Now, batches: Iterable[tuple[Sequence[Draft], Mapping[str, str], str | None]]
) -> None:
    """Write batches of events, each with who sent them and its idempotency key, to one file.

    Raises:
        BadInputError: A batch could never be recorded; it is refused at once, as it would stay in the spool for ever.
        CannotWriteError: It cannot be written; nothing was recorded.
    """
    requests: list[dict[str, Any]] = []
    for drafts, by, key in batches:
        check(drafts, by, key, now.at)
        facts = [draft[:4] for draft in drafts]
        when = {"when": drafts[0].when} if drafts[0].when else {}
        requests.append({"facts": facts, "by": dict(by), "key": key, **when})
    put(folder, now.at, new_id(now.unix_us), requests)


def read_files(folder: StrPath) -> tuple[list[SpoolFile], list[Problem]]:
    """Return the files, by time and id, and a problem for each that cannot be read."""
    files: list[SpoolFile] = []
    problems: list[Problem] = []
    spool = os.path.join(folder, FOLDER)
    try:
        disk.refuse_link(spool)
        names = sorted(name for name in os.listdir(spool) if name.endswith(".json") and name[0] != ".")
    except CannotWriteError as error:
        return files, [Problem(FOLDER, str(error))]
    except OSError:
        return files, problems
    import json  # noqa: PLC0415 - slow to load, and mostly no file waits

    for name in names:
        path = os.path.join(spool, name)
        try:
            value = json.loads(disk.read_file(path, MAX_BATCH_BYTES))
            files.append(SpoolFile(path, value["id"], value["at"], value["requests"]))
        except FileNotFoundError:
            continue  # Another process recorded it meanwhile.
        except (OSError, ValueError, KeyError, TypeError, RecursionError, CannotWriteError) as error:
            why = error.reason if isinstance(error, disk.TooLargeError) else type(error).__name__
            problems.append(Problem(f"{FOLDER}/{name}", f"cannot be read: {why}; it stays there"))
    return files, problems


def read_requests(folder: StrPath) -> Iterator[dict[str, Any]]:
    """Yield the requests that wait; what another program put there is left out."""
    for file in read_files(folder)[0]:
        requests: Any = file.requests
        yield from (value for value in requests if isinstance(value, dict)) if isinstance(requests, list) else ()


def remove_files(files: list[SpoolFile]) -> None:
    """Remove files whose requests are durable in the ledger."""
    for file in files:
        # The requests of a file that remains are refused by their idempotency keys next time.
        with suppress(OSError):
            os.unlink(file.path)
