"""A person's consent: what publishes or destroys asks on a terminal, needs `--yes` off one, and is no agent's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from helpers.git_repositories import git
from helpers.shared_clones import Machine, make_clones, share_all
from helpers.transcripts import Script

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.name != "posix", reason="terminals are made on POSIX")

INSIDE = {"CLAUDECODE": "1"}
ON_A_BOOK = [["repair"], ["upgrade"], ["publish", "2"]]
"""What changes the book for everyone, or publishes a text that was masked."""


def refs(remote: Path) -> str:
    """Return the refs of a repository, each with its commit."""
    return str(git(remote, "for-each-ref"))


@pytest.fixture
def clone(tmp_path: Path) -> tuple[Path, Machine]:
    """Return a remote and a machine with a clone of it, whose playbook has an entry."""
    remote, (machine,) = make_clones(tmp_path, "anna")
    machine.do("add", "Use type hints")
    return remote, machine


@pytest.mark.parametrize("more", [[], ["--yes"], ["--yes", "--json"]])
def test_sharing_is_refused_inside_an_agent(clone: tuple[Path, Machine], more: list[str]) -> None:
    """`share git` inside an agent exits 1 and publishes nothing, with `--yes` too; it names the agent's variable."""
    remote, machine = clone
    before = refs(remote)
    machine.environment |= INSIDE
    answer = machine.run("share", "git", *more)
    expected = (
        "tallybook: share git: only a person may do this, and it was typed inside claude (CLAUDECODE is set); "
        "nothing was recorded\n"
    )
    assert (1, expected, before) == (answer.code, answer.err, refs(remote))
    assert not (machine.root / ".claude/ledger/book").exists()


def test_sharing_off_a_terminal_needs_yes(clone: tuple[Path, Machine]) -> None:
    """`share git` without a terminal and without `--yes` exits 2, says what it would publish, and publishes nothing."""
    remote, machine = clone
    before = refs(remote)
    answer = machine.run("share", "git")
    expected = f"share git: publishes the playbook at {remote}; give --yes; nothing was changed"
    assert (2, True, before) == (answer.code, expected in answer.err, refs(remote))
    machine.do("share", "git", "--yes")
    assert before != refs(remote)


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


def test_what_changes_the_book_for_everyone_needs_consent(tmp_path: Path) -> None:
    """`share repair`, `upgrade` and `publish` need `--yes` off a terminal, and are refused inside an agent."""
    remote, machines = make_clones(tmp_path, "anna")
    share_all(machines)
    (machine,) = machines
    before = refs(remote)
    for words in ON_A_BOOK:
        answer = machine.run("share", *words)
        assert (2, True) == (answer.code, "give --yes; nothing was changed" in answer.err), answer
    machine.environment |= INSIDE
    for words in ON_A_BOOK:
        answer = machine.run("share", *words, "--yes")
        assert (1, True) == (answer.code, "only a person may do this" in answer.err), answer
    assert before == refs(remote)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["reflect", "--from", "{old}", "--rater", "claude", "--yes"], 1),
        (["reflect", "--rater", "claude"], 1),
        (["reflect", "--from", "{old}", "--rater", "claude", "--dry-run"], 0),
    ],
)
def test_an_agent_chooses_no_rater(clone: tuple[Path, Machine], tmp_path: Path, words: list[str], code: int) -> None:
    """Inside an agent, `reflect` sends sessions only to the rater of the settings, and no folder of transcripts."""
    _, machine = clone
    old = tmp_path / "old"
    old.mkdir()
    Script(old / "a.jsonl", "a").user("Hello", timestamp="2026-11-20T10:00:00.000Z")
    machine.environment |= INSIDE
    answer = machine.run(*(word.format(old=old) for word in words))
    assert (code, code == 1) == (answer.code, "only a person may do this" in answer.err), answer
