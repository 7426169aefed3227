"""Access of hooks to a project's ledger and playbook, and their markers. Standard library only."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
import os
import sys

from tallybook.ledger import clock, errors
from tallybook.ledger.fast_stdlib import loads, sha256
from tallybook.ledger.line import Draft, kind_of
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.playbook_constants import PLAYBOOK_NEUTRAL, STAMP, UNTIL
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.head import lines_before
from tallybook.projections.surfaces.workspace.project import CLAUDE, MARKS, playbook_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any

    from tallybook.projections.surfaces.workspace.project import AnyProject, ProjectPaths

ERROR_FILE = "hook-error"
"""File in the ledger's folder that holds the last error of a hook."""
NOTICE = "notice"
"""Marker that holds what agents' marks ask of a person."""
_NO_DAY = "-"
MEMBERSHIPS = os.path.join(CLAUDE, "config", "tallybook-books")
"""Folder in the user's home that says which project shares which book, in a file for each."""
MAX_PLAYBOOK_BYTES = 4 * 1024 * 1024
"""A hook does not read a larger ``playbook.json``, some 35,000 entries: that alone would use up its time."""
# Longer than another hook waits for the ledger and writes to the spool; an agent ends a hook after 10 seconds.
_DELIVERY_WAIT_MS = 2_000

BODIES: dict[str, tuple[int, tuple[str, ...], tuple[str, ...]]] = {
    "playbook.injected": (
        3,
        ("names", "held", "left_out", "lowest", "candidates", "question", "lineage", "units", "probability", "file"),
        (),
    ),
    "point.cited": (1, ("name", "where"), ()),
    "reflection.requested": (1, ("end", "trigger"), ("transcript",)),
}
"""Each kind that hooks append → version, fields of its body, fields of free text; a test compares it with the classes.

Hooks cannot load the classes: attrs takes longer to import than a hook takes to run.
"""


def draft(kind: str, **fields: Any) -> Draft:
    """Return an event of a kind that hooks append."""
    version, body, free = BODIES[kind]
    texts = {field: fields[field] for field in free}
    return Draft(kind, version, {field: fields[field] for field in body}, texts or None)


def append(project: AnyProject, drafts: Sequence[Draft], by: Mapping[str, str], key: str) -> bool:
    """Append a batch, once under its idempotency key; while the ledger does not accept it, it waits in the spool.

    Returns:
        False if the ledger already had it.

    Raises:
        TallybookError: Neither the ledger nor the spool could be written.
    """
    log = JsonlLog(project.ledger)
    try:
        with log.transaction() as transaction:
            return transaction.append(drafts, by, key) is not None
    except (errors.LockHeldError, errors.CannotWriteError, errors.DamagedLedgerError, errors.NewerLedgerError):
        from tallybook.ledger.storage import spool

        # The next command that can write to the ledger appends it from the spool.
        spool.put_batches(project.ledger, clock.utc_now(), [(drafts, by, key)])
        return True
    finally:
        log.close()


@contextmanager
def lock_deliveries(project: AnyProject) -> Iterator[None]:
    """Hold a lock that hooks of the same event take in turn; without it where it cannot be had in time.

    The ledger's own lock does not do: a hook that waits for it in vain writes to the spool.
    """
    with ExitStack() as stack:
        with suppress(OSError, errors.TallybookError):
            disk.make_folder(project.ledger)
            stack.enter_context(disk.hold_lock(marker_file(project, "deliveries.lock"), _DELIVERY_WAIT_MS))
        yield


def read_entries(project: ProjectPaths) -> Sequence[Mapping[str, Any]]:
    """Return the playbook's entries, from ``playbook.json`` if it is current; else it is rendered first.

    Those of a file in the later format have their section; where an entry holds until a date, each has its last day.

    Raises:
        BadInputError: The file is too large for a hook.
        CannotWriteError: It is a link out of the project.
    """
    path, size = playbook_file(project.root, project.claude), 0
    with suppress(OSError):
        size = os.stat(path).st_size
    if size > MAX_PLAYBOOK_BYTES:
        what = f"has {size:,} bytes, and hooks read at most {MAX_PLAYBOOK_BYTES:,}"
        raise errors.BadInputError(path, what, "`tallybook retire NAME` what is no longer needed")
    entries: Sequence[Mapping[str, Any]] = ()
    # A person may have written anything there; the rendering sets aside what cannot be read.
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, errors.TallybookError):
        document = loads(disk.read_file(path, MAX_PLAYBOOK_BYTES).decode("utf-8"))
        found = entries_of(document)
        types = {tuple(type(entry[field]) for field in ("name", "text", "helpful", "harmful")) for entry in found}
        if types <= {(str, str, int, int)}:
            entries = found
            seq, _, chain = document[STAMP].partition(":")
            if is_current(project, int(seq), chain):
                return entries
    return _render(project, entries)


def entries_of(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the entries of a playbook in either format, each with its last day, and in the later one its section."""
    found: Sequence[Mapping[str, Any]] = document.get("key_points", ())
    if "key_points" not in document:
        found = [
            {**entry, "section": heading} for heading, entries in document["sections"].items() for entry in entries
        ]
    if days := document.get(UNTIL):
        return [{**item, UNTIL: str(days[item["name"]])} if item["name"] in days else item for item in found]
    return found


def _render(project: ProjectPaths, entries: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Render ``playbook.json`` from the ledger and return its entries; on failure, return those given."""
    load_packages()
    from tallybook.projections.playbook.render import playbook_bytes
    from tallybook.projections.surfaces.workspace import personal, settings
    from tallybook.projections.surfaces.writing import record

    try:
        report = record.write(personal.as_project(project), [])
    except errors.TallybookError as error:
        save_error(project, error)
        return entries
    if report.file.unreadable or report.file.is_foreign:
        # The session goes on without the file's entries, so somebody must hear of it.
        with suppress(OSError):
            os.write(2, f"tallybook: {report.file.problems[0]}\n".encode("utf-8", "backslashreplace"))
    if report.state is None:
        return entries
    return entries_of(loads(playbook_bytes(report.state, settings.read(project).format).decode()))


def load_packages() -> None:
    """Make a hook a long process, which finds the installed packages."""
    import gc

    # The hook's start disabled the collector, because most hooks leave no garbage worth it.
    gc.enable()
    if sys.flags.no_site:
        import site

        site.main()


def is_current(project: AnyProject, seq: int, chain: str, changing: Collection[str] = ()) -> bool:
    """Return whether no event after a moment is of some kinds; False if that takes long to find out.

    It reads the last lines of the log without verifying them: the answer decides what is shown, not what is recorded.

    Args:
        project: The project.
        seq: Number of the last event of the moment.
        chain: Its chain value.
        changing: The kinds; without any, those that change the playbook.
    """
    log = JsonlLog(project.ledger)
    head = log.read_head()
    if head is None:
        return False
    if (head.position.seq, head.position.chain) == (seq, chain):
        return True
    # In a shared project the file may be another machine's, with a number of its ledger: the chain value decides.
    end = f',\t"chain":"{chain}"}}'.encode()
    for line in lines_before(log.log_file, head.position.offset):
        if line.endswith(end):
            return True
        kind = kind_of(line)
        if kind in changing if changing else kind not in PLAYBOOK_NEUTRAL:
            return False
    return False


def membership_file(project: AnyProject) -> str:
    """Return the file of the user's own settings that says which book a project shares; without it, it shares none."""
    # In the user's home: nothing that a project ships turns sharing on.
    return os.path.join(os.path.expanduser("~"), MEMBERSHIPS, users_file_name(project))


def users_file_name(project: AnyProject) -> str:
    """Return the name of a file that a user has for a project, outside of the project."""
    real = os.path.realpath(project.ledger).encode("utf-8", "surrogateescape")
    return f"{sha256(real).hexdigest()[:32]}.json"


def save_error(project: AnyProject, error: Exception) -> None:
    """Save an error for ``doctor``, in place of the one before."""
    # A hook creates no ledger, not even for its error.
    if os.path.isdir(project.ledger):
        what = f"{clock.utc_now().at[:16]} {type(error).__name__}: {error}"
        disk.replace_cache_file(os.path.join(project.ledger, ERROR_FILE), what.encode("utf-8", "replace"))


def digest(text: str) -> str:
    """Return a short digest of a text; as in a transcript, half of a character counts as a question mark."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def marker_file(project: AnyProject, name: str, session: str = "") -> str:
    """Return the path of a marker: it only saves questions to the ledger, so that nothing fails for it.

    Args:
        project: The project.
        name: The name of the marker, or of one that each session has, how that begins.
        session: The session; empty for a marker of the whole ledger.
    """
    return os.path.join(project.ledger, MARKS, name + digest(session) if session else name)


def read_marker(path: str) -> str:
    """Return what a marker holds, empty without one."""
    with suppress(OSError, ValueError, errors.TallybookError):
        return disk.read_file(path).decode("utf-8", "surrogatepass")
    return ""


def write_marker(path: str, text: str) -> None:
    """Write a marker."""
    with suppress(OSError, errors.TallybookError):
        disk.make_folder(os.path.dirname(path), durable=False)
        disk.replace_cache_file(path, text.encode("utf-8", "surrogatepass"))


# What agents' marks ask of a person, shown once a day: at a session's start or after a command. The marker holds the
# day on which it was shown last, a space, and the sentence.


def put_notice(project: AnyProject, text: str, names: Sequence[str] = ()) -> None:
    """Save the next notice, empty for none; it is shown at once if it has a name that the last one had not."""
    day, before = read_notice(project)
    day = _NO_DAY if any(name not in before for name in names) else day
    write_marker(marker_file(project, NOTICE), f"{day} {text}")


def take_notice(project: AnyProject) -> str:
    """Return the notice and note that it was shown; empty without one, or if one was shown today."""
    day, text = read_notice(project)
    today = clock.utc_now().at[:10]
    if not text or day == today:
        return ""
    # The sentence stays and is shown again on another day, until a person decides.
    write_marker(marker_file(project, NOTICE), f"{today} {text}")
    return text


def read_notice(project: AnyProject) -> tuple[str, str]:
    """Return the day on which a notice was shown last, and the next notice; empty for none."""
    day, _, text = read_marker(marker_file(project, NOTICE)).partition(" ")
    return day or _NO_DAY, text
