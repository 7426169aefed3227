"""`doctor`: each fault made for real in a project, and told in plain words; nothing is changed, and nothing leaks."""

from __future__ import annotations

import json
from pathlib import Path
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.doctor import file_states, levels, lines_of, posix
from helpers.real_command import run, run_unprivileged
from helpers.repository import ROOT
from helpers.spool_files import held
from tallybook.ledger.storage import disk, redaction
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.doctor import checks, finding
from tallybook.projections.surfaces.doctor.finding import Finding
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project whose ledger holds one key point and one rating."""
    here = Project(project)
    commands.add(here, "Use type hints", HUMAN)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    return here


# The whole verb


def test_a_healthy_project_is_one_line(here: Project) -> None:
    """Where nothing is wrong a person reads how many checks passed; JSON has a finding of each, with the head."""
    head = commands.verify(here).head
    findings = json.loads(run(here, "doctor", "--json").out)["findings"]
    assert f"5 events verified; head 5:{head.chain}" == findings[0]["message"]
    passed = len({row["check"] for row in findings})
    assert [f"{passed} checks passed"] == lines_of(run(here, "doctor"), 0)
    assert {} == levels(here)


def test_what_is_wrong_comes_first_and_every_line_has_a_fix(here: Project) -> None:
    """Bad findings stand before notes, each says what fixes it, and how many checks passed is last."""
    with held(here):
        commands.rate(here, "kpt_001", "helpful", HUMAN)
    here.playbook.write_bytes(b"junk")
    *found, passed = lines_of(run(here, "doctor"), 1)
    assert ["bad", "note"] == [line.split()[0] for line in found]
    assert all("; run `tallybook replay`" in line for line in found)
    assert passed.endswith(" checks passed")
    commands.replay(here)
    assert {"set aside": "note"} == levels(here)


def test_an_empty_folder_is_no_fault(tmp_path: Path) -> None:
    """Where there is no ledger yet the doctor says what begins one, and leaves the folder empty."""
    lines = lines_of(run(Project(tmp_path), "doctor"), 0)
    assert 1 == sum(line.startswith(f"note  ledger: there is no ledger yet in {tmp_path}; ") for line in lines)
    assert [] == list(tmp_path.iterdir())


def test_a_damaged_ledger_is_named_to_its_line(here: Project) -> None:
    """Damage costs exit code 3 and is named to its line; the other checks are made all the same."""
    path = here.ledger / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"helpful"', b'"helpfuL"', 1))
    lines = lines_of(run(here, "doctor"), 3)
    (told,) = [line for line in lines if line.startswith("bad ")]
    assert told.startswith("bad   ledger: events.jsonl:4: was changed")
    assert told.endswith("; run `tallybook verify --salvage` to see the intact part")
    answer = json.loads(run(here, "doctor", "--json").out)
    assert ["ok", "findings"] == list(answer)
    assert answer["ok"] is False
    assert [list(one) for one in answer["findings"]] == [["check", "level", "message", "hint"]] * len(
        answer["findings"]
    )
    assert [name for name, *_ in checks.CHECKS if name not in {"git", "sharing", "own playbook"}] == list(
        dict.fromkeys(one["check"] for one in answer["findings"] if one["check"] != "git")
    )


def test_an_end_that_is_cut_off_is_told_by_one_check(here: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """Damage is told by the check of the ledger alone; those that cannot read on say that they did not look."""
    path = here.ledger / "events.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    assert 3 == main.run(["--project", str(here.root), "doctor"])
    lines = capsys.readouterr().out.splitlines()
    bad = [line for line in lines if line.startswith("bad ")]
    assert all(line.startswith("bad   ledger: events.jsonl:") for line in bad)
    assert bad[-1].startswith("bad   ledger: events.jsonl:5: ends 10 bytes before its acknowledged end at seq 5; ")
    assert "note  playbook.json: not checked, because the ledger is damaged" in lines


def test_something_bad_that_is_no_damage_costs_exit_code_1(here: Project) -> None:
    """A spool file that cannot be read is bad, and no damage to the ledger; the hint says what to do."""
    (here.ledger / "spool").mkdir(mode=0o700)
    disk.replace_cache_file(here.ledger / "spool" / "2026-junk.json", b'{"id": 1')
    lines = lines_of(run(here, "doctor"), 1)
    assert 1 == sum(line.startswith("bad   spool: spool/2026-junk.json: cannot be read: JSONDecode") for line in lines)


def test_nothing_is_changed(here: Project) -> None:
    """Neither a byte nor a time of any file changes, whatever ails the project."""
    redaction.write_pending(here.ledger, redaction.PendingRedaction(("019a",), ("hunter2",), "secret", HUMAN))
    (here.ledger / "head").write_bytes(b"torn")
    with (here.ledger / "events.jsonl").open("ab") as log:
        log.write(b'{"crc":"')
    here.playbook.write_bytes(b"junk")
    before = file_states(here.root)
    lines_of(run(here, "doctor"), 1)
    assert before == file_states(here.root)


@posix
def test_a_project_that_may_only_be_read_is_examined(here: Project) -> None:
    """A user who may not write learns that, and everything else."""
    for path in (here.ledger, *here.ledger.iterdir(), here.playbook):
        path.chmod(0o500 if path.is_dir() else 0o400)
    lines = lines_of(run_unprivileged(here, "doctor"), 0)
    here.ledger.chmod(0o700)
    assert 1 == sum(line.startswith("note  writing: you may read and not write ledger, ") for line in lines)


@posix
@pytest.mark.parametrize("closed", [".claude/ledger", ".claude"])
def test_a_project_that_may_not_be_read_says_so(here: Project, closed: str) -> None:
    """A folder that is closed to the user is told in one line, with exit code 1."""
    (here.root / closed).chmod(0o000)
    lines = lines_of(run_unprivileged(here, "doctor"), 1)
    (here.root / closed).chmod(0o700)
    assert [f"bad   project: you have no permission to read {here.root / closed}; ask its owner for access"] == lines


@posix
def test_a_project_that_may_not_be_entered_says_so(here: Project) -> None:
    """Where even the project's own folder is closed, the system's words are told."""
    here.root.chmod(0o000)
    lines = lines_of(run_unprivileged(here, "doctor"), 1)
    here.root.chmod(0o700)
    assert [f"bad   project: {here.root / '.claude'}: Permission denied"] == lines


def test_writers_at_work_are_no_fault(here: Project) -> None:
    """While others append, nothing that is found is bad."""
    script = "import sys\nfrom tallybook.projections.surfaces import commands\n"
    script += "from tallybook.projections.surfaces.workspace.project import Project\n"
    script += "while not sys.stdin.closed and not __import__('select').select([sys.stdin], [], [], 0)[0]:\n"
    script += (
        "    commands.rate(Project(__import__('pathlib').Path(sys.argv[1])), 'kpt_001', 'helpful', {'rater': 'test'})"
    )
    root = Path(__file__).resolve().parent.parent
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(here.root)], stdin=subprocess.PIPE, cwd=root)
        for _ in range(2)
    ]
    before = commands.verify(here).events
    try:
        while commands.verify(here).events < before + 20:
            assert [] == [one for one in checks.run_checks(here) if one.level == "bad"]
    finally:
        for writer in writers:
            writer.communicate(b"\n")
    assert [0, 0] == [writer.returncode for writer in writers]


def test_the_reference_has_every_check() -> None:
    """The table of the reference names the checks in their order, each with what fixes its findings."""
    page = (ROOT / "projections" / "surfaces" / "README.md").read_text(encoding="utf-8")
    rows = page.partition("## The checks of doctor\n")[2].partition("\n## ")[0]
    cells = [line.split(" | ") for line in rows.splitlines() if line.startswith("| `")]
    assert [name for name, *_ in checks.CHECKS] == [name for row in cells for name in re.findall("`(.*?)`", row[0])]
    assert all(row[2].strip(" |") for row in cells)


# The runner


def test_a_check_that_fails_says_so_and_ends_no_other(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that fails is a finding of its own; the one behind it is made, and what was found before stays."""

    def failing(_: object) -> Iterator[Finding]:
        yield Finding("note", "so far")
        raise ValueError("no number")

    def fine(_: object) -> Iterator[Finding]:
        yield Finding("ok", "well")

    monkeypatch.setattr(checks, "CHECKS", (("first", failing, "fine"), ("second", fine, "fine")))
    assert [
        ("first", "so far"),
        ("first", "could not be checked: ValueError: no number"),
        ("second", "well"),
    ] == [(one.check, one.message) for one in checks.run_checks(here)]


def test_a_check_that_fails_is_never_fine(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two checks that fail for one reason, one says so, and neither says that it found nothing wrong."""

    def failing(_: object) -> Iterator[Finding]:
        yield from ()
        raise ValueError("no number")

    monkeypatch.setattr(checks, "CHECKS", (("first", failing, "fine"), ("second", failing, "fine")))
    expected = [("first", "bad", "could not be checked: ValueError: no number")]
    assert expected == [(one.check, one.level, one.message) for one in checks.run_checks(here)]


def test_many_findings_of_one_check_are_cut_for_people_alone() -> None:
    """Eight lines of one check are enough on a terminal; JSON has them all."""
    many = [Finding("note", str(number), check="secrets") for number in range(20)]
    lines = list(checks.format_findings(many))
    assert (9, "      secrets: and 12 more; --json lists them all") == (len(lines), lines[-1])
    assert 20 == len(checks.findings_json(many)["findings"])


def test_what_is_fine_is_shown_where_it_can_be_changed() -> None:
    """A fact that one can act on has its line although nothing is wrong; a check with a finding has not passed."""
    fine = [Finding("ok", "fine", check="hooks"), Finding("ok", "9 tokens", "limit them", check="reflection")]
    assert ["ok    reflection: 9 tokens; limit them", "2 checks passed"] == list(checks.format_findings(fine))
    ailing = Finding("note", "off", "switch it on", check="hooks")
    expected = ["note  hooks: off; switch it on", "ok    reflection: 9 tokens; limit them", "1 check passed"]
    assert expected == list(checks.format_findings([*fine, ailing]))


# The words


def test_many_names_are_cut() -> None:
    """Three names are told, and how many more there are."""
    assert ("a, b, c", "a, b, c and 2 more") == (finding.format_names("abc"), finding.format_names("abcde"))
