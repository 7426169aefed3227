"""`doctor`: each fault made for real in a project, and told in plain words; nothing is changed, and nothing leaks."""

from __future__ import annotations

import json
from pathlib import Path
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.doctor import file_states, levels, lines_of, posix
from helpers.real_command import run, run_unprivileged
from tallybook.ledger import clock
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


def test_a_healthy_project_is_told_in_two_lines(here: Project) -> None:
    """What is fine takes two lines: the ledger with its last chain value, and the names of all that was looked at."""
    head = commands.verify(here).head
    first, second, *rest = lines_of(run(here, "doctor"), 0)
    assert first.startswith(f"ok    ledger: 5 events verified; head 5:{head.chain}; ")
    assert second.startswith("ok    nothing wrong with playbook.json, head, ")
    assert [] == [line for line in rest if not line.startswith(("note  file system", "note  disk", "note  git"))]
    assert {} == levels(here)


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
    assert 1 == sum(line.startswith("ok    ledger: 5 events verified") for line in lines)


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


def test_what_is_told_stands_before_what_is_merely_fine() -> None:
    """A fact has its own line although nothing is wrong; a check that found something is not called fine as well."""
    facts = [Finding("ok", "fine", check="hooks"), Finding("ok", "41 ms", check="hooks", is_always_shown=True)]
    spent = [Finding("ok", "fine", check="disk"), Finding("ok", "9 tokens", check="reflection", is_always_shown=True)]
    assert [
        "ok    hooks: 41 ms",
        "ok    reflection: 9 tokens",
        "ok    nothing wrong with hooks, disk",
    ] == list(checks.format_findings(facts + spent))
    ailing = Finding("note", "cancelled", check="hooks")
    assert ["ok    hooks: 41 ms", "note  hooks: cancelled"] == list(checks.format_findings([*facts, ailing]))


# The words


@pytest.mark.parametrize(
    ("passed_s", "told"),
    [(-5, "0 s"), (59, "59 s"), (60, "1 min"), (7199, "1 h"), (86_400, "1 day"), (172_800, "2 days")],
)
def test_an_age_is_told_in_its_largest_unit(passed_s: int, told: str) -> None:
    """An age is rounded down to the largest unit that it fills; a later moment has none."""
    now = clock.moment(1_800_000_000 * clock.MICROSECONDS)
    context = finding.Context(Project(Path()), now)
    assert told == context.age(now.unix_us - passed_s * clock.MICROSECONDS)


@pytest.mark.parametrize(
    ("number", "told"), [(1, "1 byte"), (1023, "1,023 bytes"), (1024, "1 KB"), (5 << 20, "5 MB"), (3 << 40, "3,072 GB")]
)
def test_a_size_is_told_in_its_largest_unit(number: int, told: str) -> None:
    """A size is rounded down to the largest unit that it fills."""
    assert told == finding.format_size(number)


def test_many_names_are_cut() -> None:
    """Three names are told, and how many more there are."""
    assert ("a, b, c", "a, b, c and 2 more") == (finding.format_names("abc"), finding.format_names("abcde"))
