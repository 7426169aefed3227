"""The hook's command line, and our hooks in settings of every shape: known again, put in and taken out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
import json
from pathlib import Path
import re
import shlex
import sys
from typing import Any

import attrs
from hypothesis import HealthCheck, given
from hypothesis import settings as profile
from hypothesis import strategies as st
import pytest

from helpers.agent_settings import CLAUDE, on_path, tree
from helpers.sweep import slice_of
import tallybook
from tallybook.ledger.errors import BadInputError
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.install import hook_entries
from tallybook.projections.surfaces.install.hook_entries import HookCommand, call_of, hook_command

COMMAND = f"/x/python3 -I -S -X utf8 -c '{hook_entries._CODE}' /lib || tallybook hook || :"

PLAIN = (
    "tallybook hook",
    "'/opt/my tools/tallybook' hook",
    shlex.join(["/gone/bin/python3", *hook_entries._OPTIONS, hook_entries._CODE, "/gone/my lib"])
    + " || tallybook hook || :",
)
"""What earlier versions and other installations wrote."""
EVENTS = (*CLAUDE.events, "PreToolUse", "Notification")
KEPT = (COMMAND, "PYTHONUTF8=1 nice tallybook hook", f"nice {COMMAND}")
OURS = (*KEPT, *PLAIN)

OTHERS = (
    *("echo done", "tallybook hook || true", "tallybook show", "tallybook hooks", "sh -c 'tallybook hook'"),
    *("echo 'open", "hook", ""),
)

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def entries(commands: tuple[str, ...]) -> st.SearchStrategy[Any]:
    """Return hooks with one of these commands."""
    return st.fixed_dictionaries({"type": st.just("command"), "command": st.sampled_from(commands)})


def groups(commands: tuple[str, ...]) -> st.SearchStrategy[Any]:
    """Return groups of one hook or two, with a matcher or without."""
    hooks = st.lists(entries(commands), min_size=1, max_size=2)
    return st.fixed_dictionaries({"hooks": hooks}, optional={"matcher": st.just("Bash")})


def documents(group: st.SearchStrategy[Any], smallest: int) -> st.SearchStrategy[dict[str, Any]]:
    """Return settings in which lists and objects of hooks have at least so many items."""
    lists = st.lists(group, min_size=smallest, max_size=3)
    hooks = st.dictionaries(st.sampled_from(EVENTS), lists, min_size=smallest, max_size=4)
    rest = st.dictionaries(st.text().filter(lambda key: key != "hooks"), plain, max_size=3)

    def joined(rest: dict[str, Any], hooks: dict[str, Any] | None, *, first: bool) -> dict[str, Any]:
        own = {} if hooks is None else {"hooks": hooks}
        return own | rest if first else rest | own

    return st.builds(joined, rest, st.none() | hooks, first=st.booleans())


odd = documents(groups((*OURS, *OTHERS)) | plain, 0)
GAPS = ("", "", " ", "\n", "\t", "\r\n  ", "\n\n")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def strew_space(document: Any, gaps: list[str]) -> str:
    """Return JSON with any white space between any two tokens."""
    spaces = cycle(gaps)
    return "".join(token[0] + next(spaces) for token in TOKEN.finditer(json.dumps(document)))


def save_as(text: str, end: str, *, crlf: bool, mark: bool) -> bytes:
    """Return the bytes of a file, as some program writes it."""
    text += end
    return ("\ufeff" * mark + (text.replace("\n", "\r\n") if crlf else text)).encode()


def files(document: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[bytes]:
    """Return settings files in many layouts."""
    dumped = st.builds(
        json.dumps,
        document,
        indent=st.sampled_from([None, 0, 1, 2, 4, "\t"]),
        separators=st.sampled_from([(",", ":"), (", ", ": "), (",", ": "), (" , ", " : ")]),
        ensure_ascii=st.booleans(),
    )
    ends = st.sampled_from(["", "\n", " \n\n", "\t"])
    gaps = st.lists(st.sampled_from(GAPS), min_size=1, max_size=7)
    strewing = st.builds(strew_space, document, gaps).map(str.encode)
    return strewing | st.builds(save_as, dumped, ends, crlf=st.booleans(), mark=st.booleans())


def parse_file(data: bytes) -> dict[str, Any]:
    """Return the content of a file."""
    document: dict[str, Any] = json.loads(data.decode("utf-8-sig"))
    return document


__all__ = ["on_path"]
pytestmark = pytest.mark.usefixtures("_installed")

CODE = "import sys; sys.path.append(sys.argv[1]); from tallybook.hook import main; main()"
EARLIER_CODE = "import sys; sys.path.append(sys.argv[1]); import hook_start; hook_start.main()"
DIRECT = f"/x/python3 -I -S -X utf8 -c '{CODE}' '/my lib' || tallybook hook || :"
CALL = HookCommand("tallybook", "/x/python3", "/my lib", "tallybook/hook.py", is_plain=True)
CALLS = {
    "tallybook hook": HookCommand("tallybook", is_plain=True),
    "'/my bin/tallybook' hook": HookCommand("/my bin/tallybook", is_plain=True),
    "tallybook.exe hook": HookCommand("tallybook.exe", is_plain=True),
    "tallybook hook || :": HookCommand("tallybook", is_plain=True),
    "nice -n 5 tallybook hook": HookCommand("tallybook"),
    "mine && tallybook hook": HookCommand("tallybook", does_more=True),
    "mine\ntallybook hook": HookCommand("tallybook", does_more=True),
    DIRECT: CALL,
    f"nice {DIRECT}": attrs.evolve(CALL, is_plain=False),
    f"mine; nice {DIRECT}": attrs.evolve(CALL, is_plain=False, does_more=True),
    DIRECT.replace("tallybook hook", "'/my bin/tallybook' hook"): attrs.evolve(CALL, program="/my bin/tallybook"),
    DIRECT.replace(" -I -S -X utf8", ""): CALL,
    DIRECT.replace(CODE, EARLIER_CODE): attrs.evolve(CALL, module="hook_start.py"),
    DIRECT.replace("main()", "mine()"): HookCommand("tallybook", does_more=True),
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


def test_what_is_written_is_known_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, installed_in: Path) -> None:
    """It starts this interpreter on the installed package, whatever their paths have in them."""
    python = tmp_path / 'it\'s $HOME `x` \\ "py"' / "python3"
    monkeypatch.setattr(sys, "executable", str(python))
    call = call_of(hook_command())
    assert call is not None
    assert (str(python), str(installed_in), True) == (call.python, call.folder, call.is_plain)


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


kept = documents(groups((*KEPT, *OTHERS)) | plain, 0)
others = documents(groups(OTHERS), 1)


def install(data: bytes | None) -> bytes:
    """Return what an installation makes of a file."""
    return hook_entries.install(data, CLAUDE, COMMAND, "settings.json")


def remove(data: bytes) -> bytes:
    """Return a file without our hooks."""
    return hook_entries.remove(data, CLAUDE, "settings.json")


def commands_in(groups: Any) -> list[dict[str, Any]]:
    """Return the hooks that stand in the list of an event, with a command each."""
    lists = [group["hooks"] for group in groups if isinstance(group, dict) and isinstance(group.get("hooks"), list)]
    return [
        hook for hooks in lists for hook in hooks if isinstance(hook, dict) and isinstance(hook.get("command"), str)
    ]


def has_ours(groups: Any) -> bool:
    """Say whether one of OURS stands in the list of an event."""
    return any(entry["command"] in OURS for entry in commands_in(groups))


@given(others, st.sampled_from([None, 2, "\t"]), st.sampled_from(list(CLAUDE.events)), st.booleans())
def test_what_others_wrote_meanwhile_stays(before: dict[str, Any], indent: Any, event: str, shared: bool) -> None:
    """A program that writes the whole file anew, a key of its own, a hook beside ours: our hooks alone go."""
    entry = {"type": "command", "command": "theirs"}
    installed = parse_file(install(json.dumps(before).encode()))
    (own,) = [group for group in installed["hooks"][event] if has_ours([group])]
    if shared:
        own["hooks"].append(entry)
    else:
        installed["hooks"][event].insert(0, {"hooks": [entry]})
    done = parse_file(remove(json.dumps({"theirs": 1} | installed, indent=indent).encode()))
    kept = before.get("hooks", {}).get(event, [])
    expected_own = {"hooks": [entry]}
    expected = [*kept, expected_own] if shared else [expected_own, *kept]
    assert expected == done["hooks"].pop(event)
    hooks = {name: value for name, value in before.get("hooks", {}).items() if name != event}
    assert {"theirs": 1} | before | {"hooks": hooks} == done


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"[]", "is not a JSON object"),
        (b'{"a": 1,}', "is not JSON"),
        (b'{"a": 1} // mine', "is not JSON"),
        (b'{"a": 1, "a": 2}', "has the key 'a' twice"),
        (b'{"a": NaN}', "holds NaN"),
        (b'{"a": "\xff"}', "is not UTF-8"),
        (b'{"hooks": []}', '"hooks" is not a JSON object'),
        (b'{"hooks": null}', '"hooks" is not a JSON object'),
        (b'{"hooks": {"Stop": {}}}', '"Stop" in "hooks" is not a list'),
        (b"[" * 10_000, "settings.json: "),
    ],
)
@pytest.mark.parametrize("work", [install, remove], ids=["install", "remove"])
def test_what_is_no_settings_is_refused(work: Callable[[bytes], bytes], data: bytes, says: str) -> None:
    """One line says what is wrong, and that nothing was changed."""
    with pytest.raises(BadInputError, match="nothing was changed") as caught:
        work(data)
    assert says in str(caught.value)


@profile(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=slice_of(40, 25))
@given(data=files(odd))
def test_settings_of_any_layout_come_back(new_project: Callable[[], Path], data: bytes) -> None:
    """Byte for byte, also where they had empty lists; hooks of ours that somebody wrote by hand go as well."""
    claude = new_project() / ".claude"
    (claude / "settings.json").write_bytes(data)
    assert [0, 0] == [main.run(["init", "--json"]), main.run(["init", "--json"])]
    assert 0 == main.run(["uninstall", "--json"])
    if data == hook_entries.remove(data, CLAUDE, "settings.json"):
        assert {"settings.json": data} == tree(claude)
    else:
        # Settings that held nothing but such hooks are deleted.
        assert [] == hook_entries.own_commands(tree(claude).get("settings.json", b"{}"), CLAUDE, "settings.json")
