"""The ends of a log: only its first line names the format."""

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


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    """The current format is accepted; for a later one the error names the file and both formats."""
    check(tmp_path / "log", OPENED % FORMAT)
    with pytest.raises(NewerLedgerError) as caught:
        check(tmp_path / "log", OPENED % (FORMAT + 1))
    assert str(NewerLedgerError("log", FORMAT + 1, FORMAT)) == str(caught.value)


@pytest.mark.parametrize("first", [b"\n", b"x\n", OPENED % FORMAT])
def test_a_later_line_does_not_name_the_format(tmp_path: Path, first: bytes) -> None:
    """Only the first line is checked; an invalid first line is another check's error."""
    data = first + OPENED % (FORMAT + 1)
    check(tmp_path / "log", data)
    assert data == (tmp_path / "log").read_bytes()
