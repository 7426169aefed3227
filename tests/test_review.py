"""Reviews: the items, their order, the keys that decide them, and entries that may be stale."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from helpers.events import list_events
from helpers.git_repositories import commit, git
from helpers.injections import continued, injected
from helpers.reviews import DAY_US, Terminal, events, give, items, record
from helpers.transcripts import Script, ask_again, kept
from tallybook.ledger import clock
from tallybook.ledger.events import (
    Entry,
    PlaybookUpdated,
    PointAdded,
    PointCited,
    PointRated,
    PointReviewed,
)
from tallybook.projections.surfaces import review
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run
    from tallybook.ledger.events import Event


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
    assert code == terminal.end()[0]
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


def test_no_sign_of_use_needs_ten_sessions_whose_citations_are_seen(project: Path, run: Run) -> None:
    """Nine such sessions, or any number of others, say nothing of an entry (rule 20)."""
    run("add", "Never push on Friday.")
    give(project, "kpt_001", sessions=30, seen=False)
    give(project, "kpt_001", sessions=9)
    assert [] == items(run)
    record(project, injected(("kpt_001",), 0), session="s9")
    record(project, PointCited("kpt_002", "Bash"), session="s9")
    assert [] == items(run)
    record(project, PointCited("kpt_002", "message"), session="s9")
    assert [("no sign of use", ["kpt_001"])] == items(run)


def test_a_session_that_ended_before_any_prompt_was_given_nothing(project: Path, run: Run) -> None:
    """A client that is closed at once gave its model nothing, and a fork is given nothing: neither counts."""
    place = Project(project)
    run("add", "Never push on Friday.")
    give(project, "kpt_001", sessions=9)
    closed = Script(kept(project) / "closed.jsonl", "closed").line("attachment", attachment={"type": "hook_success"})
    fork = Script(kept(project) / "fork.jsonl", "fork").user("Go on").agent("Done")
    record(project, injected(("kpt_001",), 0), session="closed")
    record(project, continued("s1"), session="fork")
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


@pytest.mark.parametrize(
    "sign",
    [PointCited("kpt_001", "message"), PointCited("kpt_001", "Bash"), PointRated("kpt_001", "helpful")],
    ids=["message", "tool", "rating"],
)
def test_a_citation_or_a_rating_is_a_sign_of_use(project: Path, run: Run, sign: Event) -> None:
    """An entry that was cited or rated once is not called without a sign of use (rule 20)."""
    run("add", "Never push on Friday.")
    give(project, "kpt_001", sessions=12)
    record(project, sign, session="s99")
    assert "no sign of use" not in run("why", "kpt_001").out
    assert [("unproven", ["kpt_001"])] == items(run)


def test_the_words_say_what_is_known_and_no_more(project: Path, run: Run) -> None:
    """`why`, `review` and `doctor` say the same, and that a working prohibition is never cited (rule 20)."""
    run("add", "Never push on Friday.")
    give(project, "kpt_001", sessions=11)
    says = (
        "no sign of use: given to 11 sessions whose citations are seen, cited and rated in none; "
        "a prohibition that works is never cited"
    )
    assert f"No {says[3:]}." in " ".join(run("why", "kpt_001").out.split())
    assert {"sessions": 11, "unused": True, "gone": [], "says": says} == json.loads(
        run("why", "kpt_001", "--json").out
    )["stale"]
    assert f"no sign of use: {says}" in run("review").out
    assert f"note  entries: kpt_001: {says}; run `tallybook review` to decide about it" in run("doctor").out
    assert "stale" not in json.loads(run("why", "kpt_001", "--at", "2", "--json").out)


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


GONE_PATHS = {
    "Run `scripts/gone.sh` before old.py:12, then ./scripts.": ["scripts/gone.sh", "old.py", "scripts"],
    "See untracked.txt.": ["untracked.txt"],
    "Keep lib/kept.py and lib/ as they are.": [],
    "Read never/was.py, e.g. 3.11, or https://host/old.py": [],
    "Edit /old.py, ../old.py, lib/../old.py or ~/old.py": [],
    "Edit C:/old.py, --output=x/old.pyc, :(glob)old* or -n/old.py": [],
    "Write the word old": [],
}


def test_a_path_is_gone_if_git_had_it_and_has_it_no_more(project: Path) -> None:
    """Only a relative path without `..` that is in history and not in the index counts as gone (rule 20)."""
    repository(project)
    entries = [Entry(f"kpt_{number:03d}", text) for number, text in enumerate(GONE_PATHS)]
    found = review.find_gone(Project(project), entries)
    assert {entry.name: GONE_PATHS[entry.text] for entry in entries if GONE_PATHS[entry.text]} == found


def test_a_gone_path_is_shown(project: Path, run: Run) -> None:
    """`why`, `review` and `doctor` name the path; where there is no repository nothing is said (rule 20)."""
    run("add", "Run scripts/gone.sh first.")
    assert [] == items(run)
    repository(project)
    assert [("gone path", ["kpt_001"])] == items(run)
    says = "names scripts/gone.sh, which git had and no longer has"
    assert f"N{says[1:]}." in run("why", "kpt_001").out
    assert ["scripts/gone.sh"] == json.loads(run("why", "kpt_001", "--json").out)["stale"]["gone"]
    assert f"gone path: {says}" in run("review").out
    assert f"note  entries: kpt_001: {says};" in run("doctor").out


def test_looking_for_paths_runs_nothing_of_the_repository(project: Path) -> None:
    """A repository's configuration and hooks name commands that do not run, and a text asks for few paths (rule 20)."""
    repository(project)
    trap = f"touch {project / 'ran'}"
    for key in ("core.fsmonitor", "core.pager", "gpg.program", "core.sshCommand", "diff.external", "alias.rev-list"):
        git(project, "config", key, trap)
    git(project, "config", "log.showSignature", "true")
    for hook in ("post-index-change", "reference-transaction", "pre-auto-gc"):
        path = project / ".git/hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{trap}\n")
        path.chmod(0o755)
    text = " ".join(f"none/{number}.py" for number in range(100_000 // 20))
    entries = [Entry("kpt_001", text), Entry("kpt_002", "old.py")]
    assert {"kpt_002": ["old.py"]} == review.find_gone(Project(project), entries)
    assert not (project / "ran").exists()
