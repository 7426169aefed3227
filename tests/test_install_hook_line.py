"""The hook's command line: what ``init`` writes, and what is taken for a call of our hook, whoever wrote it."""

from __future__ import annotations

from pathlib import Path
import shlex
import shutil
import sys

import pytest

import tallybook
from tallybook.projections.surfaces.install.hook_entries import Call, call_of, hook_command, remark
from tallybook.projections.surfaces.workspace.installation import tool_command

pytestmark = pytest.mark.usefixtures("_installed")

CODE = "import sys; sys.path.append(sys.argv[1]); from tallybook.hook import main; main()"
EARLIER = "import sys; sys.path.append(sys.argv[1]); import hook_start; hook_start.main()"
DIRECT = f"/x/python3 -I -S -X utf8 -c '{CODE}' '/my lib' || tallybook hook || :"
CALLS = {
    "tallybook hook": Call("tallybook", is_plain=True),
    "'/my bin/tallybook' hook": Call("/my bin/tallybook", is_plain=True),
    "tallybook.exe hook": Call("tallybook.exe", is_plain=True),
    "tallybook hook || :": Call("tallybook", is_plain=True),
    "nice -n 5 tallybook hook": Call("tallybook"),
    "mine && tallybook hook": Call("tallybook", does_more=True),
    "mine\ntallybook hook": Call("tallybook", does_more=True),
    DIRECT: Call("tallybook", "/x/python3", "/my lib", "tallybook/hook.py", is_plain=True),
    f"nice {DIRECT}": Call("tallybook", "/x/python3", "/my lib", "tallybook/hook.py"),
    f"mine; nice {DIRECT}": Call("tallybook", "/x/python3", "/my lib", "tallybook/hook.py", does_more=True),
    DIRECT.replace("tallybook hook", "'/my bin/tallybook' hook"): Call(
        "/my bin/tallybook", "/x/python3", "/my lib", "tallybook/hook.py", is_plain=True
    ),
    DIRECT.replace(" -I -S -X utf8", ""): Call(
        "tallybook", "/x/python3", "/my lib", "tallybook/hook.py", is_plain=True
    ),
    DIRECT.replace(CODE, EARLIER): Call("tallybook", "/x/python3", "/my lib", "hook_start.py", is_plain=True),
    DIRECT.replace("main()", "mine()"): Call("tallybook", does_more=True),
}
"""Command line → how it calls our hook."""


@pytest.mark.parametrize("line", CALLS)
def test_a_call_is_known_again(line: str) -> None:
    """Plain or behind something else, by its name, its path or the interpreter's, now and in earlier versions."""
    assert CALLS[line] == call_of(line)


@pytest.mark.parametrize(
    "line", ["", "hook", "tallybook", "tallybook show", "sh -c 'tallybook hook'", "tallybook hook || true", "|| :", "'"]
)
def test_what_calls_something_else_is_no_call(line: str) -> None:
    """Nor what calls us in the middle of something."""
    assert call_of(line) is None


@pytest.mark.skipif(sys.platform == "win32", reason="there the installed command is the hook")
def test_what_is_written_is_known_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, installed_in: Path) -> None:
    """It starts this interpreter on the installed package, whatever their paths have in them."""
    python = tmp_path / 'it\'s $HOME `x` \\ "py"' / "python3"
    monkeypatch.setattr(sys, "executable", str(python))
    call = call_of(hook_command())
    assert call is not None
    assert (str(python), str(installed_in), True) == (call.python, call.folder, call.is_plain)


@pytest.mark.skipif(sys.platform == "win32", reason="there the installed command is the hook")
def test_the_line_never_changes(monkeypatch: pytest.MonkeyPatch, installed_in: Path) -> None:
    """Agents ask people to trust a hook by its exact command line, so an upgrade must not change it."""
    monkeypatch.setattr(sys, "executable", "/x/python3")
    line = f"/x/python3 -I -S -X utf8 -c '{CODE}' {installed_in} || tallybook hook || :"
    program = str(Path(sys.argv[0]).absolute())
    assert line in {hook_command(), hook_command().replace(f"{shlex.quote(program)} hook", "tallybook hook")}


def test_a_clone_is_called_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the package is imported from a clone only the installer's finder knows where it is."""
    monkeypatch.setattr(tallybook, "__file__", str(tmp_path / "projections" / "surfaces" / "library" / "__init__.py"))
    call = call_of(hook_command())
    assert call is not None
    assert ("", True) == (call.python, call.is_plain)


def test_what_a_person_should_know_of_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whether what it names is there, and whether slash commands find the program."""
    monkeypatch.setenv("PATH", str(tmp_path))
    module = tmp_path / "lib" / "tallybook" / "hook.py"
    module.parent.mkdir(parents=True)
    module.touch()
    direct = DIRECT.replace("/x/python3", sys.executable).replace("/my lib", str(tmp_path / "lib"))
    works = (
        f"`tallybook` is not on PATH: {{}}slash commands work once `{tool_command()}` has put it there for every shell"
    )
    assert works.format("") == remark(direct)
    assert works.format("hooks and ") == remark("tallybook hook") == remark(DIRECT)
    assert remark("nice /x/tallybook hook").startswith("the hooks call /x/tallybook, which does not exist")
    program = tmp_path / "here" / "tallybook"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    assert works.format(f"the hooks name {program}, and ") == remark(f"{program} hook")
    shutil.copy(program, tmp_path)
    assert ["", "", "", ""] == [remark(line) for line in (direct, DIRECT, "tallybook hook", "mine")]
