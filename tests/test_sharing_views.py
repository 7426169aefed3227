"""What every reading verb answers in a shared project: numbers, moments, machines."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from helpers.film_reader import play, read_page
from helpers.injections import injected
from helpers.shared_machines import HUMAN, SharedMachine, make_machines, make_pair
from tallybook import Ledger
from tallybook.ledger.codec import decode
from tallybook.ledger.events import KIND_OF, PointCited, PointRated
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.sharing.numbers import BOOK, PENDING, SharedNumber, parse_book_number, plain
from tallybook.projections.event_rows import EventFilter
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import events
from tallybook.projections.surfaces.history.events import event_parts
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.writing import record
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from pathlib import Path


READING = (
    ["show"],
    ["show", "--at", "4"],
    ["show", "--at", "book:9"],
    ["log"],
    ["log", "kpt_003"],
    ["log", "--since", "7"],
    ["log", "--until", "8"],
    ["why", "kpt_003", "--trail"],
    ["why", "kpt_002"],
    ["why", "kpt_002", "--at", "book:9"],
    ["show", "--last-change"],
    ["show", "--gone"],
    ["diff", "3"],
    ["diff", "book:4", "book:12"],
    ["bisect", "count >= 3"],
    ["bisect", "count >= 3", "--from", "7"],
    ["what-if", "--floor", "1"],
    ["what-if", "--without", "book:16"],
    ["what-if", "--without", "10"],
    ["what-if", "--without", "writer:ben"],
    ["sql", "SELECT * FROM events"],
    ["sql", "SELECT * FROM points"],
    ["review", "--list", "needs-ratings"],
    ["score"],
    ["verify"],
    ["doctor"],
    ["undo", "book:16"],
)


@pytest.fixture(name="pair")
def _pair(tmp_path: Path) -> tuple[SharedMachine, SharedMachine]:
    return make_pair(tmp_path)


@pytest.fixture(name="anna")
def _anna(pair: tuple[SharedMachine, SharedMachine]) -> SharedMachine:
    return pair[0]


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_no_verb_shows_the_numbers_by_which_views_order_events(anna: SharedMachine, form: list[str]) -> None:
    """Every verb succeeds in a shared project and prints own numbers and `book:N` alone."""
    for words in READING:
        done = anna.run(*words, *([] if "--trail" in words else form))
        assert (0, []) == (done.code, re.findall(r"\b[12]0{5,}\d+", done.out + done.err)), done


def test_json_has_the_own_number_or_the_number_in_the_book(anna: SharedMachine) -> None:
    """`seq` is the own number, also of a pending event; for one of the book it is null and `book` has its number."""
    rows = {(row["seq"], row.get("book"), row["kind"], row["by"].get("writer")) for row in anna.lines("log")}
    wanted = {
        (1, None, "ledger.opened", None),
        (None, 3, "point.added", "anna-0a1b2c3d"),
        (None, 16, "point.rated", "ben-0a1b2c3d"),
        (10, None, "point.rated", None),
    }
    assert wanted == wanted & rows


def test_people_read_book_numbers_and_machines(anna: SharedMachine) -> None:
    """`log` and `show --last-change` name an event of the book by `book:N` and machine, a pending one by its number."""
    lines = anna.run("log").out.splitlines()
    assert [True, True] == [
        any(line.startswith("book:16") and "human at ben-0a1b2c3d  kpt_003 rated helpful" in line for line in lines),
        any(line.split()[:1] == ["10"] and "human  kpt_003 rated helpful" in line for line in lines),
    ]
    assert "book:14" in anna.run("show", "--last-change").out


def test_pending_events_have_the_numbers_of_the_own_ledger(anna: SharedMachine) -> None:
    """A pending batch of which an event is not shared shows its other events by their own numbers, which `undo` takes.

    The page numbers them without gaps.
    """
    assert 0 == anna.run("rate", "kpt_003", "harmful", "--reason", "it was unkind").code
    rows = [(row["seq"], row["kind"]) for row in anna.lines("log") if (row["seq"] or 0) > 9]
    batches = decode(JsonlLog(anna.project.ledger).read())
    own = [(event.seq, KIND_OF[type(event.event)]) for batch in batches for event in batch.records if event.seq > 9]
    assert [(13, "point.noted"), (14, "point.rated"), (15, "playbook.updated"), (16, "names.meant")] == own[3:]
    assert [row for row in own if row[1] != "names.meant"] == rows
    assert ("Be kind", 2, 1) == anna.entries()["kpt_003"]
    made = anna.json("page", "--output", str(anna.project.root / "page.html"))
    assert 25 == made["counts"]["events"]
    assert ["kpt_003 rated harmful"] == [row["summary"] for row in anna.json("undo", "14")["events"]][:1]
    assert ("Be kind", 2, 0) == anna.entries()["kpt_003"]


def test_a_pending_undo_of_a_long_session_undoes_all_of_it(anna: SharedMachine) -> None:
    """An undo that lands as several events undoes everything, also where another undo follows it directly."""
    ratings = PlainEvents((PointRated("kpt_003", "helpful"),) * 1001)
    record.write(anna.project, [Request(ratings, HUMAN | {"session": "s2"})])
    assert 0 == anna.run("undo", "--of", "s2").code
    last = JsonlLog(anna.project.ledger).head().seq
    rows = [row["seq"] for row in anna.lines("log") if row["kind"] == "events.voided"]
    assert ([last - 1, last], 2) == (rows, anna.entries()["kpt_003"][1])
    # The events after it have the numbers of the own ledger.
    commands.add(anna.project, "Name units", HUMAN)
    assert [last + 1] == [row["seq"] for row in anna.lines("log") if row["kind"] == "point.added" and row["seq"]]
    assert 0 == anna.run("undo", str(last + 1)).code
    assert "Name units" not in {text for text, _, _ in anna.entries().values()}
    assert 0 == anna.run("undo", "10").code
    assert 1 == anna.entries()["kpt_003"][1]
    anna.sync()
    assert 1 == anna.entries()["kpt_003"][1]


def test_the_log_is_in_the_order_in_which_things_happened(anna: SharedMachine) -> None:
    """`log` lists a machine's event where it happened, not where it was published or came in."""
    times = [row.get("when") or row["at"] for row in anna.lines("log")]
    assert sorted(times) == times


def test_the_last_events_are_those_that_happened_last(
    pair: tuple[SharedMachine, SharedMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`log -n` reads the ends of both logs, and more where a machine that was away published old events late."""
    anna, ben = pair
    monkeypatch.setattr(events, "_TAIL_EVENTS", 2)
    monkeypatch.setattr(events, "_TAIL_GROWTH", 2)
    commands.add(ben.project, "Recorded early, published late", HUMAN)
    for number in range(6):
        commands.add(anna.project, f"Advice {number}", HUMAN)
    anna.sync()
    ben.sync()
    anna.sync()
    assert 0 == anna.run("undo").code
    everything = anna.lines("log")
    for count in range(1, len(everything) + 2):
        assert everything[-count:] == anna.lines("log", "-n", str(count))


def test_log_of_a_writer(anna: SharedMachine) -> None:
    """`log --writer` takes the label with or without its random characters, and refuses others by name."""
    assert [9, 10, 11, 12, 13, 14, 15, 16, 17] == sorted(row["book"] for row in anna.lines("log", "--writer", "ben"))
    assert anna.lines("log", "--writer", "ben") == anna.lines("log", "--writer", "ben-0a1b2c3d")
    done = anna.run("log", "--writer", "dora")
    assert (2, True) == (done.code, "its writers: anna-0a1b2c3d, ben-0a1b2c3d" in (done.out + done.err))


def test_log_between_moments(anna: SharedMachine) -> None:
    """`--since N` leaves out what this machine had at its event N, `--until N` ends there; `book:N` is the book's."""
    kinds = ("--kind", "point.*")
    after = [(row["seq"], row.get("book")) for row in anna.lines("log", "--since", "8", *kinds)]
    until = [(row["seq"], row.get("book")) for row in anna.lines("log", "--until", "8", *kinds)]
    since_book = [(row["seq"], row.get("book")) for row in anna.lines("log", "--since", "book:13", *kinds)]
    assert {(None, 10), (None, 12), (None, 14), (None, 16), (10, None)} == set(after)
    assert [(None, 3), (None, 5), (None, 7)] == until
    assert {(None, 14), (None, 16), (10, None)} == set(since_book)


def test_moments_of_this_machine_and_of_the_book(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """A number, `~N` and a session are moments of this machine; `book:N` is the same on every machine."""
    anna, ben = pair
    assert {"kpt_001": ("Always test", 1, 0), "kpt_002": ("Use git", 0, 0)} == anna.entries("8")
    assert anna.entries("9") == anna.entries("~2") == anna.entries("session:s1")
    assert 2 == anna.entries()["kpt_003"][1]
    for number in range(1, 18):
        assert anna.entries(f"book:{number}") == ben.entries(f"book:{number}")
    assert anna.entries("book:8") == anna.entries("8")


def test_a_moment_that_is_not_there(anna: SharedMachine, tmp_path: Path) -> None:
    """A number past the end of the ledger or of the book is refused, and `book:N` where nothing is shared."""
    assert "--at book:18: the playbook contains the book up to book:17" in anna.run("show", "--at", "book:18").err
    assert "--at 13: the ledger ends at seq 12" in anna.run("show", "--at", "13").err
    [dora] = make_machines(tmp_path / "more", "dora")
    commands.add(dora.project, "Alone", HUMAN)
    done = dora.run("show", "--at", "book:1")
    assert (2, True) == (done.code, "this project shares no book" in (done.out + done.err))


def test_the_story_of_an_entry_says_when_it_came_in(anna: SharedMachine) -> None:
    """`why` names the machine of each event, when it happened, and the own event by which it came in here."""
    story = anna.json("why", "kpt_003")
    rows = [(row["seq"], row.get("book"), row.get("taken", {}).get("seq")) for row in story["trail"]]
    assert [(None, 10, 9), (None, 16, 9), (10, None, None)] == rows
    text = anna.run("why", "kpt_003").out
    assert [True, True] == [words in text.replace("\n", " ") for words in ("by human at ben-0a1b2c3d", "came in here")]


def test_diff_and_bisect_over_both_kinds_of_moments(anna: SharedMachine) -> None:
    """`diff` takes moments of both kinds; `bisect` finds an event of the book and the moment that shows it."""
    assert (8, None) == (anna.json("diff", "8")["from"]["seq"], anna.json("diff", "8")["from"].get("book"))
    side = anna.json("diff", "book:4", "book:11")
    assert (None, 4, None, 11) == (side["from"]["seq"], side["from"]["book"], side["to"]["seq"], side["to"]["book"])
    assert ["kpt_002", "kpt_003"] == [row["name"] for row in side["added"]]
    found = anna.json("bisect", "count >= 3")
    assert (None, 11, None, 10) == (
        found["moment"],
        found["moment_book"],
        found["event"]["seq"],
        found["event"]["book"],
    )
    pending = anna.json("bisect", "kpt_003.helpful >= 2")
    assert (11, 10) == (pending["moment"], pending["event"]["seq"])
    assert 1 == anna.run("bisect", "count >= 3", "--from", "9").code


def test_what_if_without_a_writer(anna: SharedMachine) -> None:
    """`what-if --without writer:NAME` leaves out all that a machine did, `book:N` and an own number one batch."""
    ben = anna.json("what-if", "--without", "writer:ben")
    assert (["writer:ben-0a1b2c3d"], ["kpt_003"]) == ([*ben["without"]], [row["name"] for row in ben["gone"]])
    assert {"book:16": 2} == anna.json("what-if", "--without", "book:16")["without"]
    # Own event 6 is event 7 of the book.
    assert {"book:7": 2} == anna.json("what-if", "--without", "6")["without"]


def test_sql_has_writer_and_book(anna: SharedMachine) -> None:
    """The tables have the machine of an event and its number in the book."""
    rows = anna.lines(
        "sql", "SELECT writer, count(*) AS events, max(book) AS last FROM events GROUP BY 1 ORDER BY 1 NULLS LAST"
    )
    assert [("anna-0a1b2c3d", 8, 8), ("ben-0a1b2c3d", 9, 17), (None, 5, None)] == [
        (row["writer"], row["events"], row["last"]) for row in rows
    ]


def test_undo_by_every_name_of_an_event(anna: SharedMachine) -> None:
    """An own number of an event that is in the book meanwhile, `book:N` and a pending number each undo it, and redo."""
    for target, name in (("6", "kpt_001"), ("book:16", "kpt_003"), ("10", "kpt_003")):
        before = anna.entries()
        done = anna.json("undo", target)
        assert (1, before[name][1] - 1) == (len(done["events"]), anna.entries()[name][1])
        assert 0 == anna.run(*done["redo"].split()[1:]).code
        assert before == anna.entries()


def test_plain_undo_undoes_the_last_change_of_this_machine(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """`undo` takes back the own last change, also where a colleague's came later."""
    anna, ben = pair
    commands.rate(ben.project, "kpt_001", "harmful", HUMAN)
    ben.sync()
    anna.sync()
    done = anna.json("undo")
    assert ["kpt_003 rated helpful", "update: 1 rating"] == [row["summary"] for row in done["events"]]
    assert ("Always test", 1, 1) == anna.entries()["kpt_001"]


def test_undo_of_a_writer(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """`undo --writer` lists what a machine did and asks; with --yes it undoes that, on every machine after a sync."""
    anna, ben = pair
    done = anna.run("undo", "--writer", "ben")
    assert (2, True) == (done.code, "to undo: event book:16, kpt_003 rated helpful" in (done.out + done.err))
    assert "--writer ben: did 8 events; give --yes" in done.err
    assert "has nothing to undo" in anna.run("undo", "--writer", "ben", "--since", "9").err
    assert 8 == len(anna.json("undo", "--writer", "ben", "--yes")["events"])
    assert {"kpt_001": ("Always test", 1, 0), "kpt_002": ("Use git", 0, 0)} == anna.entries()
    anna.sync()
    ben.sync()
    assert anna.entries() == ben.entries()


def test_a_late_rating_names_restore(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """A rating for an entry that was retired meanwhile counts nothing, and `why` names the command to bring it back."""
    anna, ben = pair
    assert 0 == ben.run("retire", "kpt_001").code
    ben.sync()
    commands.rate(anna.project, "kpt_001", "helpful", HUMAN)
    anna.sync()
    text = anna.run("why", "kpt_001").out.replace("\n", " ")
    assert (1, True) == (ben.sync().taken and 1, "tallybook restore kpt_001" in text)


def test_verify_covers_the_copy_of_the_book(anna: SharedMachine) -> None:
    """`verify` and `doctor` verify the own ledger and the copy of the book, and name the copy's damage."""
    assert 0 == anna.run("verify").code
    [copy] = (anna.project.ledger / "book").glob("*/events.jsonl")
    copy.write_bytes(copy.read_bytes().replace(b"Be kind", b"Be mean"))
    done = anna.run("verify")
    assert (3, True) == (done.code, "damaged: copy of the book: " in (done.out + done.err))
    assert "the copy of the book" in anna.run("doctor").out


def test_the_library_reads_a_shared_project(anna: SharedMachine) -> None:
    """The library's events, folds and stories are those of the shared history, by the names that people use."""
    ledger = Ledger(anna.project)
    numbers = [str(record.seq) for record in ledger.events(kinds=["point.rated"])]
    assert ["book:7", "book:14", "book:16", "10"] == numbers
    assert [10, 16, None] == [row.get("book") for row in ledger.why("kpt_003")["trail"]]
    assert ["kpt_001", "kpt_002"] == [entry.name for entry in ledger.entries(at="book:9")]
    assert "book:16" == str(ledger.undo("book:16").events[0][0])


def test_numbers_read_as_people_name_events() -> None:
    """A number of a shared history formats as its name; JSON has the own number, or null and the book's."""
    book, pending = SharedNumber(BOOK + 57), SharedNumber(PENDING + 812)
    assert ("book:57", " book:57", "812") == (f"{book}", f"{book:>8}", str(pending))
    assert {"seq": None, "book": 57, "undone_by": 812} == plain({"seq": book, "undone_by": pending})
    assert '{"a": [812, "book:57"]}' == json.dumps(plain({"a": (pending, book)}))
    assert [57, None, None, None] == [
        parse_book_number(text) for text in ("book:57", "57", "book:x", "book:" + "9" * 12)
    ]


def test_the_page_of_a_shared_project(anna: SharedMachine, tmp_path: Path) -> None:
    """Each moment of the book is what `show --at` prints at the number that the page's commands take."""
    assert 0 == anna.run("undo", "book:16").code
    path = tmp_path / "page.html"
    made = anna.json("page", "--output", str(path))
    assert (23, 3, []) == (made["counts"]["events"], made["counts"]["entries"], made["warnings"])
    meta, document = read_page(path.read_text(encoding="utf-8"))
    labels, shown = dict(meta["labels"]), 0
    assert meta["commands"]
    first = 1
    for last, rows in play(document["film"]):
        prefix, _, number = labels[first].rpartition(":")
        if prefix:
            entries = anna.json("show", "--at", f"book:{int(number) + last - first}")["key_points"]
            kept = {row["place"]: name for name, row in rows.items() if row["status"] == 1}
            assert [entry["name"] for entry in entries] == [kept[place] for place in sorted(kept)], labels[first]
            shown += 1
        first = last + 1
    assert shown > 3
    assert [rater for rater in document["film"]["raters"] if " at " in rater]
    assert 0 == anna.run("page", "--output", str(path), "--force", "--at", "book:9", "--without-texts").code
    assert [] == [
        rater for rater in read_page(path.read_text(encoding="utf-8"))[1]["film"]["raters"] if " at " in rater
    ]


def test_replay_as_of_a_moment_of_the_book(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """`replay --at book:N` writes the same bytes on every machine, with the stamp of the book alone."""
    anna, ben = pair
    copy = anna.run("replay", "--at", "book:9").out
    assert (copy, ["key_points", "book"]) == (ben.run("replay", "--at", "book:9").out, [*json.loads(copy)][-2:])


def test_scores_are_those_of_this_machine(anna: SharedMachine) -> None:
    """`score` reads the own ledger alone, and takes no moment of the book."""
    assert 0 == anna.run("score", "--at", "4").code
    done = anna.run("score", "--at", "book:4")
    assert (2, True) == (done.code, "is a moment of the book, and scores are of this machine" in done.err)


def test_own_unshared_events_follow_a_renamed_entry(tmp_path: Path) -> None:
    """Citations, injections and notes from before a machine joined count for the entry that they meant."""
    anna, ben = make_machines(tmp_path, "anna", "ben")
    commands.add(anna.project, "Always test", HUMAN)
    commands.add(ben.project, "Be kind", HUMAN)
    assert 0 == ben.run("rate", "kpt_001", "helpful", "--reason", "it was").code
    given = PlainEvents((injected(("kpt_001",), 0), PointCited("kpt_001", "message")))
    record.write(ben.project, [Request(given, {"rater": "agent", "session": "s1"})])
    for machine in (anna, ben, anna):
        machine.sync()
    assert {"kpt_001": ("Always test", 0, 0), "kpt_002": ("Be kind", 1, 0)} == ben.entries()
    uses = {
        name: (story["told"]["count"], story["cited"]["count"], len(story["notes"]))
        for name in ben.entries()
        for story in [ben.json("why", name)]
    }
    assert {"kpt_001": (0, 0, 0), "kpt_002": (1, 1, 1)} == uses
    record.write(ben.project, [Request(given, {"rater": "agent", "session": "s2"})])
    assert [1, 1] == [ben.json("why", name)["cited"]["count"] for name in ("kpt_001", "kpt_002")]


def test_a_followed_log_shows_what_a_sync_brings(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """The parts of a followed log are the events that came in since, each once, whichever log they are in."""
    anna, ben = pair
    log = open_log(anna.project)
    waits = iter((True, True, False))

    def wait() -> bool:
        if more := next(waits):
            commands.rate(ben.project, "kpt_001", "neutral", HUMAN)
            ben.sync()
            anna.sync()
        return more

    parts = [
        [str(event.seq) for event in records] for _, records in event_parts(log, EventFilter(kinds=("point.*",)), wait)
    ]
    assert ["book:3", "book:5", "book:7", "book:10", "book:12", "book:14", "book:16", "10"] == parts[0]
    assert [1, 1] == [len(part) for part in parts[1:]]


def test_redact_takes_every_name_of_an_event(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """`redact` takes `book:N`, and the own number of an event that is in the book meanwhile."""
    anna, _ = pair
    assert 0 == anna.run("redact", "2", "--reason", "a name").code
    assert 0 == anna.run("redact", "book:10", "--reason", "a name").code
    assert ["[redacted]", "Use git", "[redacted]"] == [text for text, *_ in anna.entries().values()]
    assert 0 == anna.run("verify").code
