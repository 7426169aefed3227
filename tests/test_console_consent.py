"""A person's consent: what publishes or destroys asks on a terminal, needs `--yes` off one, and is no agent's."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.git_repositories import git
from helpers.shared_clones import Machine, make_clones
from helpers.transcripts import Script

INSIDE = {"CLAUDECODE": "1"}


def refs(remote: Path) -> str:
    """Return the refs of a repository, each with its commit."""
    return str(git(remote, "for-each-ref"))


@pytest.fixture
def clone(tmp_path: Path) -> tuple[Path, Machine]:
    """Return a remote and a machine with a clone of it, whose playbook has an entry."""
    remote, (machine,) = make_clones(tmp_path, "anna")
    machine.do("add", "Use type hints")
    return remote, machine


@pytest.mark.parametrize(("typed", "is_shared"), [("\n", False), ("n\n", False), ("y\n", True)])
def test_sharing_on_a_terminal_asks_and_takes_return_for_no(
    clone: tuple[Path, Machine], typed: str, *, is_shared: bool
) -> None:
    """`share git` on a terminal asks; only a yes publishes, and return alone is a no."""
    remote, machine = clone
    before = refs(remote)
    lines = "\n".join(machine.at_terminal("share", "git", typed=typed))
    assert "Share it? [y/N]" in lines
    assert is_shared == (before != refs(remote))
    assert is_shared != ("share git: not confirmed; nothing was changed" in lines)


def test_the_terminal_of_an_agent_is_no_place_to_ask(clone: tuple[Path, Machine]) -> None:
    """Inside an agent that gives its commands a terminal, `share git` and `init` ask nothing and publish nothing."""
    remote, machine = clone
    before = refs(remote)
    machine.environment |= INSIDE
    said = "\n".join([*machine.at_terminal("share", "git", typed="y\n"), *machine.at_terminal("init", typed="y\n" * 3)])
    assert "only a person may do this" in said
    assert "[y/N]" not in said
    assert before == refs(remote)


def test_an_agent_may_see_what_a_rater_would_be_sent(clone: tuple[Path, Machine], tmp_path: Path) -> None:
    """Inside an agent `reflect --dry-run` prints the prompts for a folder of transcripts, and sends nothing."""
    _, machine = clone
    old = tmp_path / "old"
    old.mkdir()
    Script(old / "a.jsonl", "a").user("Hello", timestamp="2026-11-20T10:00:00.000Z")
    machine.environment |= INSIDE
    assert 0 == machine.run("reflect", "--from", str(old), "--rater", "claude", "--dry-run").code
