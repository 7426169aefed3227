"""`what-if` and `bisect` on the command line: their answers, their bad input, and that they record nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.reference_model import extraction
from tallybook.ledger.errors import EXIT_BAD_INPUT, EXIT_NO
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from helpers.command_line import Answer


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project in which kpt_002 was pruned at event 11 by session s2, and rated helpful four times later."""
    made = Project(project)
    for text in ("use types", "delete the cache"):
        commands.add(made, text, HUMAN)
    for session, times in (("s1", 2), ("s2", 1)):
        rated = extraction(*[("kpt_002", "harmful")] * times, ("kpt_001", "helpful"))
        commands.record(made, rated, {"rater": "reflector", "session": session})
    commands.record(made, extraction(*[("kpt_002", "helpful")] * 4), {"rater": "agent"})
    return made


@pytest.fixture
def ask(run: Callable[..., Answer]) -> Callable[..., Any]:
    """Return a function that returns a JSON answer of one line."""

    def ask_(*arguments: str, code: int = 0) -> Any:
        answer = run(*arguments, "--json")
        assert (code, "", 1) == (answer.code, answer.err, answer.out.count("\n"))
        return json.loads(answer.out)

    return ask_


@pytest.mark.parametrize(
    ("arguments", "back", "gone"),
    [
        ([], [], []),
        (["--policy", "final"], ["kpt_002"], []),
        (["--policy", "wilson"], ["kpt_002"], []),
        (["--margin", "4"], ["kpt_002"], []),
        (["--without", "8"], ["kpt_002"], []),
        (["--without", "008", "--without", "session:s2"], ["kpt_002"], []),
        (["--without", "session:s2", "--at", "12"], ["kpt_002"], []),
        (["--without", "2"], [], ["kpt_001"]),
        (["--without", "session:s2", "--without", "rater:human"], [], ["kpt_001"]),
    ],
)
@pytest.mark.usefixtures("here")
def test_each_option_returns_and_removes_entries(
    ask: Callable[..., Any], arguments: list[str], back: list[str], gone: list[str]
) -> None:
    """Each option has its effect alone, and some together."""
    told = ask("what-if", *arguments)
    assert (back, gone) == ([row["name"] for row in told["back"]], [row["name"] for row in told["gone"]])


def test_the_alternative_is_written_to_another_file(here: Project, run: Callable[..., Answer], tmp_path: Path) -> None:
    """With --output the file has the other playbook; with the default policy it equals playbook.json."""
    same, other = tmp_path / "same.json", tmp_path / "other.json"
    assert 0 == run("what-if", "--output", str(same)).code
    assert here.playbook.read_bytes() == same.read_bytes()
    assert 0 == run("what-if", "--floor", "9", "--output", str(other)).code
    assert ["kpt_001", "kpt_002"] == [kp["name"] for kp in json.loads(other.read_bytes())["key_points"]]
    assert other.read_text(encoding="utf-8") == run("what-if", "--floor", "9", "--output", "-").out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--without", "session:nobody"], EXIT_BAD_INPUT, "--without session:nobody: no session has an id that begins"),
        (
            ["--without", "session:s"],
            EXIT_BAD_INPUT,
            "several sessions have an id that begins with it: 's1', 's2'; give more",
        ),
        (["--without", "session:s2", "--at", "8"], EXIT_NO, "leaves out no event up to that moment"),
        (["--without", "99"], EXIT_NO, "--without 99: leaves out no event up to that moment"),
        (["--without", "s1"], EXIT_BAD_INPUT, "use session:ID, rater:NAME or an event number"),
        (["--without", "session:"], EXIT_BAD_INPUT, "is not something to leave out"),
        (["--half-life", "soon"], EXIT_BAD_INPUT, "is not an age; use an age such as 90d"),
        (["--floor", "0"], EXIT_BAD_INPUT, "'0' is not a whole number; use one from 1 to 1,000,000,000"),
        (["--policy", "kind"], EXIT_BAD_INPUT, "'kind' is not one of"),
        (["--at", "999"], EXIT_BAD_INPUT, "999"),
    ],
)
@pytest.mark.usefixtures("here")
def test_an_invalid_assumption_is_one_line(
    run: Callable[..., Answer], arguments: list[str], code: int, says: str
) -> None:
    """The line names the option and its valid values."""
    answer = run("what-if", *arguments)
    assert (code, "", 1) == (answer.code, answer.out, answer.err.count("\n"))
    assert says in answer.err


# bisect


@pytest.mark.parametrize(
    ("arguments", "seq"),
    [
        (["kpt_002.harmful > kpt_002.helpful"], 6),
        (["kpt_001.helpful >= 1"], 8),
        (["kpt_001.helpful >= 1", "--from", "9"], None),
        (["kpt_001.helpful >= 2", "--from", "5", "--to", "12"], 11),
        (["count < 2"], 12),
        (["count == 1", "--last"], 12),
    ],
)
@pytest.mark.usefixtures("here")
def test_bisect_searches_a_range(ask: Callable[..., Any], arguments: list[str], seq: int | None) -> None:
    """After --from and up to --to, for the first time or the last; exit 1 if it never became true."""
    told = ask("bisect", *arguments, code=0 if seq else EXIT_NO)
    assert seq == (told["event"] and told["event"]["seq"])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["exists(kpt_999)"], EXIT_NO, "kpt_999: no entry ever had this name"),
        (["count >"], EXIT_BAD_INPUT, "CONDITION, character 8: expected a number"),
        (["(" * 100_000], EXIT_BAD_INPUT, "100,000 characters, more than 2,000"),
        (["\udce9\x1b[31m"], EXIT_BAD_INPUT, "has no meaning here"),
        (["count > 1", "--from", "9", "--to", "3"], EXIT_BAD_INPUT, "--to 3: is before --from 9"),
        (["count > 1", "--from", "999"], EXIT_BAD_INPUT, "999"),
        ([], EXIT_BAD_INPUT, "Missing argument 'CONDITION'"),
    ],
)
@pytest.mark.usefixtures("here")
def test_an_invalid_search_is_one_line(run: Callable[..., Answer], arguments: list[str], code: int, says: str) -> None:
    """The line names the position in the condition, or the option."""
    answer = run("bisect", *arguments)
    assert (code, "", 1) == (answer.code, answer.out, answer.err.count("\n"))
    assert says in answer.err
    assert answer.err.rstrip("\n").isprintable()
