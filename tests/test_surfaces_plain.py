"""A plain record without Click: what it understands it understands as Click does, and what it loads."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from projections.surfaces import cli, plain

if TYPE_CHECKING:
    from pathlib import Path

RATING = '{"evaluations": [{"name": "kpt_001", "rating": "helpful"}]}'
LOAD = """
import sys
from projections.surfaces.entry import run
code = run(sys.argv[1:])
print([name for name in ("click", "rich", "yaml") if name in sys.modules])
sys.exit(code)
"""
WORDS = (
    "--project",
    "--key",
    "--session",
    "--rater",
    "--agent",
    "--model",
    "--json",
    "record",
    "-",
    "x.json",
    "--help",
)


def by_click(arguments: list[str]) -> dict[str, Any]:
    """Return what Click makes of the same words: its parameters of the group and of the verb."""
    seen: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli.tallybook, "callback", lambda folder: seen.update(project=folder))
        patch.setattr(cli.tallybook.commands["record"], "callback", seen.update)
        cli.tallybook.main(list(arguments), standalone_mode=False)
    return seen


def test_a_plain_record_is_understood() -> None:
    """The command line of the README is read without Click."""
    options = plain.read(["--project", "p", "record", "--session", "s", "--key", "s:1", "--json", "-"])
    assert {"project": "p", "verb": "record", "session": "s", "key": "s:1", "json": "--json", "file": "-"} == options


@pytest.mark.parametrize(
    "arguments",
    [["record", "--help"], ["record", "--key=1"], ["record", "a", "b"], ["record", "--key"], ["rate", "record", "x"]],
    ids=" ".join,
)
def test_anything_else_is_left_to_click(arguments: list[str]) -> None:
    """Help, other spellings and mistakes are not guessed at."""
    assert plain.read(arguments) is None


@given(st.lists(st.sampled_from(WORDS), max_size=7))
def test_it_agrees_with_click(words: list[str]) -> None:
    """Whatever is read without Click, Click reads the same."""
    options = plain.read(words)
    if options is None:
        return
    clicked = by_click(words)
    expected = {field: value for field, value in clicked.items() if value not in {None, False}}
    expected.setdefault("file", "-")
    ours: dict[str, Any] = {"rater": plain.RECORD_RATER, "file": "-", **options}
    ours["as_json"] = ours.pop("json", None) is not None
    del ours["verb"]
    assert expected == {field: value for field, value in ours.items() if value is not False}


def test_a_record_in_a_pipe_loads_neither_click_nor_rich(project: Path) -> None:
    """A script that records pays for no command line library, and gets the stable answer."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, "--project", str(project), "record", "--json"],
        input=RATING.encode(),
        capture_output=True,
        check=True,
    )
    first, loaded = done.stdout.decode().splitlines()
    assert ["seq_from", "seq_to", "added", "pruned", "ignored", "spooled"] == list(json.loads(first))
    assert "[]" == loaded
