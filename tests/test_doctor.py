"""`doctor`: each fault made for real in a project, and named with its fix; nothing is changed, and nothing leaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import json
from pathlib import Path
import re
import shutil
import sys

import pytest

from helpers.agent_settings import CLAUDE
from helpers.commands import ROOT, run, run_unprivileged
from helpers.doctor import examine, file_states, levels, lines_of
from helpers.events import HUMAN
from helpers.hook_calls import START, call
from helpers.ledger_files import hold_ledger_lock
from tallybook.ledger.errors import OutcomeUnknownError
from tallybook.ledger.storage import disk, redaction
from tallybook.projections.surfaces.cli.doctor import CHECKS, Finding, check_hooks, exit_code, run_checks
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.install import hook_entries
from tallybook.projections.surfaces.install.hook_entries import tool_command
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project whose ledger holds one key point and one rating."""
    here = Project(project)
    commands.add(here, "Use type hints", HUMAN)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    return here


# The whole verb


def test_nothing_is_changed(here: Project) -> None:
    """Neither a byte nor a time of any file changes, whatever ails the project."""
    redaction.add_pending(here.ledger, ("019a",), ("hunter2",), "secret", HUMAN)
    (here.ledger / "head").write_bytes(b"torn")
    with (here.ledger / "events.jsonl").open("ab") as log:
        log.write(b'{"crc":"')
    here.playbook.write_bytes(b"junk")
    before = file_states(here.root)
    lines_of(run(here, "doctor"), 1)
    assert before == file_states(here.root)


def test_a_project_that_may_not_be_read_says_so(here: Project) -> None:
    """A folder that is closed to the user is told in one line, with exit code 1."""
    here.claude.chmod(0o000)
    lines = lines_of(run_unprivileged(here, "doctor"), 1)
    here.claude.chmod(0o700)
    what = f"bad   project: {here.claude} is not a folder that you may read"
    assert [f"{what}; ask its owner for access, or put a folder in its place"] == lines


def test_a_file_that_may_not_be_read_is_named_with_the_right_that_lacks(here: Project) -> None:
    """A command asks for the right to read, and doctor does not say that the ledger may be read."""
    here.playbook.chmod(0o000)
    shown = run_unprivileged(here, "show").err
    here.playbook.chmod(0o600)
    (here.ledger / "events.jsonl").chmod(0o000)
    modes = lines_of(run_unprivileged(here, "doctor"), 1)[1]
    (here.ledger / "events.jsonl").chmod(0o600)
    why = "cannot be read: Permission denied; nothing was recorded; get the right to read there first"
    assert f"tallybook: {here.playbook}: {why}\n" == shown
    assert modes.startswith("note  modes: you may not read or write ledger/events.jsonl; ")


def test_the_reference_has_every_check() -> None:
    """The table of the reference names the checks in their order, each with what fixes its findings."""
    page = (ROOT / "projections" / "surfaces" / "COMMANDS.md").read_text(encoding="utf-8")
    rows = page.partition("## The checks of doctor\n")[2].partition("\n## ")[0]
    cells = [line.split(" | ") for line in rows.splitlines() if line.startswith("| `")]
    assert list(CHECKS) == [name for row in cells for name in re.findall("`(.*?)`", row[0])]
    assert all(row[2].strip(" |") for row in cells)


# The runner


def test_a_check_that_fails_says_so_and_ends_no_other(here: Project) -> None:
    """It has not passed, of two that fail for one reason one says so, and what was found before stays."""

    def failing(_: object) -> Iterator[Finding]:
        yield Finding("note", "so far")
        raise ValueError("no number")

    def fine(_: object) -> Iterator[Finding]:
        yield Finding("ok", "well")

    findings = run_checks(here, {"first": failing, "second": fine, "third": failing})
    assert [
        ("first", "so far"),
        ("first", "could not be checked: ValueError: no number"),
        ("second", "well"),
        ("third", "so far"),
    ] == [(finding.check, finding.message) for finding in findings]


# Each fault, and what names and fixes it


def _fail_a_flush(here: Project) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "flush_data", fail)
        with pytest.raises(OutcomeUnknownError):
            commands.rate(here, "kpt_001", "helpful", HUMAN)


def _leave_a_payload(here: Project) -> None:
    with hold_ledger_lock(here):
        commands.rate(here, "kpt_001", "helpful", HUMAN)


def _interrupt_a_redaction(here: Project) -> None:
    added = next(record for batch in reading.batches(here) for record in batch.records if record.seq == 2)
    redaction.add_pending(here.ledger, (added.id,), ("Use type hints",), "wrong", HUMAN)


FAULTS: dict[str, tuple[Callable[[Project], object], str, str, str, bool]] = {
    "a failed flush": (_fail_a_flush, "head", "bad", "1 flush failed, and the disk may have lost", False),
    "a payload": (_leave_a_payload, "spool", "note", "1 payload waiting", True),
    "an awaiting redaction": (_interrupt_a_redaction, "redaction", "bad", "may still be on disk", True),
}
"""Name → what makes the fault, the check that names it, level, a part of the message, and whether `replay` fixes it."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_by_its_check_with_its_fix(here: Project, fault: str) -> None:
    """Damage costs exit code 3, what is bad 1, and a note nothing; what `replay` fixes is gone after it."""
    make, check, level, message, is_fixed_by_replay = FAULTS[fault]
    make(here)
    findings = examine(here)
    (found,) = [
        finding
        for finding in findings
        if finding.check == check and finding.level != "ok" and message in finding.message
    ]
    code = 1 if level == "bad" else 0
    assert (level, True, code) == (found.level, bool(found.fix), exit_code(findings))
    if is_fixed_by_replay:
        commands.replay(here)
        assert {} == levels(here)


# Hooks


@pytest.fixture
def on_path(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program called `tallybook` on PATH, and nothing else."""
    program = tmp_path_factory.mktemp("bin") / "tallybook"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return program


def hook_findings(here: Project) -> list[tuple[str, str, str]]:
    """Return level, message and fix of what the check of hooks finds."""
    return [(finding.level, finding.message, finding.fix) for finding in check_hooks(here)]


def install(here: Project, line: str) -> Path:
    """Have Claude Code call a command line at every event."""
    path = here.claude / "settings.json"
    path.write_bytes(hook_entries.install(None, CLAUDE, line, "settings"))
    return path


def test_a_missing_program_is_bad(here: Project, on_path: Path) -> None:
    """What the command line names must be found as a shell finds it; for a shared file `init` mends nothing."""
    path = install(here, "tallybook hook")
    on_path.unlink()
    ((message, fix),) = [(message, fix) for level, message, fix in hook_findings(here) if level == "bad"]
    assert f"{path}: the hooks call `tallybook`, which is not on PATH" == message
    assert f"run `{tool_command()}`, or run `tallybook init` to write a working command" == fix
    # Only `tallybook` was on this PATH; where git cannot tell, it tracks the file.
    (here.root / ".git").mkdir()
    assert [f"run `{tool_command()}`"] == [fix for level, _, fix in hook_findings(here) if level == "bad"]


@pytest.mark.parametrize("gone", ["python3", "tallybook/hook.py"])
@pytest.mark.usefixtures("_installed")
def test_a_missing_python_is_named(here: Project, on_path: Path, tmp_path: Path, installed_in: Path, gone: str) -> None:
    """With what is called in its place; where that is gone as well, hooks do nothing."""
    (tmp_path / "tallybook").mkdir()
    for name in ("python3", "tallybook/hook.py"):
        (tmp_path / name).touch()
    line = hook_entries.hook_command().replace(sys.executable, str(tmp_path / "python3"))
    path = install(here, line.replace(str(installed_in), str(tmp_path)))
    assert ["ok"] == [level for level, _, _ in hook_findings(here)]
    (tmp_path / gone).unlink()
    fix = "run `tallybook init` to write a working command"
    note = f"{path}: the hooks start {tmp_path / gone}, which is gone; they fall back on the slower `tallybook`"
    assert ("note", note, fix) in hook_findings(here)
    on_path.unlink()
    bad = f"{path}: the hooks name {tmp_path / gone} and tallybook, and neither exists, so they do nothing"
    assert ("bad", bad, fix) in hook_findings(here)


@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize(
    ("shipped", "installed", "title"),
    [
        ("plugin", ".codex/plugins/cache/market/tallybook/0.1.0", "Codex CLI"),
        ("extension", ".gemini/extensions/tallybook", "Gemini CLI"),
    ],
)
def test_the_plugin_of_another_agent_is_known(here: Project, shipped: str, installed: str, title: str) -> None:
    """Codex names its file in the record of trust as `NAME@MARKETPLACE`."""
    path = Path.home() / installed / "hooks" / "hooks.json"
    shutil.copytree(ROOT / "prompts" / shipped / "hooks", path.parent)
    if shipped == "plugin":
        assert any("they are not trusted" in message for _, message, _ in hook_findings(here))
        events = [re.sub("(?<!^)(?=[A-Z])", "_", event).lower() for event in json.loads(path.read_bytes())["hooks"]]
        keys = [f'[hooks.state."tallybook@market:hooks/hooks.json:{event}:0:0"]\n' for event in events]
        (Path.home() / ".codex" / "config.toml").write_text("".join(keys))
    assert [("ok", f"installed in {path}, for {title}", "")] == hook_findings(here)


def test_a_caller_that_was_not_recognised_is_named(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of two agents give a session nothing, and doctor says what the caller had."""
    monkeypatch.setenv("GEMINI_SESSION_ID", "another")
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(here.root))
    assert "" == call(START)
    what = "the caller of SessionStart: was not recognised, with GEMINI_SESSION_ID, and was given nothing"
    assert what in run(here, "doctor").out


def test_the_last_error_of_a_hook_steers_no_terminal(here: Project) -> None:
    """An error is shown without what steers a terminal; no file changes."""
    (here.ledger / "hook-error").write_bytes("\ud800 \x1b[31mred".encode("utf-8", "surrogatepass"))
    before = file_states(here.root) | file_states(Path.home())
    answer = run(here, "doctor")
    assert (True, False, 0) == ("the last hook error" in answer.out, "\x1b" in answer.out, answer.code)
    assert before == file_states(here.root) | file_states(Path.home())
