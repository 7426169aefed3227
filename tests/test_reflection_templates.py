"""Templates of prompts: the user's own, else the packaged ones."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tallybook.projections.surfaces.workspace.templates import load_template

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def own_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the user's own template around the entries, in a home folder that begins empty."""
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / ".claude" / "prompts" / "playbook.txt"
    path.parent.mkdir(parents=True)
    return path


def test_a_template_of_the_user_replaces_the_packaged_one(own_template: Path) -> None:
    """The user's own is read as UTF-8, and bytes that are not UTF-8 are replaced."""
    own_template.write_bytes("Mine, ünï: {key_points} ".encode() + b"\xff\n")
    assert "Mine, ünï: {key_points} \ufffd\n" == load_template()


def test_a_template_that_cannot_be_read_leaves_the_packaged_one(own_template: Path) -> None:
    """A pipe in its place is not waited for."""
    os.mkfifo(own_template)
    assert load_template().count("{key_points}") == 1


@pytest.mark.usefixtures("own_template")
def test_the_packaged_template_asks_to_name_the_entries_that_are_used() -> None:
    """It asks once, after the entries, and gives no name that an agent could repeat as its own (rule 22)."""
    before, after = load_template().split("{key_points}")
    assert "name it in square brackets in that sentence, as at the start of its line" in after
    assert "kpt_" not in before + after
