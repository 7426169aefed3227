"""Our hooks in settings of every shape and layout: put in, taken out, and nothing of anybody else's touched."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from helpers.agent_settings import CLAUDE
from helpers.settings_files import COMMAND, KEPT, OTHERS, OURS, PLAIN, documents, files, groups, odd, parsed, plain
from tallybook.ledger.errors import BadInputError
from tallybook.projections.surfaces.install import hook_entries, json_editor

if TYPE_CHECKING:
    from collections.abc import Callable


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
    return [one for hooks in lists for one in hooks if isinstance(one, dict) and isinstance(one.get("command"), str)]


def has_ours(groups: Any) -> bool:
    """Say whether one of OURS stands in the list of an event."""
    return any(one["command"] in OURS for one in commands_in(groups))


@given(files(odd))
def test_an_installation_adds_what_is_missing_and_nothing_else(data: bytes) -> None:
    """One group of ours for each event that does not call us yet, and this line for an older; then nothing more."""
    expected = copy.deepcopy(parsed(data))
    hooks = expected.setdefault("hooks", {})
    for event in CLAUDE.events:
        for one in commands_in(hooks.get(event, [])):
            if one["command"] in PLAIN:
                one["command"] = COMMAND
        if not has_ours(hooks.setdefault(event, [])):
            hooks[event].append({"hooks": [{"type": "command", "command": COMMAND, "timeout": 10}]})
    done = install(data)
    assert json.dumps(expected) == json.dumps(parsed(done))
    assert done == install(done)


@given(files(kept))
def test_an_installation_takes_no_byte_away(data: bytes) -> None:
    """What stood there stands there still, in its order, but for white space in what was empty."""
    rest = iter(install(data).decode())
    assert all(char in rest for char in data.decode() if not char.isspace())


@given(files(others))
@example(b"{\n}\n")
@example(b'{"a": 1\n}')
@example(b'{ "a" : 1 }')
@example(b'{\n    "a": 1\n  , "hooks": {\n      "Stop": [{"hooks": [{"command": "x"}]}]\n  }\n}')
def test_what_was_put_in_is_taken_out_to_the_byte(data: bytes) -> None:
    """Also where nobody kept a backup."""
    assert parsed(data) == parsed(remove(install(data)))
    if parsed(data):
        assert data == remove(install(data))


@given(files(odd))
def test_nothing_of_ours_is_left(data: bytes) -> None:
    """Whoever put it there, and whatever stands around it; taking out again takes nothing."""
    done = remove(data)
    assert [] == hook_entries.own_commands(done, CLAUDE, "settings.json")
    assert done == remove(done)


@given(others, st.sampled_from([None, 2, "\t"]), st.sampled_from(list(CLAUDE.events)), st.booleans())
def test_what_others_wrote_meanwhile_stays(before: dict[str, Any], indent: Any, event: str, shared: bool) -> None:
    """A program that writes the whole file anew, a key of its own, a hook beside ours: our hooks alone go."""
    entry = {"type": "command", "command": "theirs"}
    installed = parsed(install(json.dumps(before).encode()))
    (own,) = [group for group in installed["hooks"][event] if has_ours([group])]
    if shared:
        own["hooks"].append(entry)
    else:
        installed["hooks"][event].insert(0, {"hooks": [entry]})
    done = parsed(remove(json.dumps({"theirs": 1} | installed, indent=indent).encode()))
    kept = before.get("hooks", {}).get(event, [])
    expected_own = {"hooks": [entry]}
    expected = [*kept, expected_own] if shared else [expected_own, *kept]
    assert expected == done["hooks"].pop(event)
    hooks = {name: value for name, value in before.get("hooks", {}).items() if name != event}
    assert {"theirs": 1} | before | {"hooks": hooks} == done


@pytest.mark.parametrize(
    "line", ["cd /x && tallybook hook", "mine; tallybook hook", "mine\ntallybook hook", f"mine && {COMMAND}"]
)
def test_a_command_line_that_does_more_is_not_taken_out(line: str) -> None:
    """It counts as installed, and taking it out would take somebody else's command."""
    data = json.dumps({"hooks": {event: [CLAUDE.group(line, 10)] for event in CLAUDE.events}}).encode()
    assert data == install(data)
    assert data == remove(data)


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


@given(files(odd), plain)
def test_an_item_is_put_in_and_taken_out_anywhere(data: bytes, value: Any) -> None:
    """At the end of every object and array of a text; where it is not the only one, not a byte remembers it."""
    text = data.decode().removeprefix("\ufeff")
    paths: list[tuple[tuple[str | int, ...], Any]] = [((), json.loads(text))]
    for path, found in paths:
        inner = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
        paths += [((*path, step), one) for step, one in inner]
    for path, found in paths:
        if not isinstance(found, dict | list):
            continue
        key = "".join(found) + "new" if isinstance(found, dict) else None
        more = json_editor.insert(text, path, key, value)
        node = json.loads(more)
        for step in path:
            node = node[step]
        assert json.dumps(value) == json.dumps(list(node.values())[-1] if isinstance(node, dict) else node[-1])
        less = json_editor.remove(more, (*path, len(found) if key is None else key))
        assert less == text if found else json.loads(less) == json.loads(text)
