"""Our hooks in settings of every shape and layout: put in, taken out, and nothing of anybody else's touched."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.agent_settings import CLAUDE
from helpers.settings_files import COMMAND, KEPT, OTHERS, OURS, documents, groups, parsed, plain
from tallybook.ledger.errors import BadInputError
from tallybook.projections.surfaces.install import hook_entries

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
    return [
        hook for hooks in lists for hook in hooks if isinstance(hook, dict) and isinstance(hook.get("command"), str)
    ]


def has_ours(groups: Any) -> bool:
    """Say whether one of OURS stands in the list of an event."""
    return any(one["command"] in OURS for one in commands_in(groups))


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
