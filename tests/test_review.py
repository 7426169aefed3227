"""A review: what a person should look at, decided by one key each (rule 21)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from helpers.git_repositories import make_remote
from helpers.reviews import DAY_US, Terminal, events, give, items, record
from tallybook.ledger import clock
from tallybook.ledger.events import (
    PlaybookUpdated,
    PointAdded,
    PointCited,
    PointRated,
    PointReviewed,
)
from tallybook.projections.event_rows import summary

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run


@pytest.fixture
def contested(project: Path, run: Run) -> Path:
    """Return a project whose entry kpt_001 has one helpful and two harmful ratings."""
    run("add", "Clear the cache first.")
    for rating in ("helpful", "harmful", "harmful"):
        run("rate", "kpt_001", rating)
    return project


def test_the_items_of_a_review_and_their_order(contested: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contested entries come first, proposals and pairs that resemble each other next, stale entries last (rule 21)."""
    run("add", "Run the tests before each commit.")
    run("add", "Before each commit, run the tests.")
    run("add", "Never push on Friday.")
    run("add", "Deploy on Monday at noon.")
    run("pin", "kpt_005")
    give(contested, "kpt_004", "kpt_005", sessions=10)
    record(contested, PointCited("kpt_005", "message"), session="s3")
    monkeypatch.setenv("CLAUDECODE", "1")
    run("pin", "--off", "kpt_005")
    expected = [
        ("contested", ["kpt_001"]),
        ("proposal", ["kpt_005"]),
        ("duplicate", ["kpt_002", "kpt_003"]),
        ("unproven", ["kpt_005"]),
        ("no sign of use", ["kpt_004"]),
    ]
    assert expected == items(run)
    monkeypatch.delenv("CLAUDECODE")
    assert expected == items(run)


def test_an_entry_with_more_harmful_than_helpful_ratings_is_contested_at_once(project: Path, run: Run) -> None:
    """One harmful rating is enough, pinned or not, and its reasons are shown, the latest first (rule 20)."""
    run("add", "Clear the cache first.")
    run("rate", "kpt_001", "harmful", "--reason", "it takes an hour")
    for pinned in (False, True):
        run(*(["pin", "kpt_001"] if pinned else ["rate", "kpt_001", "harmful", "--reason", "there is no cache"]))
        (item,) = json.loads(run("review", "--json").out)
        near = "" if pinned else "1 more harmful rating would let an update prune it; "
        says = f"more harmful than helpful ratings; {near}harmful: there is no cache; harmful: it takes an hour"
        assert ("contested", says) == (item["why"], item["says"])
    for _ in range(2):
        run("rate", "kpt_001", "helpful")
    assert [] == items(run)
    assert project.exists()


def test_contested_is_near_the_bound(contested: Path, run: Run) -> None:
    """An entry with as many helpful ratings is contested where two more harmful ones prune it (rule 21)."""
    run("rate", "kpt_001", "helpful")
    assert [("contested", ["kpt_001"])] == items(run)
    run("pin", "kpt_001")
    assert [] == items(run)
    run("pin", "--off", "kpt_001")
    for _ in range(2):
        run("rate", "kpt_001", "helpful")
    assert [] == items(run)
    assert "Nothing needs a decision.\n" == run("review").out
    assert contested.exists()


def test_what_concerns_most_sessions_comes_first(contested: Path, run: Run) -> None:
    """Of two contested entries the one that more sessions were given is asked about first (rule 21)."""
    run("add", "Never push on Friday.")
    run("rate", "kpt_002", "harmful")
    assert [["kpt_001"], ["kpt_002"]] == [names for _, names in items(run)]
    give(contested, "kpt_002", sessions=2)
    assert [["kpt_002"], ["kpt_001"]] == [names for _, names in items(run)]


def test_off_a_terminal_items_are_listed_and_nothing_is_decided(contested: Path, run: Run) -> None:
    """In a pipe and with --json `review` records nothing (rule 21)."""
    before = events(run)
    shown = "contested: more harmful than helpful ratings; 1 more harmful rating would let an update prune it\n"
    assert (0, f"{shown}    kpt_001  +1 -2  Clear the cache first.\n", "") == run("review", stdin=b"k")
    entry = {"name": "kpt_001", "text": "Clear the cache first.", "helpful": 1, "harmful": 2}
    (item,) = json.loads(run("review", "--json").out)
    assert ("contested", ["kpt_001"], [entry], None) == tuple(
        item[field] for field in ("why", "names", "entries", "proposal")
    )
    assert before == events(run)
    assert contested.exists()


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
        terminal.press(keys)
    terminal.wait_for("new text")
    terminal.enter("Never deploy on Friday.\n")
    code, rest = terminal.end()
    assert (0, True) == (code, "4 decisions recorded" in rest)
    made = [(one["kind"], one["part"]) for one in events(run)[count:]]
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
    playbook = {one["name"]: one["text"] for one in json.loads(run("show", "--json").out)["key_points"]}
    assert {
        "kpt_002": "Run the tests before each commit.",
        "kpt_004": "Never deploy on Friday.",
        "kpt_005": "Deploy on Monday at noon.",
    } == playbook
    assert [("unproven", ["kpt_005"])] == items(run)


@pytest.mark.parametrize(("end", "code"), [("\x03", 130), ("q", 0), ("\x04", 0)], ids=["ctrl-c", "quit", "ctrl-d"])
def test_leaving_a_review_loses_nothing(contested: Path, run: Run, end: str, code: int) -> None:
    """Ctrl-C, Ctrl-D and quit leave what was decided recorded, and the rest for the next review (rule 21)."""
    run("add", "Clear all caches, always.")
    for rating in ("helpful", "harmful"):
        run("rate", "kpt_002", rating)
    terminal = Terminal(contested, "review")
    terminal.wait_for("[q] quit")
    terminal.press("k")
    terminal.wait_for("2 of 2  contested")
    terminal.wait_for("[q] quit")
    terminal.press(end)
    assert code == terminal.end()[0]
    assert [["kpt_001"]] == [one["body"]["names"] for one in events(run, "point.reviewed")]
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
        assert entries == [one["name"] for one in json.loads(run("show", "--json").out)["key_points"]]
        assert 0 == run("undo").code
        assert [("contested", ["kpt_001"])] == items(run)
        redo = str(events(run)[-1]["seq"])
        assert 0 == run("undo", redo).code
        assert [] == items(run)
        assert 0 == run("undo", str(events(run)[-1]["seq"])).code
        shown = json.loads(run("show", "--at", moment, "--json").out)["key_points"]
        assert json.loads(before)["key_points"] == shown == json.loads(run("show", "--json").out)["key_points"]
        assert 0 == run("replay", "--check").code


def test_at_most_thirty_items_are_shown(project: Path, run: Run) -> None:
    """A review has at most 30 items, and says of how many (rule 21)."""
    points = [f"{chr(97 + number % 26) * 9} {chr(122 - number % 26) * 7} {number}" for number in range(32)]
    names = [f"kpt_{number:03d}" for number in range(1, 33)]
    run("record", stdin=json.dumps({"new_key_points": points, "evaluations": []}).encode())
    for rating in ("helpful", "harmful"):
        run("rate", *names, rating)
    assert 30 == len(items(run))
    assert "30 of 32 items are shown.\n" == run("review").out.splitlines(keepends=True)[-1]
    terminal = Terminal(project, "review")
    terminal.wait_for("[q] quit")
    terminal.press("k")
    terminal.wait_for("[q] quit")
    terminal.press("q")
    end = "1 decision recorded; `tallybook undo` undoes the last.\n31 items left for the next review.\n"
    assert terminal.end()[1].endswith(end)


def test_a_review_without_a_decision_names_no_undo(contested: Path, run: Run) -> None:
    """A review that ends before a decision says that all items are left, and offers no undo of something else."""
    before = events(run)
    for key in ("q", "s"):
        terminal = Terminal(contested, "review")
        terminal.wait_for("[q] quit")
        terminal.press(key)
        shown = terminal.end()[1]
        assert shown.endswith("0 decisions recorded.\n1 item left for the next review.\n"), shown
    assert before == events(run)


def test_an_event_of_a_review_in_words() -> None:
    """`log` says which entries were reviewed, why, and what was decided."""
    event = PointReviewed(("kpt_001", "kpt_004"), "duplicate", "keep")
    assert "kpt_001, kpt_004 reviewed (duplicate): keep" == summary(event)


def test_a_decision_stays_on_its_machine(contested: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A shared book gets the change that a review made, and not the decision; the item stays decided (rule 21)."""
    remote = make_remote(tmp_path_factory.mktemp("server") / "remote.git")
    run("add", "Never push on Friday.")
    for rating in ("helpful", "harmful"):
        run("rate", "kpt_002", rating)
    terminal = Terminal(contested, "review")
    terminal.wait_for("[q] quit")
    terminal.press("t")
    terminal.wait_for("2 of 2")
    terminal.wait_for("[q] quit")
    terminal.press("w")
    terminal.wait_for("new text")
    terminal.enter("Push on Monday.\n")
    assert 0 == terminal.end()[0]
    assert [] == items(run)
    assert 0 == run("share", "git", str(remote), "--book", "demo", "--yes").code
    (book,) = (contested / ".claude/ledger/book").glob("*/events.jsonl")
    assert (True, False) == (b"point.retired" in book.read_bytes(), b"point.reviewed" in book.read_bytes())
    assert [] == items(run)
    run("rate", "kpt_002", "helpful")
    assert [("contested", ["kpt_002"])] == items(run)
