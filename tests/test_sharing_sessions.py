"""Sessions sync in a process of their own, and what that did is told once, by the real hook and the real command."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import json
import os
from pathlib import Path
import time

import pytest

from helpers.git_repositories import git
from helpers.shared_clones import Machine, make_clones, share_all, wait_until
from tallybook.projections.surfaces.hooks import sync_results

DAY_US = 24 * 3600 * 1_000_000


@pytest.fixture
def machines(tmp_path: Path) -> list[Machine]:
    """Return two machines that share a playbook through git."""
    _, machines = make_clones(tmp_path, "anna", "ben")
    share_all(machines)
    return machines


def _read_told(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("note: sync ")]


@pytest.mark.parametrize("event", ["SessionStart", "SessionEnd"])
def test_a_session_syncs_detached(machines: list[Machine], event: str) -> None:
    """At its start and at its end a process of its own publishes what is pending and takes in what others published."""
    anna, ben = machines
    ben.do("add", "Write tests")
    assert (0, "") == (ben.hook(event, source="startup").code, ben.hook("Stop").err)
    wait_until(lambda: b"Write tests" in ben.replica())
    assert 0 == anna.hook(event, source="startup").code
    wait_until(lambda: b"Write tests" in anna.replica())
    wait_until(lambda: len(anna.entries()) == 2)
    assert anna.entries() == ben.entries()


def test_a_hook_waits_for_no_engine(machines: list[Machine], tmp_path: Path) -> None:
    """The hook ends at once although git hangs, and its sync holds nothing of the agent's open."""
    anna, _ = machines
    slow = tmp_path / "bin"
    slow.mkdir()
    (slow / "git").write_text('#!/bin/sh\necho >> "$HOME/asked"\nsleep 5\n')
    (slow / "git").chmod(0o755)
    anna.environment["PATH"] = f"{slow}{os.pathsep}{anna.environment['PATH']}"
    begun = time.monotonic()
    # Reads both pipes to their ends, which a child that inherited them would hold open.
    assert (0, "", "") == anna.hook("SessionEnd")[:3]
    assert time.monotonic() - begun < 4
    wait_until((anna.home / "asked").exists)


def test_what_a_detached_sync_changed_is_told_once(machines: list[Machine]) -> None:
    """The next command on a terminal prints a line for each change on standard error; a command in a pipe does not."""
    anna, ben = machines
    ben.do("add", "Write tests")
    ben.do("rate", "kpt_001", "helpful")
    ben.do("sync")
    anna.hook("SessionStart", source="startup")
    wait_until(lambda: any(result["changes"] for result in anna.results()))
    assert "" == anna.run("show").err
    told = _read_told(anna.at_terminal("show"))
    assert ["+ kpt_101  0 helpful and 0 harmful: Write tests", "~ kpt_001  helpful 0 to 1"] == [
        line.split(": ", 2)[2] for line in told
    ]
    assert [] == _read_told(anna.at_terminal("show"))
    assert "+ kpt_101  0 helpful and 0 harmful: Write tests" in anna.do("share", "status")


def test_a_problem_is_told_once_and_again_after_it_was_solved(machines: list[Machine]) -> None:
    """An engine that cannot be reached is one line, however often sessions meet it; the same problem later is new."""
    anna, _ = machines
    remote = anna.home.parent / "remote.git"
    for _round in range(2):
        remote.rename(remote.with_name("away.git"))
        for _session in range(2):
            assert 0 != anna.run("sync").code
        assert 1 == len([line for line in _read_told(anna.at_terminal("show")) if "cannot be reached" in line])
        assert 0 != anna.run("sync").code
        assert [] == _read_told(anna.at_terminal("show"))
        remote.with_name("away.git").rename(remote)
        anna.do("sync")
        assert [] == _read_told(anna.at_terminal("show"))


def test_what_sync_printed_on_a_terminal_is_not_told_again(machines: list[Machine]) -> None:
    """A person who typed `sync` has read its answer."""
    anna, ben = machines
    ben.do("add", "Write tests")
    ben.do("sync")
    assert any("Write tests" in line for line in anna.at_terminal("sync"))
    assert [] == _read_told(anna.at_terminal("show"))


def test_results_are_told_once_by_commands_at_the_same_time(machines: list[Machine]) -> None:
    """While syncs store results, commands on terminals tell each of them, and none of them twice."""
    anna, _ = machines
    total = 12

    def store() -> None:
        for number in range(total):
            with sync_results.open_results(anna.project) as results:
                sync_results.add(results, (1, 1), [f"+ change {number}"], [], shown=False)

    with ThreadPoolExecutor(4) as pool:
        storing = pool.submit(store)
        told = [line for lines in pool.map(anna.at_terminal, ["show"] * 5) for line in _read_told(lines)]
        storing.result()
    told += _read_told(anna.at_terminal("show"))
    assert sorted(f"+ change {number}" for number in range(total)) == sorted(line.split(": ", 2)[2] for line in told)


def test_the_session_hook_tells_only_of_an_old_failure(machines: list[Machine]) -> None:
    """A failure of today is silent at a session's start; one of more than a day is one line on standard error."""
    anna, _ = machines
    remote = anna.home.parent / "remote.git"
    remote.rename(remote.with_name("away.git"))
    assert 0 != anna.run("sync").code
    assert "" == anna.hook("SessionStart", source="startup").err
    wait_until(lambda: anna.results()[-1]["at"] != anna.results()[-1]["since"])
    path = anna.root / ".claude/ledger/book/results.json"
    results = json.loads(path.read_bytes())
    results[-1]["since"] -= DAY_US
    path.write_text(json.dumps(results))
    answer = anna.hook("SessionStart", "s2", source="startup")
    assert (0, 1) == (answer.code, len(answer.err.splitlines()))
    assert "tallybook: sync: has failed since" in answer.err
    assert "Use type hints" in answer.out


def test_a_planted_file_of_results_breaks_nothing(machines: list[Machine]) -> None:
    """What is not a file of results is read as none, and the next sync writes it anew."""
    anna, ben = machines
    path = anna.root / ".claude/ledger/book/results.json"
    for planted in ("[", "{}", '"x"', "7", "[[]]", '[{"at":1}]'):
        path.write_text(planted)
        assert [] == sync_results.read(anna.project)
    ben.do("add", "Write tests")
    ben.do("sync")
    anna.do("sync")
    assert 1 == len(_read_told(anna.at_terminal("show")))
    path.write_text("[[]]")
    # Last, because it leaves a sync in the background behind.
    assert (0, "") == anna.hook("SessionStart", source="startup")[::2]


def test_a_planted_link_to_results_is_not_followed(machines: list[Machine], tmp_path: Path) -> None:
    """A link in place of the file of results is neither read nor written through."""
    anna, _ = machines
    target = tmp_path / "target"
    target.write_text("mine")
    path = anna.root / ".claude/ledger/book/results.json"
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    assert 0 == anna.run("sync").code
    assert [] == _read_told(anna.at_terminal("show"))
    assert "mine" == target.read_text()


def test_init_offers_to_share_where_there_is_a_remote(tmp_path: Path) -> None:
    """It prints the command where the clone has a remote and shares nothing, and says nothing elsewhere."""
    remote, (anna,) = make_clones(tmp_path, "anna")
    assert "`tallybook share git` shares the playbook" in anna.do("init")
    anna.do("share", "git", "--yes")
    assert "share git" not in anna.do("init")
    alone = Machine(tmp_path / "alone", remote)
    assert "share git" not in alone.do("init")


def test_share_keeps_the_playbook_out_of_git(machines: list[Machine]) -> None:
    """After `share git` nothing of Tallybook shows in `git status`, and only the clone's own exclude file changed."""
    for machine in machines:
        assert "" == git(machine.root, "status", "--porcelain")
        assert b"/.claude/playbook.json\n" in (machine.root / ".git/info/exclude").read_bytes()


def sync_without_result(machine: Machine) -> None:
    """Leave what a sync leaves that is killed before its last step, in which it stores its result."""
    stored = machine.root / ".claude/ledger/book/results.json"
    before = stored.read_bytes()
    machine.do("sync")
    stored.write_bytes(before)


def test_what_a_killed_sync_changed_is_told_once(machines: list[Machine]) -> None:
    """The ledger says which syncs nobody was told of: the next command on a terminal tells each change once."""
    anna, ben = machines
    for text in ("Write tests", "Name units"):
        ben.do("add", text)
        ben.do("sync")
        sync_without_result(anna)
    ben.do("rate", "kpt_101", "helpful")
    ben.do("sync")
    # A sync that fails, and one that succeeds, store what was missed before as well.
    remote = anna.home.parent / "remote.git"
    remote.rename(remote.with_name("away.git"))
    assert 0 != anna.run("sync").code
    remote.with_name("away.git").rename(remote)
    anna.do("sync")
    changes = [
        "+ kpt_101  0 helpful and 0 harmful: Write tests",
        "+ kpt_102  0 helpful and 0 harmful: Name units",
        "~ kpt_101  helpful 0 to 1",
    ]
    told = [line.split(": ", 2)[2] for line in _read_told(anna.at_terminal("show"))]
    assert changes == [line for line in told if line in changes]
    ben.do("rate", "kpt_102", "harmful")
    ben.do("sync")
    sync_without_result(anna)
    assert "" == anna.run("show").err
    assert ["~ kpt_102  harmful 0 to 1"] == [line.split(": ", 2)[2] for line in _read_told(anna.at_terminal("show"))]
    assert [] == _read_told(anna.at_terminal("show"))
