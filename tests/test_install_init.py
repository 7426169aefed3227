"""``init`` and ``uninstall`` on real folders: what they write, show, leave alone and refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given
from hypothesis import settings as profile
import pytest

from helpers.agent_settings import BACKUP, CLAUDE, OURS, THEIRS, claude, on_path, tree
from helpers.hook_calls import START, call, told
from helpers.settings_files import files, odd, parsed
from helpers.sweep import slice_of
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.install import hook_entries
from tallybook.projections.surfaces.install.hook_entries import hook_command
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.command_line import Answer

__all__ = ["claude", "on_path"]


HOOK_START = "import sys; sys.path.append(sys.argv[1]); import hook_start; hook_start.main()"
EARLIER = [
    "tallybook hook",
    "'/my bin/tallybook' hook",
    f"/x/python3 -I -S -X utf8 -c '{HOOK_START}' '/my lib' || tallybook hook || :",
]
"""Command lines that earlier versions of `init` wrote."""
pytestmark = pytest.mark.usefixtures("_installed")


def test_an_empty_project_is_ready_for_the_next_session(claude: Path, run: Callable[..., Answer]) -> None:
    """Hooks for every event, the slash command, commented settings, a ledger; one entry later a session is told it."""
    answer = run("init")
    assert (0, "") == (answer.code, answer.err)
    assert OURS == list(tree(claude))
    group = {"hooks": [{"type": "command", "command": hook_command(), "timeout": 10}]}
    assert {"hooks": {event: [group] for event in CLAUDE.events}} == json.loads((claude / "settings.json").read_bytes())
    assert [] == commands.show(Project(claude.parent))["key_points"]
    assert 0 == run("add", "Use type hints").code
    assert "Use type hints" in told(call(START))
    toml = (claude / "config" / "tallybook.toml").read_text().splitlines()
    assert ["[playbook]", "[reflection]", "[mcp]", "[ledger]", "[curation]", "[lift]"] == [
        line for line in toml if line and not line.startswith("#")
    ]


def test_an_old_playbook_begins_the_ledger(
    claude: Path, run: Callable[..., Answer], write_playbook: Callable[[object], Path]
) -> None:
    """Its entries are seed events at once; one that cannot be read is set aside, and that is said."""
    write_playbook({"key_points": ["old advice", {"text": "more", "score": 2}]})
    assert f"created {claude / 'ledger' / 'events.jsonl'}: from {claude / 'playbook.json'}\n" in run("init").out
    assert ["old advice", "more"] == [point["text"] for point in commands.show(Project(claude.parent))["key_points"]]


def test_a_broken_playbook_begins_an_empty_ledger(claude: Path, run: Callable[..., Answer]) -> None:
    """A file that cannot be read is set aside, and the ledger is not said to begin from it."""
    claude.mkdir(exist_ok=True)
    (claude / "playbook.json").write_text("{broken")
    answer = run("init")
    assert f"created {claude / 'ledger' / 'events.jsonl'}: with an empty playbook\n" in answer.out
    assert "playbook.json: cannot be used, and is set aside" in answer.err


def test_without_settings_before_there_are_none_afterwards(claude: Path, run: Callable[..., Answer]) -> None:
    """The files and folders that came go; the ledger and playbook.json stay; a second time there is nothing to do."""
    run("init")
    run("add", "stays")
    ledger = (claude / "ledger" / "events.jsonl").read_bytes()
    answer = run("uninstall", "--json")
    assert OURS == sorted(
        Path(step["path"]).relative_to(claude).as_posix() for step in json.loads(answer.out)["changed"]
    )
    assert {"ledger", "playbook.json"} == {path.name for path in claude.iterdir()}
    assert ledger == (claude / "ledger" / "events.jsonl").read_bytes()
    again = run("uninstall")
    assert (0, f"Nothing to remove: Tallybook has nothing in {claude.parent}.\n", "") == again


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


@pytest.mark.parametrize("before", [None, THEIRS])
@pytest.mark.parametrize("line", EARLIER)
def test_an_older_installation_is_brought_up_to_date(
    claude: Path, run: Callable[..., Answer], before: bytes | None, line: str
) -> None:
    """Its command line is replaced and shown, no backup of it is made, and it is taken back as ever."""
    if before is not None:
        (claude / "settings.json").write_bytes(before)
    run("init")
    now = (claude / "settings.json").read_bytes()
    old = now.replace(json.dumps(hook_command()).encode(), json.dumps(line).encode())
    (claude / "settings.json").write_bytes(old)
    assert json.dumps(line) in run("init", "--dry-run").out
    assert 0 == run("init").code
    assert now == (claude / "settings.json").read_bytes()
    assert (before is not None) == (claude / BACKUP).exists()
    assert "Nothing to change" in run("init").out
    run("uninstall")
    assert ({} if before is None else {"settings.json": before}) == tree(claude)


def test_what_a_person_made_ones_own_is_left(claude: Path, run: Callable[..., Answer]) -> None:
    """A command of the same name and settings that were changed are neither written over nor taken away."""
    names = ("commands/playbook.md", "config/tallybook.toml")
    for name in names:
        (claude / name).parent.mkdir()
        (claude / name).write_text("mine")
    left = [f"left {claude / name}: differs from what this version writes, so it is yours\n" for name in names]
    for verb in ("init", "uninstall"):
        out = run(verb).out
        assert [True, True] == [line in out for line in left]
    assert {"commands/playbook.md": b"mine", "config/tallybook.toml": b"mine"} == tree(claude)


def test_a_hook_behind_somebody_elses_command_is_left(claude: Path, run: Callable[..., Answer]) -> None:
    """Which command line it is, is said."""
    mixed = {"hooks": {event: [CLAUDE.item("mine && tallybook hook", 10)] for event in CLAUDE.events}}
    (claude / "settings.json").write_text(json.dumps(mixed))
    assert "has the hooks already" in run("init").out
    assert "`mine && tallybook hook` does more than call Tallybook; remove it yourself" in run("uninstall").out
    assert mixed == parsed((claude / "settings.json").read_bytes())
