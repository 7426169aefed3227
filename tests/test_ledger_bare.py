"""What stands for ``os`` in a short process: wherever it answers, it answers as ``os`` does, and elsewhere asks it."""

from __future__ import annotations

import os
from pathlib import Path
import posixpath
import subprocess
import sys
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

bare = pytest.importorskip("ledger.bare", reason="this system has no posix module", exc_type=ImportError)

ROOT = Path(__file__).resolve().parent.parent
PATHS = st.text("/.~ab", max_size=9)
ASKED = ("exists", "lexists", "isdir", "isfile", "islink", "realpath")
TREE = {"real": None, "link": "real", "far": "../tree/link", "loop": "loop", "gone": "nowhere", "up": ".."}
"""Name in a folder → what a link of that name leads to; None for a folder."""


@given(PATHS, st.lists(PATHS, max_size=3))
def test_paths_are_put_together_and_taken_apart_as_os_does(path: str, more: list[str]) -> None:
    """Whatever slashes, dots and tildes they have."""
    assert posixpath.join(path, *more) == bare.join(path, *more)
    for name in ("split", "dirname", "basename", "isabs", "expanduser"):
        assert getattr(os.path, name)(path) == getattr(bare, name)(path)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of links, and go there."""
    folder = tmp_path / "tree"
    folder.mkdir()
    for name, target in TREE.items():
        (folder / name).symlink_to(target) if target else (folder / name).mkdir()
    (folder / "real" / "file").write_text("")
    monkeypatch.chdir(folder)
    return folder


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([*TREE, "file", "none", ".", "..", ""]), max_size=4), st.booleans())
def test_the_disk_is_asked_as_os_asks_it(tree: Path, names: list[str], absolute: bool) -> None:
    """Through links that lead on, up, in a circle or nowhere, from the root and from the current folder."""
    path = "/".join([str(tree), *names] if absolute else names)
    for name in ASKED:
        assert getattr(os.path, name)(path) == getattr(bare, name)(path), name


def refusal(ask: Callable[[str], object]) -> type[Exception] | None:
    """Return what asking for a path that no system knows ends with, None where it is answered."""
    try:
        ask("/a\0")
    except (OSError, ValueError) as error:
        return type(error)
    return None


@pytest.mark.parametrize("name", ASKED)
def test_what_is_no_path_is_refused_as_os_refuses_it(name: str) -> None:
    """A NUL byte is nowhere, and leads nowhere."""
    assert refusal(getattr(os.path, name)) == refusal(getattr(bare, name))


def test_what_is_not_here_is_taken_from_os() -> None:
    """A call of the system's, what os has of its own, and what os.path has; what this system lacks is missing."""
    assert (os.getppid(), os.walk, os.path.commonpath) == (bare.getppid(), bare.walk, bare.path.commonpath)
    assert [hasattr(os, name) for name in bare._SYSTEMS] == [hasattr(bare, name) for name in bare._SYSTEMS]
    with pytest.raises(AttributeError, match="nowhere"):
        bare.nowhere()


def in_a_short_process(code: str, **environment: str) -> str:
    """Return what a process prints that has loaded neither site nor os."""
    words = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(ROOT)!r}); {code}"]
    return subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | environment).stdout


def test_a_short_process_does_without_os() -> None:
    """Unless it is loaded anyway: then there is one of it."""
    ask = "from ledger.light import os; print(os.__name__, 'os' in sys.modules)"
    assert "ledger.bare False\n" == in_a_short_process(ask)
    assert "os True\n" == in_a_short_process(f"import os; {ask}")


def test_the_environment_is_as_os_has_it() -> None:
    """Also what is no text in the file system's encoding."""
    ask = "from ledger.light import os; mine = os.environ; import os; print(mine == os.environ, ascii(mine['ODD']))"
    assert "True '\\udcff'\n" == in_a_short_process(ask, ODD="\udcff", PYTHONUTF8="1")
