"""A writer killed before each of its system calls: acknowledged batches are there, whole and once."""

from __future__ import annotations

from collections import Counter
from functools import cache
import re
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.installation import lay_out
from helpers.ledger_logs import append, lines, names
from tallybook.ledger.backends.jsonl import JsonlLog
from tallybook.ledger.verification import verify

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CALLS = ("write", "fdatasync", "pwrite64", "flock", "openat", "fsync", "rename", "mkdir")
NAMES = ["a", "b", "c"]
WRITER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tallybook.ledger.backends.jsonl import JsonlLog
from tallybook.ledger.line import Draft
log = JsonlLog(Path(sys.argv[2]))
os.write(1, b"begin ")
for name in "abc":
    with log.transaction() as tx:
        tx.append([Draft("point.rated", 1, {"name": name, "rating": "helpful"})] * 2, {"rater": "test"}, name)
    os.write(1, name.encode())
"""
# A bad end behind the head, so that recovery is killed at each of its calls too.
TORN = b'{"crc":"00000000","seq":4,"id":"torn'


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """Return a copy of the code without compiled files, which no other process compiles while calls are counted."""
    return lay_out(tmp_path / "code")


def run(code: Path, folder: Path, options: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    """Run the writer under strace."""
    writer = [sys.executable, "-I", "-S", "-B", "-c", WRITER, str(code), str(folder)]
    return subprocess.run(
        ["strace", "-f", "-qq", *options, *writer],
        capture_output=True,
        check=False,
        env={"PYTHONHASHSEED": "0", "TALLYBOOK_CACHE_DIR": str(folder.parent / "caches")},
    )


@cache
def why_not() -> str:
    """Return why writers cannot be killed here in this way, an empty text if they can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(["strace", "-qq", "-e", "trace=none", "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else "this system does not let strace trace a process"


def begin_ledger(folder: Path, torn: bytes) -> None:
    """Make a ledger with one acknowledged rating and a torn end; without that end, leave the folder empty."""
    if torn:
        log = JsonlLog(folder)
        append(log, "old", "old", key="old")
        log.close()
        with log.path.open("ab") as file:
            file.write(torn)


def calls_of(code: Path, folder: Path, trace: Path) -> list[tuple[str, int]]:
    """Return each call of a whole run after its start: its name, and its number since the process began."""
    options = ["-o", str(trace), "-e", f"trace={','.join(CALLS)}"]
    assert b"begin abc" == run(code, folder, options).stdout
    seen: Counter[str] = Counter()
    found: list[tuple[str, int]] = []
    has_begun = False
    for line in trace.read_text(errors="replace").splitlines():
        name = re.search(r"(?:^|\s)([a-z0-9]+)\(", line)
        if name is None or name[1] not in CALLS:
            continue
        seen[name[1]] += 1
        if has_begun:
            found.append((name[1], seen[name[1]]))
        has_begun = has_begun or '"begin "' in line
    return found


def assert_whole(folder: Path, acknowledged: list[str], before: list[str]) -> None:
    """Check that acknowledged batches are there, none twice, and that all of them can be delivered again."""
    log = JsonlLog(folder)
    stood = names(log)
    expected = [name for name in [*before, *NAMES] for _ in range(2)]
    assert expected[: len(stood)] == stood
    assert len(stood) >= 2 * (len(before) + len(acknowledged))
    assert len(stood) % 2 == 0
    for name in NAMES:
        append(log, name, name, key=name)
    assert expected == names(log)
    append(log, "end")
    read = lines(log)
    assert list(range(1, len(read) + 1)) == [line["seq"] for line in read]
    verdict = verify(log)
    assert () == verdict.problems
    log.close()


@pytest.mark.parametrize("torn", [b"", TORN], ids=["new", "torn"])
def test_a_writer_killed_at_any_call_loses_nothing(tmp_path: Path, code: Path, torn: bytes) -> None:
    """Every acknowledged batch is read, none is there in part or twice, the chain is whole, and the log works on."""
    if why_not():
        pytest.skip(why_not())
    whole = tmp_path / "whole" / "ledger"
    begin_ledger(whole, torn)
    killed_at = calls_of(code, whole, tmp_path / "trace")
    assert {"write", "fdatasync", "pwrite64", "flock", "openat"} <= {call for call, _ in killed_at}
    before = ["old"] if torn else []
    # The other half is killed with the other kind of beginning.
    for call, number in killed_at[bool(torn) :: 2]:
        folder = tmp_path / f"{call}-{number}" / "ledger"
        begin_ledger(folder, torn)
        inject = f"inject={call}:signal=KILL:when={number}"
        killed = run(code, folder, ["-o", "/dev/null", "-e", f"trace={call}", "-e", inject])
        assert (-signal.SIGKILL, b"begin ") == (killed.returncode, killed.stdout[:6]), (call, number)
        acknowledged = list(killed.stdout[6:].decode())
        assert NAMES[: len(acknowledged)] == acknowledged
        assert_whole(folder, acknowledged, before)
