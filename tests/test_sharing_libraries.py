"""Opening an engine: a missing client library is named with its command, and no answer is waited for too long."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
import socket
import sys

import pytest

from helpers.commands import Run
from tallybook.ledger import clock
from tallybook.ledger.sharing.engine import UnreachableError
from tallybook.ledger.storage import caches
from tallybook.projections.surfaces.install.hook_entries import install_command
from tallybook.projections.surfaces.sharing import membership
from tallybook.projections.surfaces.sharing.membership import Membership

ADDRESSES = {"objects": "file:///nowhere", "postgres": "postgresql://127.0.0.1:9/tally"}
MOST_S = 8.0


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("engine", sorted(ADDRESSES))
def test_a_missing_library_is_named_with_its_command(run: Run, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """The command adds the library to this installation; no package of Tallybook's name is fetched from an index."""
    package = membership.LIBRARIES[engine]
    monkeypatch.setitem(sys.modules, package.partition("[")[0], None)
    monkeypatch.delitem(sys.modules, f"tallybook.ledger.sharing.{engine}", raising=False)
    answer = run("share", engine, ADDRESSES[engine], "--book", "demo", "--yes")
    assert (2, 1) == (answer.code, answer.err.count("\n"))
    assert f"needs the package {package}; run: {install_command(package)}\n" in answer.err
    assert "tallybook[" not in answer.err


@pytest.mark.parametrize("engine", sorted(membership.ENGINES))
def test_a_server_that_says_nothing_is_given_up_at_the_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str
) -> None:
    """An engine that accepts a connection and never answers is unreachable soon after the limit of a sync."""
    monkeypatch.setenv(caches.VARIABLE, str(tmp_path / "caches"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anna")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        addresses = {
            "git": f"https://{place}/x.git",
            "objects": f"s3://x?endpoint=http://{place}",
            "postgres": f"postgresql://{place}/x",
        }
        part = Membership("", "", "", "main", engine, addresses[engine], "anna-1")
        start = clock.elapsed_s()
        opened = membership.open_engine(part, tmp_path, limit_s=2)
        with closing(opened), pytest.raises(UnreachableError):
            opened.read(0)
    assert clock.elapsed_s() - start < MOST_S
