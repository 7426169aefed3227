"""A git remote whose objects are damaged, as after a power failure of its server, and the documented repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.books import make_run, make_runs, plain
from helpers.engines import git_engine
from helpers.git_repositories import delete_damage, git, make_remote
from tallybook.ledger.line import Position
from tallybook.ledger.sharing.engines.engine import NOTHING, End, Outcome, Run
from tallybook.ledger.sharing.engines.store import DamagedEngineError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallybook.ledger.sharing.engines.engine import Engine


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """Return a new bare repository, as a server has it."""
    return make_remote(tmp_path / "remote.git")


@pytest.fixture
def connect(remote: Path, tmp_path: Path) -> Callable[..., Engine]:
    """Return a function that opens an engine of a machine, by the machine's name."""
    return lambda machine="anna": git_engine(str(remote), "main", str(tmp_path / machine))


def _append(engine: Engine, *runs: Run) -> End:
    """Append runs at the engine's end, which must succeed."""
    answer = engine.append(engine.read(0).end, runs)
    assert Outcome.DONE is answer.outcome
    assert answer.end is not None
    return answer.end


@pytest.mark.parametrize("name", ["main", "main^{tree}", "main:000000/00/01.jsonl"])
def test_a_damaged_remote_is_named_and_made_again(remote: Path, connect: Callable[..., Engine], name: str) -> None:
    """A remote with an empty object is damaged, in one line; once its operator has repaired it, the book goes on."""
    connect("anna").append(NOTHING, make_runs(2))
    id_ = git(remote, "rev-parse", f"refs/tallybook/{name}")
    path = remote / "objects" / id_[:2] / id_[2:]
    path.unlink()
    path.touch()
    with pytest.raises(DamagedEngineError) as caught:
        connect("ben").read(0)
    hint = "; events wait in the own ledger until its operator has repaired it"
    assert str(caught.value).startswith(f"{remote}: is damaged: ")
    assert str(caught.value).endswith(hint)
    assert "\n" not in str(caught.value)
    delete_damage(remote, "main")
    assert [] == connect("ben").read(0).runs
    _append(connect("anna"), *make_runs(2))
    assert make_runs(2) == [plain(run) for run in connect("ben").read(0).runs]


def test_a_damaged_remote_takes_no_append(remote: Path, connect: Callable[..., Engine]) -> None:
    """A machine that need not fetch learns of the damage when it pushes, and nothing is stored."""
    end = _append(connect(), *make_runs(1))
    id_ = git(remote, "rev-parse", "refs/tallybook/main")
    (remote / "objects" / id_[:2] / id_[2:]).unlink()
    run, _ = make_run(Position(end.seq, end.chain, 0), "anna", "kpt_002")
    with pytest.raises(DamagedEngineError, match=r"is damaged: .*bad object"):
        connect().append(end, [run])
