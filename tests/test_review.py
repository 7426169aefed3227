"""Reviews: the items, their order, the keys that decide them, and entries that may be stale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.commands import Run
from helpers.events import list_events, make_continuation, make_injection
from helpers.git_repositories import commit, git, plant_traps
from helpers.reviews import DAY_US, Terminal, events, give, items, record
from helpers.transcripts import Script, ask_again, find_transcripts
from tallybook.ledger import clock
from tallybook.ledger.events import Entry, PlaybookUpdated, PointAdded, PointCited, PointRated, PointReviewed
from tallybook.projections.history.review import find_pairs
from tallybook.projections.surfaces.cli import review
from tallybook.projections.surfaces.workspace.project import Project


@pytest.fixture
def contested(project: Path, run: Run) -> Path:
    """Return a project whose entry kpt_001 has one helpful and two harmful ratings."""
    run("add", "Clear the cache first.")
    for rating in ("helpful", "harmful", "harmful"):
        run("rate", "kpt_001", rating)
    return project


@pytest.mark.parametrize(("variable", "words"), [("CLAUDECODE", ()), ("NONE", ("--rater", "reflector"))])
def test_inside_an_agent_nothing_is_decided(
    contested: Path, run: Run, monkeypatch: pytest.MonkeyPatch, variable: str, words: tuple[str, ...]
) -> None:
    """In an agent's terminal, or for another rater than a person, items are only listed (rules 2, 21)."""
    monkeypatch.setenv(variable, "1")
    before = (contested / ".claude/ledger/events.jsonl").read_bytes()
    terminal = Terminal(contested, "review", *words)
    terminal.enter("k")
    assert 0 == terminal.end()[0]
    assert "[k] keep" not in terminal.shown
    assert before == (contested / ".claude/ledger/events.jsonl").read_bytes()
    assert [("contested", ["kpt_001"])] == items(run)


def test_keep_is_an_event_and_is_not_asked_again(contested: Path, run: Run) -> None:
    """A key decides; "keep" is recorded, and holds until the entry changes (rule 21)."""
    terminal = Terminal(contested, "review")
    assert "1 of 1  contested: more harmful than helpful" in terminal.wait_for("[k] keep  [t] retire  [w] reword")
    terminal.press("x")
    terminal.wait_for("[k] keep")
    terminal.press("k")
    code, shown = terminal.end()
    assert 0 == code
    assert "kpt_001 reviewed (contested): keep" in shown
    assert "1 decision recorded; `tallybook undo` undoes the last." in shown
    (event,) = events(run, "point.reviewed")
    assert {"names": ["kpt_001"], "why": "contested", "decision": "keep"} == event["body"]
    assert {"rater": "human"} == event["by"]
    assert [] == items(run)
    run("rate", "kpt_001", "neutral")
    assert [] == items(run)
    run("rate", "kpt_001", "helpful")
    assert [("contested", ["kpt_001"])] == items(run)


def test_keep_holds_for_ninety_days(contested: Path, run: Run) -> None:
    """A decision of 91 days ago is asked again, one of 89 days ago is not (rule 21)."""
    log = contested / ".claude/ledger"
    for days, expected in ((91, [("contested", ["kpt_001"])]), (89, [])):
        for path in (log / "events.jsonl", log / "head"):
            path.unlink()
        at = clock.moment(clock.utc_now().unix_us - days * DAY_US).at
        earlier = clock.moment(clock.to_unix_us(at) - DAY_US).at
        rated = [PointRated("kpt_001", rating) for rating in ("helpful", "harmful", "harmful")]
        record(contested, PointAdded("kpt_001", "Clear the cache."), *rated, PlaybookUpdated(1, 3, 0), at=earlier)
        record(contested, PointReviewed(("kpt_001",), "contested", "keep"), rater="human", at=at)
        assert expected == items(run)


def test_every_key_makes_its_change(contested: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change is recorded with its decision, one batch each; skip records nothing (rule 21)."""
    run("add", "Run the tests before each commit.")
    run("add", "Before each commit, run the tests.")
    run("add", "Never push on Friday.")
    run("add", "Deploy on Monday at noon.")
    run("pin", "kpt_005")
    give(contested, "kpt_004", "kpt_005")
    record(contested, PointCited("kpt_005", "message"), session="s3")
    monkeypatch.setenv("CLAUDECODE", "1")
    run("pin", "--off", "kpt_005")
    monkeypatch.delenv("CLAUDECODE")
    count = len(events(run))
    terminal = Terminal(contested, "review")
    for shown, keys in (
        ("1 of 5  contested", "t"),
        ("2 of 5  proposal", "a"),
        ("merged they would have +0 -0", "m"),
        ("4 of 5  unproven: given to 10 sessions, with no ratings", "s"),
        ("5 of 5  no sign of use", "w"),
    ):
        terminal.wait_for(shown)
        terminal.wait_for("[q] quit")
        if keys == "s":
            terminal.press("?")
            terminal.wait_for("[s] skip: decide nothing now")
        terminal.press(keys)
    terminal.wait_for("new text")
    terminal.enter("Never deploy on Friday.\n")
    code, rest = terminal.end()
    assert (0, True) == (code, "4 decisions recorded" in rest)
    made = [(event["kind"], event["part"]) for event in events(run)[count:]]
    assert [
        ("point.reviewed", [1, 2]),
        ("point.retired", [2, 2]),
        ("playbook.decided", [1, 2]),
        ("point.unpinned", [2, 2]),
        ("point.reviewed", [1, 2]),
        ("point.merged", [2, 2]),
        ("point.reviewed", [1, 2]),
        ("point.reworded", [2, 2]),
    ] == made
    playbook = {point["name"]: point["text"] for point in json.loads(run("show", "--json").out)["key_points"]}
    assert {
        "kpt_002": "Run the tests before each commit.",
        "kpt_004": "Never deploy on Friday.",
        "kpt_005": "Deploy on Monday at noon.",
    } == playbook
    assert [("unproven", ["kpt_005"])] == items(run)


@pytest.mark.parametrize(("end", "code"), [("\x03", 130), ("q", 0)], ids=["ctrl-c", "quit"])
def test_leaving_a_review_loses_nothing(contested: Path, run: Run, end: str, code: int) -> None:
    """Ctrl-C and quit leave what was decided recorded, and the rest for the next review (rule 21)."""
    run("add", "Clear all caches, always.")
    for rating in ("helpful", "harmful"):
        run("rate", "kpt_002", rating)
    terminal = Terminal(contested, "review")
    terminal.wait_for("[q] quit")
    terminal.press("k")
    terminal.wait_for("2 of 2  contested")
    terminal.wait_for("[q] quit")
    terminal.press(end)
    ended, shown = terminal.end()
    last = "1 decision recorded; `tallybook undo` undoes the last.\n1 item left for the next review.\n"
    assert (code, end == "q") == (ended, shown.endswith(last))
    assert [["kpt_001"]] == [event["body"]["names"] for event in events(run, "point.reviewed")]
    assert [("contested", ["kpt_002"])] == items(run)


def test_a_decision_is_undone_and_redone(contested: Path, run: Run) -> None:
    """`undo` brings the item back, and undoing that undo decides it again, with its change (rule 21)."""
    for keys, entries in (("k", ["kpt_001"]), ("t", [])):
        before = (contested / ".claude/playbook.json").read_bytes()
        moment = str(events(run)[-1]["seq"])
        terminal = Terminal(contested, "review")
        terminal.wait_for("[q] quit")
        terminal.press(keys)
        assert 0 == terminal.end()[0]
        assert entries == [point["name"] for point in json.loads(run("show", "--json").out)["key_points"]]
        assert 0 == run("undo").code
        assert [("contested", ["kpt_001"])] == items(run)
        redo = str(events(run)[-1]["seq"])
        assert 0 == run("undo", redo).code
        assert [] == items(run)
        assert 0 == run("undo", str(events(run)[-1]["seq"])).code
        shown = json.loads(run("show", "--at", moment, "--json").out)["key_points"]
        assert json.loads(before)["key_points"] == shown == json.loads(run("show", "--json").out)["key_points"]
        assert 0 == run("replay", "--check").code


def test_a_session_that_ended_before_any_prompt_was_given_nothing(project: Path, run: Run) -> None:
    """A client that is closed at once gave its model nothing, and a fork is given nothing: neither counts."""
    place = Project(project)
    run("add", "Never push on Friday.")
    give(project, "kpt_001", sessions=9)
    closed = Script(find_transcripts(project) / "closed.jsonl", "closed").line(
        "attachment", attachment={"type": "hook_success"}
    )
    fork = Script(find_transcripts(project) / "fork.jsonl", "fork").user("Go on").agent("Done")
    record(project, make_injection(("kpt_001",), 0), session="closed")
    record(project, make_continuation("s1"), session="fork")
    for script in (closed, fork):
        ask_again(place, script)
    assert 0 == run("reflect").code
    reads = [row for row in list_events(place) if row["kind"] == "transcript.read"]
    assert {"closed": 0, "fork": fork.path.stat().st_size} == {
        row["by"]["session"]: row["body"]["end"] for row in reads if row["by"]["session"] in {"closed", "fork"}
    }
    assert [] == items(run)
    # Once there is a prompt, its transcript is read from the beginning.
    ask_again(place, closed.user("Fix it").agent("Done"))
    assert 0 == run("reflect").code
    assert [("no sign of use", ["kpt_001"])] == items(run)


def repository(here: Path) -> None:
    """Make a repository whose history has files that its index has not."""
    git(here, "init", "--quiet")
    for name in ("old.py", "scripts/gone.sh", "lib/kept.py", "untracked.txt"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(name)
    git(here, "add", "old.py", "scripts", "lib", "untracked.txt")
    commit(Project(here))
    git(here, "rm", "--quiet", "old.py", "scripts/gone.sh")
    git(here, "rm", "--quiet", "--cached", "untracked.txt")
    git(here, "commit", "--quiet", "--message", "two")


def test_looking_for_paths_runs_nothing_of_the_repository(project: Path) -> None:
    """A repository's configuration and hooks name commands that do not run, and a text asks for few paths (rule 20)."""
    repository(project)
    plant_traps(project, project / "ran")
    text = " ".join(f"none/{number}.py" for number in range(100_000 // 20))
    entries = [Entry("kpt_001", text), Entry("kpt_002", "old.py")]
    assert {"kpt_002": ["old.py"]} == review.find_gone(Project(project), entries)
    assert not (project / "ran").exists()


def test_pairs_are_entries_that_share_most_of_their_words() -> None:
    """Entries of which three quarters of the words are the same are a pair, in the order of the second entry."""
    texts = ("one two three four", "alone", "FOUR three, two one!", "one two three five", "one two six five", "Alone.")
    entries = [Entry(f"kpt_{number}", text) for number, text in enumerate(texts)]
    pairs = {tuple(entry.name for entry in pair.entries): pair.similarity for pair in find_pairs(entries)}
    expected = {
        ("kpt_0", "kpt_2"): 1,
        ("kpt_0", "kpt_3"): 0.75,
        ("kpt_2", "kpt_3"): 0.75,
        ("kpt_3", "kpt_4"): 0.75,
        ("kpt_1", "kpt_5"): 1,
    }
    assert list(expected.items()) == list(pairs.items())
    assert [pair for pair, share in expected.items() if share == 1] == [
        tuple(entry.name for entry in pair.entries) for pair in find_pairs(entries, 0.76)
    ]
