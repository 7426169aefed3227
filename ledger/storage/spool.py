"""The spool: requests that wait because another process held the lock, one file each, recorded later exactly once.

Standard library only, because hooks write to it.
"""

from __future__ import annotations

from contextlib import suppress
import os

from tallybook.ledger.errors import CannotWriteError, Problem
from tallybook.ledger.fast_stdlib import NamedTuple, dumps, import_lazily
from tallybook.ledger.line import GENESIS, Draft, Position, Stamp, frame
from tallybook.ledger.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.storage import idempotency
else:
    # Only a payload that is spooled needs a key.
    idempotency = import_lazily("tallybook.ledger.storage.idempotency")

FOLDER = "spool"
# Event numbers grow until a file is taken in, and each line with them.
_FAR = Position(10**15, GENESIS, 0)
_ID, _SALT = "0" * 36, "0" * 16


class SpoolFile(NamedTuple):
    """A file of the spool.

    Attributes:
        path: Their file; removed once what it holds is durable.
        id: Its own id, under which they are taken in once.
        at: When they were sent, UTC.
        requests: What was sent, undecided, as ``requests.request_to_json`` writes it.
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
        key: The idempotency key; None for the one that the spool gives.
        at: When they were sent.

    Raises:
        BadInputError: A line or the batch would be too long, a text is not Unicode, or ``by`` is not a provenance.
    """
    sent = [one._replace(when=one.when or at) for one in drafts]
    frame(
        sent,
        Stamp(_FAR, at, by, lambda: _ID, lambda: _SALT, idempotency.normalize(key or f"{FOLDER}:{_ID}:{len(sent)}")),
    )


def put(folder: StrPath, at: str, id_: str, requests: list[dict[str, Any]]) -> str:
    """Write requests to a file of their own, durably.

    Args:
        folder: The ledger's folder.
        at: When they were sent.
        id_: A fresh id.
        requests: What was sent; JSON-ready.

    Raises:
        CannotWriteError: It cannot be written; nothing was recorded.
    """
    spool = os.path.join(folder, FOLDER)
    disk.make_folder(spool)
    path = os.path.join(spool, f"{at.replace(':', '')}-{id_}.json")
    try:
        data = dumps({"id": id_, "at": at, "requests": requests}).encode()
    except ValueError as error:
        # A number that JSON does not have, or half of a surrogate pair.
        raise CannotWriteError(path, str(error), "nothing was recorded") from error
    disk.replace_file(path, data)
    disk.note_acknowledged()
    return path


def read_files(folder: StrPath, since: str = "") -> tuple[list[SpoolFile], list[Problem]]:
    """Return what was sent at a time or later and waits, by time and id, and the files that cannot be read."""
    found: list[SpoolFile] = []
    problems: list[Problem] = []
    spool = os.path.join(folder, FOLDER)
    try:
        disk.refuse_link(spool)
        names = sorted(name for name in os.listdir(spool) if name.endswith(".json") and name[0] != ".")
        names = [name for name in names if name >= since.replace(":", "")]
    except CannotWriteError as error:
        return found, [Problem(FOLDER, str(error))]
    except OSError:
        return found, problems
    import json  # noqa: PLC0415 - slow to load; whoever takes payloads in decodes them

    for name in names:
        path = os.path.join(spool, name)
        try:
            one = json.loads(disk.read_file(path))
            found.append(SpoolFile(path, one["id"], one["at"], one["requests"]))
        except FileNotFoundError:
            continue  # Another process took it in meanwhile.
        except (OSError, ValueError, KeyError, TypeError, RecursionError, CannotWriteError) as error:
            problems.append(Problem(f"{FOLDER}/{name}", f"cannot be read: {type(error).__name__}; it stays there"))
    return found, problems


def has_recent(folder: StrPath, beginning: str, since: str) -> bool:
    """Return whether a request under a key with this beginning waits that was sent at a time or later."""
    # Anyone can have put a file there.
    sent: list[Any] = [one.requests for one in read_files(folder, since)[0]]
    requests = (request for some in sent if isinstance(some, list) for request in some)
    return any(isinstance(one, dict) and str(one.get("key")).startswith(beginning) for one in requests)


def remove_files(taken: list[SpoolFile]) -> None:
    """Remove files whose requests are durable in the ledger."""
    for one in taken:
        # A file that remains is refused by its idempotency key next time.
        with suppress(OSError):
            os.unlink(one.path)
