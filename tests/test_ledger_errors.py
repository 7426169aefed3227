"""Errors: one whole line with the problem, its place and the remedy, and the exit code."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from tallybook.ledger.errors import (
    EXIT_BAD_INPUT,
    EXIT_DAMAGED,
    EXIT_NO,
    EXIT_NOT_WRITTEN,
    BadInputError,
    CannotWriteError,
    DamagedLedgerError,
    LockHeldError,
    NewerLedgerError,
    OutcomeUnknownError,
    Problem,
    TallybookError,
    UnknownEntryError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST = Problem("events.jsonl:812", "is a hole of NUL bytes", 812, 812)
SECOND = Problem("head", "is torn")


@pytest.mark.parametrize(
    ("error", "given", "code", "message"),
    [
        (BadInputError, ("a.json", "is empty"), EXIT_BAD_INPUT, "a.json: is empty"),
        (BadInputError, ("a.json", "is empty", "try b"), EXIT_BAD_INPUT, "a.json: is empty; try b"),
        (
            UnknownEntryError,
            ("kpt_404",),
            EXIT_NO,
            "kpt_404: no entry ever had this name; see `tallybook show`",
        ),
        (
            DamagedLedgerError,
            ([FIRST],),
            EXIT_DAMAGED,
            "events.jsonl:812: is a hole of NUL bytes; the ledger is damaged, run `tallybook verify`",
        ),
        (
            DamagedLedgerError,
            ([FIRST, SECOND],),
            EXIT_DAMAGED,
            "events.jsonl:812: is a hole of NUL bytes (and 1 more); the ledger is damaged, run `tallybook verify`",
        ),
        (
            DamagedLedgerError,
            ([SECOND, FIRST, FIRST],),
            EXIT_DAMAGED,
            "head: is torn (and 2 more); the ledger is damaged, run `tallybook verify`",
        ),
        (
            NewerLedgerError,
            ("head", "2", 1),
            EXIT_NOT_WRITTEN,
            "head: written in ledger format 2, this Tallybook reads up to 1; upgrade Tallybook",
        ),
        (CannotWriteError, ("f", "is full"), EXIT_NOT_WRITTEN, "f: is full; nothing was recorded; try again"),
        (
            CannotWriteError,
            ("f", os.strerror(errno.EROFS)),
            EXIT_NOT_WRITTEN,
            "f: Read-only file system; nothing was recorded; it is mounted read-only, so mount it for writing first",
        ),
        (
            CannotWriteError,
            ("f", f"cannot be locked: {os.strerror(errno.EACCES)}", "the log is whole; try again"),
            EXIT_NOT_WRITTEN,
            "f: cannot be locked: Permission denied; the log is whole; get the right to write there first",
        ),
        (CannotWriteError, ("f", "is full", "make room"), EXIT_NOT_WRITTEN, "f: is full; make room"),
        (
            OutcomeUnknownError,
            ("f", "is broken"),
            EXIT_NOT_WRITTEN,
            ("f: could not be flushed (is broken), so it may or may not be recorded; check with `tallybook log`"),
        ),
        (
            LockHeldError,
            ("lock", 250),
            EXIT_NOT_WRITTEN,
            "lock: held by another process for 250 ms; nothing was recorded; try again",
        ),
    ],
)
def test_an_error_is_one_whole_line_and_an_exit_code(
    error: Callable[..., TallybookError], given: tuple[object, ...], code: int, message: str
) -> None:
    """Each error has its own words with the place and the remedy, and its own exit code."""
    raised = error(*given)
    assert (code, message) == (raised.exit_code, str(raised))


def test_an_error_keeps_its_subject() -> None:
    """A caller can read the unknown name, every problem, or the system's reason from it."""
    assert "kpt_404" == UnknownEntryError("kpt_404").name
    assert (SECOND, FIRST) == DamagedLedgerError([SECOND, FIRST]).problems
    assert "is full" == CannotWriteError("f", "is full").reason
