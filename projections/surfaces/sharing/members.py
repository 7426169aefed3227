"""The machines that write to a book: what each published, when, how far behind it may be, and how they take turns."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger.line import WRITER
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.console.output import format_count, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.ledger.sharing.engines.engine import Engine
    from tallybook.ledger.sharing.replica import Replica

_WRITER: Final = re.compile(rb'"%b":"([^"\\]*)"' % WRITER.encode())
_RECENT_BYTES: Final = 1024 * 1024
# Hosts of git advise six pushes a minute for a repository.
_PUSH_S: Final = 10
_FREE_PUSHES: Final = 6
_LONGEST_WAIT_S: Final = 60.0


@attrs.define
class Member:
    """A machine that published something.

    Attributes:
        writer: Its label.
        author: The user of the engine who stored its last run, as far as the engine knows; empty where it does not.
        events: How many events of the book are its.
        last_seen: When it appended the last one.
        behind: How many events the book has after that: as many may be unknown to it.
        is_this: Whether it is this machine.
    """

    writer: str
    author: str = ""
    events: int = 0
    last_seen: str = ""
    behind: int = 0
    is_this: bool = False


def find_members(copy: Replica, writer: str, engine: Engine | None) -> list[Member]:
    """Return the machines that published something, the one seen last first.

    Args:
        copy: This machine's copy of the book.
        writer: This machine's label.
        engine: The engine, which may know who stored each run; None to leave that out.
    """
    members: dict[str, Member] = {}
    end = copy.end().seq
    for batch in copy.read():
        for label in find_writers(batch.lines[0]):
            member = members.setdefault(label, Member(label, is_this=label == writer))
            member.events += batch.last - batch.first + 1
            member.last_seen, member.behind = batch.position.at, end - batch.last
    if engine is not None and engine.knows_authors():
        for run in engine.read(0).runs:
            for label in find_writers(run.data) & members.keys():
                members[label].author = run.author
    return sorted(members.values(), key=lambda member: member.behind)


def find_writers(data: bytes) -> set[str]:
    """Return the labels of the machines that wrote some lines of a book."""
    return {label.decode("utf-8", "replace") for label in _WRITER.findall(data)}


def member_lines(members: Sequence[Member]) -> list[str]:
    """Return the machines for people."""
    return [
        f"{member.writer}{' (this machine)' if member.is_this else ''}: {format_count(member.events, 'event')}, "
        f"last seen {format_time(member.last_seen)}, {format_count(member.behind, 'event')} behind at most"
        # A label is what its user calls it; the engine knows who logged in.
        + (f", logged in as {member.author}" if member.author not in {"", member.writer.rpartition("-")[0]} else "")
        for member in members
    ]


def longest_wait(copy: Replica) -> float:
    """Return how many seconds at most a machine should wait before it pushes, so that many do not at the same time."""
    try:
        fd = disk.open_file(copy.log.log_file, write=False)
    except FileNotFoundError:
        return 0.0
    try:
        os.lseek(fd, max(0, os.fstat(fd).st_size - _RECENT_BYTES), os.SEEK_SET)
        writers = len(find_writers(os.read(fd, _RECENT_BYTES)))
    finally:
        os.close(fd)
    return min(_LONGEST_WAIT_S, max(0, writers - _FREE_PUSHES) * _PUSH_S)
