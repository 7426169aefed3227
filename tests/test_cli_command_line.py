"""How the command line is parsed, and that bad input gets one clear line, the right exit code, and loses nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.real_command import assert_refused
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run


COMMAND = [sys.executable, "-c", "from tallybook.projections.surfaces.entry_point import main; main()"]


@pytest.fixture
def three_entries(project: Path) -> Project:
    """Return a project with three entries."""
    place = Project(project)
    for text in ("Quote ids.", "Name the unit.", "Test first."):
        commands.add(place, text, HUMAN)
    return place


def names(project: Project) -> list[str]:
    """Return the names of the entries in the playbook."""
    return [point["name"] for point in commands.show(project)["key_points"]]


# Names and ratings


def test_rate_accepts_capitals_and_short_names(three_entries: Project, run: Run) -> None:
    """`rate KPT_001 kpt_02 Helpful` rates both entries, each once, and prints them with their new counts."""
    answer = run("rate", "KPT_001", "kpt_02", "kpt_001", "Helpful")
    assert (0, "kpt_001  +1 -0  Quote ids.\nkpt_002  +1 -0  Name the unit.\nrecorded as events 8 to 10\n", "") == answer
    assert [(1, 0), (1, 0), (0, 0)] == [
        (point["helpful"], point["harmful"]) for point in commands.show(three_entries)["key_points"]
    ]


@pytest.mark.usefixtures("three_entries")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["why", "KPT_2"], "kpt_002  kept\n  Name the unit.\n"),
        (["reword", "Kpt_02", "Name each unit."], "kpt_002 reworded"),
        (["merge", "KPT_001", "kpt_2"], "kpt_002 merged into kpt_001"),
    ],
)
def test_other_verbs_accept_a_name_in_another_case(run: Run, words: list[str], says: str) -> None:
    """A verb about an entry takes its name in another case or without its zeros."""
    answer = run(*words)
    assert (0, says) == (answer.code, answer.out[: len(says)]), answer


# Several names


def test_retire_takes_several_names(three_entries: Project, run: Run) -> None:
    """`retire`, `restore`, `pin` and `pin --off` take several names, each once, and record them as one batch."""
    expected = "kpt_001 retired; recorded as event 8\nkpt_003 retired; recorded as event 9\n"
    assert (0, expected, "") == run("retire", "kpt_001", "kpt_003", "kpt_001")
    assert ["kpt_002"] == names(three_entries)
    assert 0 == run("undo").code
    assert ["kpt_001", "kpt_002", "kpt_003"] == names(three_entries)
    for verb in (["pin"], ["pin", "--off"], ["retire"], ["restore"]):
        answer = run(*verb, "kpt_002", "kpt_003", "--json")
        events = json.loads(answer.out)["events"]
        assert ["kpt_002", "kpt_003"] == [event["summary"].split()[0] for event in events]


def test_one_bad_name_among_several_changes_nothing(three_entries: Project, run: Run) -> None:
    """If one of several names is refused, none is retired."""
    answer = run("retire", "kpt_001", "kpt_404")
    assert (1, "tallybook: kpt_404: no entry ever had this name") == (answer.code, answer.err.partition(";")[0])
    assert ["kpt_001", "kpt_002", "kpt_003"] == names(three_entries)


# Options and verbs


@pytest.mark.parametrize(
    "words",
    [
        ["--json", "--project", "{}", "show"],
        ["show", "--project", "{}", "--json"],
        ["--project", "/nowhere/at/all", "show", "--json", "--project={}"],
        ["--json", "show", "--project", "{}"],
    ],
)
def test_the_project_and_json_options_are_accepted_anywhere(
    three_entries: Project, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    """`--project` and `--json` mean the same before and after the verb; the last project counts."""
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "other"))
    answer = run(*(word.format(three_entries.root) for word in words))
    assert (0, 3) == (answer.code, len(json.loads(answer.out)["key_points"]))


@pytest.mark.parametrize(
    ("word", "right"),
    [
        ("edit", "`tallybook reword NAME TEXT`"),
        ("ls", "`tallybook show` for entries, or `tallybook log` for events"),
        ("rm", "`tallybook retire NAME`"),
        ("search", "`tallybook why WORDS`"),
        ("config", "`.claude/config/tallybook.toml`"),
        ("version", "`tallybook --version`"),
        ("install", "`tallybook init`"),
        ("push", "`tallybook sync`"),
        ("retir", "did you mean retire"),
    ],
)
def test_an_unknown_verb_is_answered_with_the_right_one(run: Run, word: str, right: str) -> None:
    """An unknown verb exits 2 with the verb that does it, and never names `redact`."""
    answer = run(word, "kpt_001")
    assert (2, "", True, False) == (answer.code, answer.out, right in answer.err, "redact" in answer.err), answer.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["rate", "kpt_001", "helpful", "--reson", "x"],
            "--reson is not an option of `tallybook rate`; did you mean --reason?",
        ),
        (["show", "--nowhere"], "--nowhere is not an option of `tallybook show`; see `tallybook show --help`"),
        (["--jsno", "show"], "--jsno is not an option of `tallybook`; did you mean --json?"),
        (["rate", "helpful"], "Missing argument 'NAME...'; see `tallybook rate --help`"),
        (["frobnicate"], "'frobnicate' is not a command; see `tallybook --help`"),
    ],
)
def test_a_wrong_option_is_answered_with_the_nearest_one(run: Run, words: list[str], says: str) -> None:
    """A wrong command line exits 2 with what is wrong and what to do about it."""
    assert (2, "", f"tallybook: {says}\n") == run(*words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ["kpt_001", "kpt_002", "kpt_003"]),
        (["--sort", "name"], ["kpt_001", "kpt_002", "kpt_003"]),
        (["--sort", "helpful"], ["kpt_002", "kpt_003", "kpt_001"]),
        (["--sort", "harmful"], ["kpt_002", "kpt_001", "kpt_003"]),
        (["--sort", "trust"], ["kpt_003", "kpt_002", "kpt_001"]),
        (["--sort", "trust", "--limit", "2"], ["kpt_003", "kpt_002"]),
        (["--limit", "1"], ["kpt_001"]),
        (["-n", "9"], ["kpt_001", "kpt_002", "kpt_003"]),
    ],
)
def test_show_sorts_and_limits_the_entries(
    three_entries: Project, run: Run, words: list[str], expected: list[str]
) -> None:
    """`show --sort` puts the largest first, equal ones as they were; `--limit` also says how many there are."""
    for name, helpful, harmful in (("kpt_002", 3, 2), ("kpt_003", 2, 0)):
        for rating, number in (("helpful", helpful), ("harmful", harmful)):
            for _ in range(number):
                commands.rate(three_entries, name, rating, HUMAN)
    assert expected == [entry["name"] for entry in json.loads(run("show", "--json", *words).out)["key_points"]]
    *rows, count = run("show", *words).out.splitlines()
    assert expected == [row.split()[0] for row in rows if row.startswith("kpt_")]
    assert ("3 key points" if len(expected) == 3 else f"{len(expected)} of 3 key points") in count


@pytest.mark.parametrize(
    "words",
    [
        ["hook", "--project", "{}"],
        ["--project", "{}", "hook"],
    ],
    ids=" ".join,
)
def test_a_hook_accepts_the_project_anywhere(
    three_entries: Project, tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    """`--project` before or after `hook` names the project, whatever folder the payload names."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    payload = {"hook_event_name": "SessionStart", "source": "startup", "session_id": "s1", "cwd": str(elsewhere)}
    done = subprocess.run(
        [*COMMAND, *(word.format(three_entries.root) for word in words)],
        input=json.dumps(payload),
        capture_output=True,
        text=True,
        check=False,
        cwd=elsewhere,
        env={name: value for name, value in os.environ.items() if name != "CLAUDE_PROJECT_DIR"},
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert "[kpt_001]" in done.stdout


# Standard input


def test_add_reads_standard_input(three_entries: Project, run: Run) -> None:
    """`add -` adds the text of standard input, without its last line end."""
    assert 0 == run("add", "-", stdin="Keep “lines”\napart.\n".encode()).code
    assert "Keep “lines”\napart." == commands.show(three_entries)["key_points"][-1]["text"]


MIB = 1024 * 1024
BY_HAND = "learned by hand"


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with an entry that was rated once."""
    place = Project(project)
    commands.add(place, BY_HAND, HUMAN)
    commands.rate(place, "kpt_001", "helpful", HUMAN)
    return place


def protected_bytes(project: Project) -> dict[str, bytes]:
    """Return the bytes that no failing command may change."""
    files = (project.ledger / "events.jsonl", project.playbook)
    return {path.name: path.read_bytes() for path in files if path.is_file()}


# What is refused, so that nothing is recorded


ADDS = json.dumps({"new_key_points": ["new"]})
PAYLOADS: list[tuple[str, bytes, str]] = [
    ("nothing", b"", "standard input: is empty"),
    ("not JSON", b"kpt_001 helpful", "is not JSON"),
    ("cut off", ADDS[:-2].encode(), "is not JSON"),
    ("two values", f"{ADDS}{ADDS}".encode(), "is not JSON"),
    ("a list", b"[]", "expected an object, got list"),
    ("an object of another kind", b'{"name": "kpt_001", "rating": "helpful"}', "neither new_key_points nor"),
    ("texts that are no list", b'{"new_key_points": "new"}', "expected a list"),
    ("null instead of a list", b'{"evaluations": null, "new_key_points": ["new"]}', "expected a list"),
    ("NaN", b'{"evaluations": [], "x": NaN}', "NaN"),
    ("a key twice", b'{"evaluations": [], "evaluations": []}', "'evaluations' twice"),
    ("a number beyond 2^53", b'{"evaluations": [], "x": 9007199254740993}', "beyond 2^53"),
    ("not UTF-8", b'{"new_key_points": ["caf\xe9"]}', "is not UTF-8"),
    ("100,000 levels", b"[" * 100_000, "nested too deeply"),
    ("17 MiB", b'{"new_key_points": ["' + b"x" * 17 * MIB + b'"]}', "more than 16,777,216 bytes"),
]


@pytest.mark.parametrize(("stdin", "says"), [pytest.param(*row[1:], id=row[0]) for row in PAYLOADS])
def test_other_input_than_an_extraction_result_is_refused(here: Project, run: Run, stdin: bytes, says: str) -> None:
    """`record` answers unreadable input with one line and exit code 2, and the ledger does not change."""
    before = protected_bytes(here)
    assert_refused(run("record", stdin=stdin), 2, says)
    assert before == protected_bytes(here)


ARGUMENTS: list[tuple[str, list[str], int, str]] = [
    ("an unknown name", ["rate", "kpt_999", "helpful"], 1, "no entry ever had this name"),
    ("an empty name", ["rate", "", "helpful"], 2, "expected a text as name"),
    ("an unknown rating", ["rate", "kpt_001", "great"], 2, "rating: 'great' is not a rating; use helpful"),
    ("an empty rating", ["rate", "kpt_001", ""], 2, "expected a text as rating"),
    ("an empty text", ["add", ""], 2, "the text is empty"),
    ("a text of 1 MiB", ["add", "x" * MIB], 2, "1,048,576 characters"),
    ("half of a surrogate pair", ["add", "\udce9"], 2, "surrogate pair"),
    ("a rater that steers a terminal", ["add", "new", "--rater", "\x1b[2J"], 2, "printable characters"),
    ("an empty session", ["add", "new", "--session", ""], 2, "--session: needs 1 to 200"),
    ("a session of 1,000 characters", ["add", "new", "--session", "x" * 1000], 2, "needs 1 to 200"),
    ("an empty model", ["rate", "kpt_001", "helpful", "--model", ""], 2, "--model"),
    ("an empty key", ["add", "new", "--key", ""], 2, "key: is empty"),
    ("a file that is not there", ["record", "nowhere.json"], 2, "nowhere.json: cannot be read"),
    ("a folder instead of a file", ["import", "."], 2, "cannot be read"),
    ("an unknown verb", ["forget", "kpt_001"], 2, "forget"),
    ("an unknown option", ["show", "--colour"], 2, "--colour"),
    ("a missing argument", ["rate", "kpt_001"], 2, "NAME"),
    ("an argument too many", ["add", "two", "words"], 2, "words"),
    ("a moment that is none", ["show", "--at", "yesterday"], 2, "is not a moment"),
    ("a moment to come", ["show", "--at", "6"], 2, "the ledger ends at seq 5"),
    ("a check of a moment", ["replay", "--check", "--at", "1"], 2, "--check"),
    ("a project that is not a folder", ["--project", "nowhere", "show"], 2, "is not a folder"),
    ("an output that has no folder", ["replay", "--output", "nowhere/book.json"], 4, "No such file"),
]


@pytest.mark.parametrize(("arguments", "code", "says"), [pytest.param(*row[1:], id=row[0]) for row in ARGUMENTS])
def test_bad_arguments_are_refused(here: Project, run: Run, arguments: list[str], code: int, says: str) -> None:
    """A command with a bad argument answers with one line and the right exit code, and changes nothing."""
    before = protected_bytes(here)
    assert_refused(run(*arguments), code, says)
    assert before == protected_bytes(here)


FILES: list[tuple[str, bytes, str]] = [
    ("nothing", b"", "is empty"),
    ("not JSON", b"- use types", "is not JSON"),
    ("not UTF-8", b'{"key_points": ["caf\xe9"]}', "is not UTF-8"),
    ("100,000 levels", b"[" * 100_000, "nested"),
]


@pytest.mark.parametrize(("stdin", "says"), [pytest.param(*row[1:], id=row[0]) for row in FILES])
def test_a_file_that_is_not_a_legacy_playbook_is_refused(here: Project, run: Run, stdin: bytes, says: str) -> None:
    """`import` answers an unreadable file with one line and exit code 2, and the ledger does not change."""
    before = protected_bytes(here)
    assert_refused(run("import", "-", stdin=stdin), 2, says)
    assert before == protected_bytes(here)


# Taken in part: what can be used counts, and the rest is named


PARTS: list[tuple[str, object, str]] = [
    ("an unknown name", {"evaluations": [{"name": "kpt_999", "rating": "helpful"}]}, "(kpt_999): no such entry"),
    ("an unknown rating", {"evaluations": [{"name": "kpt_001", "rating": "great"}]}, "'great' has no effect"),
    ("no rating", {"evaluations": [{"name": "kpt_001"}]}, "expected a text as rating"),
    ("a bare name", {"evaluations": ["kpt_001"]}, "expected an object with name and rating, got str"),
    ("an empty text", {"new_key_points": [""]}, "new_key_points[0]: the text is empty"),
    ("no text", {"new_key_points": [{"section": "OTHERS"}]}, "expected a text, got NoneType"),
    ("a text of 1 MiB", {"new_key_points": ["x" * MIB]}, "1,048,576 characters"),
    ("half of a surrogate pair", {"new_key_points": ["\ud800"]}, "surrogate pair"),
    ("a text that stands", {"new_key_points": [BY_HAND]}, "already in the playbook as kpt_001"),
]


@pytest.mark.parametrize(("payload", "says"), [pytest.param(*row[1:], id=row[0]) for row in PARTS])
def test_an_invalid_item_does_not_affect_the_others(
    here: Project, run: Run, payload: dict[str, list[Any]], says: str
) -> None:
    """An invalid item of an extraction result is named on one line, and the others are recorded."""
    good: dict[str, list[Any]] = {"new_key_points": ["good"], "evaluations": [{"name": "kpt_001", "rating": "helpful"}]}
    both = {field: [*payload.get(field, []), *items] for field, items in good.items()}
    answer = run("record", stdin=json.dumps(both).encode())
    assert (0, "") == (answer.code, answer.err)
    assert [True] == [says in line for line in answer.out.splitlines() if line.startswith("ignored ")]
    points = commands.playbook(here).state.entries
    assert (2, "good") == (points["kpt_001"].helpful, points["kpt_002"].text)
