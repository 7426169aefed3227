"""The ends of a log: the format is what the first line says, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallybook.ledger.errors import NewerLedgerError
from tallybook.ledger.line import FORMAT
from tallybook.ledger.storage.head import check_format

if TYPE_CHECKING:
    from pathlib import Path

OPENED = b'{"seq":1,"kind":"ledger.opened","v":1,"body":{"ledger":"x","format":%d}}\n'


def check(path: Path, data: bytes) -> None:
    """Check the format of a log."""
    path.write_bytes(data)
    with path.open("rb") as file:
        check_format(file.fileno(), path)


def test_a_format_from_the_future_is_refused(tmp_path: Path) -> None:
    """Today's is not, and what the error names is the file and both formats."""
    check(tmp_path / "log", OPENED % FORMAT)
    with pytest.raises(NewerLedgerError) as caught:
        check(tmp_path / "log", OPENED % (FORMAT + 1))
    assert str(NewerLedgerError("log", FORMAT + 1, FORMAT)) == str(caught.value)


@pytest.mark.parametrize("first", [b"\n", b"x\n", OPENED % FORMAT])
def test_a_line_behind_the_first_says_nothing_of_the_format(tmp_path: Path, first: bytes) -> None:
    """Whatever the first one is: a log that does not begin as it should is for others to judge."""
    data = first + OPENED % (FORMAT + 1)
    check(tmp_path / "log", data)
    assert data == (tmp_path / "log").read_bytes()
