"""Settings files of agents in every layout, as hypothesis makes them."""

from __future__ import annotations

from itertools import cycle
import json
import re
import shlex
from typing import Any

from hypothesis import strategies as st

from helpers.agent_settings import CLAUDE
from tallybook.projections.surfaces.install import hook_entries

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
    "echo done",
    "tallybook hook || true",
    "tallybook show",
    "tallybook hooks",
    "sh -c 'tallybook hook'",
    "echo 'open",
    "hook",
    "",
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


def strewn(document: Any, gaps: list[str]) -> str:
    """Return JSON with any white space between any two tokens."""
    spaces = cycle(gaps)
    return "".join(token[0] + next(spaces) for token in TOKEN.finditer(json.dumps(document)))


def saved(text: str, end: str, *, crlf: bool, mark: bool) -> bytes:
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
    strewing = st.builds(strewn, document, gaps).map(str.encode)
    return strewing | st.builds(saved, dumped, ends, crlf=st.booleans(), mark=st.booleans())


def parsed(data: bytes) -> dict[str, Any]:
    """Return the content of a file."""
    document: dict[str, Any] = json.loads(data.decode("utf-8-sig"))
    return document
