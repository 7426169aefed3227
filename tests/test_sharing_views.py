"""What verbs answer in a shared project beside the tape, which has most: numbers, moments, machines."""

from __future__ import annotations

from collections import Counter
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.browser import play, read_page
from helpers.events import make_injection
from helpers.shared_machines import HUMAN, SharedMachine, make_machines, make_pair
from tallybook import Author, Ledger, compat
from tallybook.ledger.codec import decode
from tallybook.ledger.events import KIND_OF, PointCited, PointProposed, PointRated
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.sharing.numbers import BOOK, PENDING, SharedNumber, parse_book_number, plain
from tallybook.projections.history.review import LESSON_VERB
from tallybook.projections.surfaces.cli.mcp import TOOLS
from tallybook.projections.surfaces.history import events
from tallybook.projections.surfaces.history.shared_log import SharedLog
from tallybook.projections.surfaces.sharing import syncing
from tallybook.projections.surfaces.writing import commands, curation, record, requests
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request


@pytest.fixture(name="pair")
def _pair(tmp_path: Path) -> tuple[SharedMachine, SharedMachine]:
    return make_pair(tmp_path)


@pytest.fixture(name="anna")
def _anna(pair: tuple[SharedMachine, SharedMachine]) -> SharedMachine:
    return pair[0]


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


def test_redact_names_events_as_it_takes_them(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """The number that `redact` prints for an event of the book is the one that `redact` takes and `log` lists."""
    anna, bela = pair
    anna.run("add", "One that waits here")
    bela.run("add", "Call Mr Durian")
    bela.sync()
    anna.sync()
    (found,) = anna.json("redact", "--text", "Durian", "--reason", "a name", "--dry-run")["events"]
    (listed,) = [row for row in anna.lines("log") if row["id"] == found["id"]]
    assert (listed["seq"], listed["book"]) == (found["seq"], found["book"])
    shown = anna.run("redact", f"book:{found['book']}", "--reason", "a name", "--dry-run").out
    assert f"event book:{found['book']}, point.added" in shown


def test_own_reasons_stay_here_and_are_shown_here(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """A reason leaves no machine, and each view of the machine that gave it has it, before the sync and after it."""
    anna, bela = pair
    anna.run("retire", "kpt_003", "--reason", "it is unkind")
    for machine, reason in ((anna, "it is unkind"), (anna, "it is unkind"), (bela, "")):
        retired = [row for row in machine.lines("log") if row["kind"] == "point.retired"]
        assert [reason] == [row["free"]["reason"] for row in retired]
        assert [reason or None] == [row["reason"] for row in machine.json("show", "--gone")]
        anna.sync()
        bela.sync()
    assert b"unkind" not in b"".join(SharedLog(bela.project.ledger).copy.pieces())


def test_commands_answer_with_the_numbers_that_log_lists(anna: SharedMachine) -> None:
    """What a command in a shared project answers begins and ends with an event that `log` lists, a repetition too."""
    rated = ("add units", "rate kpt_003 helpful", "rate kpt_003 harmful --reason unkind", "pin kpt_003")
    curated = ("retire kpt_001", "restore kpt_001", "reword kpt_002 commits", "merge kpt_002 kpt_001", "undo")
    file, other = anna.project.root / "payload.json", make_machines(anna.project.root / "other", "zoe")[0]
    evaluations = [{"name": "kpt_003", "rating": "helpful"}]
    file.write_text(json.dumps({"new_key_points": ["Quote ids"], "evaluations": evaluations}))
    for text in ("Ask early", "Be kind"):
        commands.add(other.project, text, HUMAN)
    commands.rate(other.project, "kpt_002", "helpful", HUMAN)
    new: list[int] = []
    recorded = ("record F --key k1", "record F --key k1", f"import --ledger {other.project.ledger}")
    for line in (*rated, *curated, *recorded):
        before = {row["seq"] for row in anna.lines("log")}
        answer = anna.json(*(str(file) if word == "F" else word for word in line.split()))
        new = [row["seq"] for row in anna.lines("log") if row["seq"] not in before] or new
        first = answer.get("seq_from", answer.get("seq"))
        assert (new[0], new[-1]) == (first, answer.get("seq_to", first)), (line, answer)


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


def test_moments_of_this_machine_and_of_the_book(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """A number, `~N` and a session are moments of this machine; `book:N` is the same on every machine."""
    anna, ben = pair
    assert {"kpt_001": ("Always test", 1, 0), "kpt_002": ("Use git", 0, 0)} == anna.entries("8")
    assert anna.entries("9") == anna.entries("~2") == anna.entries("session:s1")
    assert 2 == anna.entries()["kpt_003"][1]
    for number in range(1, 18):
        assert anna.entries(f"book:{number}") == ben.entries(f"book:{number}")
    assert anna.entries("book:8") == anna.entries("8")


def test_log_goes_on_after_each_event(anna: SharedMachine) -> None:
    """`log --since` does not list the event itself again, inside a batch either."""
    commands.add(anna.project, "Ask early", HUMAN)
    for row in anna.lines("log"):
        named = f"book:{row['book']}" if row["seq"] is None else str(row["seq"])
        assert row["id"] not in {later["id"] for later in anna.lines("log", "--since", named)}, named


def test_the_last_number_of_an_answer_is_a_moment_with_all_of_it(anna: SharedMachine) -> None:
    """The last event that `rate` names ends its batch for `show --at`, although the ledger has a line after it."""
    before = anna.entries()["kpt_003"][1]
    last = anna.json("rate", "kpt_003", "helpful")["seq_to"]
    assert [before, before + 1] == [anna.entries(str(seq))["kpt_003"][1] for seq in (last - 1, last)]


def test_plain_undo_undoes_the_last_change_of_this_machine(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """`undo` takes back the own last change, also where a colleague's came later."""
    anna, ben = pair
    commands.rate(ben.project, "kpt_001", "harmful", HUMAN)
    ben.sync()
    anna.sync()
    done = anna.json("undo")
    assert ["kpt_003 rated helpful", "update: 1 rating"] == [row["summary"] for row in done["events"]]
    assert ("Always test", 1, 1) == anna.entries()["kpt_001"]


def test_why_names_the_undo_of_an_entry(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """`why` names the undo of an entry by its own number until it is published, and then by that of the book."""
    anna, bela = pair
    anna.run("add", "Name units")
    sync_all(anna, bela)
    anna.run("undo")
    for machine, is_in_book in ((anna, False), (anna, True), (bela, True)):
        story = machine.json("why", "Name units")
        assert ("undone", "events.voided") == (story["status"], story["decided_by"]["kind"])
        assert story["decided_by"] in story["deciding"]
        assert is_in_book == (story["decided_by"]["seq"] is None)
        sync_all(anna, bela)


def test_a_late_rating_names_restore(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """A rating for an entry that was retired meanwhile has no effect, and `why` names the command to bring it back."""
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
    """Each moment of the page is what `show --at` prints at the moment that the page's commands take."""
    assert 0 == anna.run("undo", "book:16").code
    path = tmp_path / "page.html"
    made = anna.json("page", "--output", str(path))
    assert (23, 3, []) == (made["counts"]["events"], made["counts"]["entries"], made["warnings"])
    meta, document = read_page(path.read_text(encoding="utf-8"))
    labels = {first: names for first, *names in meta["labels"]}
    assert meta["commands"]
    first, shown = 1, Counter[bool]()
    for last, rows in play(document["film"]):
        label, moment = labels[first]
        prefix, mark, number = label.rpartition(":")
        entries = anna.json("show", "--at", moment or f"{prefix}{mark}{int(number) + last - first}")["key_points"]
        kept = {row["place"]: name for name, row in rows.items() if row["status"] == 1}
        assert [entry["name"] for entry in entries] == [kept[place] for place in sorted(kept)], label
        shown[moment is not None and kept != {}] += 1
        first = last + 1
    assert shown[True] > 0
    assert shown[False] > 3
    assert [rater for rater in document["film"]["raters"] if " at " in rater]
    assert 0 == anna.run("page", "--output", str(path), "--force", "--at", "book:9", "--without-texts").code
    assert [] == [
        rater for rater in read_page(path.read_text(encoding="utf-8"))[1]["film"]["raters"] if " at " in rater
    ]


def test_the_page_tells_when_shared_events_happened(anna: SharedMachine, tmp_path: Path) -> None:
    """With and without texts, a story has the time at which an event was recorded, not at which it was published."""
    added = requests.Update({"new_key_points": ["An entry of a day long past."]})
    record.write(anna.project, [Request(added, HUMAN, when="2026-01-31T12:00:00.000000Z")])
    anna.sync()
    for more in ([], ["--without-texts"]):
        path = tmp_path / "page.html"
        assert 0 == anna.run("page", "--output", str(path), "--force", *more).code
        stories = read_page(path.read_text(encoding="utf-8"))[1]["stories"]["stories"]
        assert "2026-01-31 12:00" in str(stories), more


def test_the_page_shows_a_batch_that_was_recorded_during_a_sync(
    pair: tuple[SharedMachine, SharedMachine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its moment is that of the sync's event, from which on the playbook has what the sync brought."""
    anna, ben = pair
    commands.add(ben.project, "Commit often", HUMAN)
    ben.sync()
    commands.rate(anna.project, "kpt_003", "helpful", HUMAN)
    with monkeypatch.context() as patch:
        append = syncing.Sync._append

        def append_late(self: syncing.Sync, *batches: Any) -> Any:
            commands.rate(anna.project, "kpt_003", "harmful", HUMAN)
            return append(self, *batches)

        patch.setattr(syncing.Sync, "_append", append_late)
        anna.sync()
    anna.json("page", "--output", str(tmp_path / "page.html"))
    meta, document = read_page((tmp_path / "page.html").read_text(encoding="utf-8"))
    entries = anna.json("show", "--at", meta["labels"][-1][2])["key_points"]
    (*_, (_, rows)) = play(document["film"])
    kept = {row["place"]: name for name, row in rows.items() if row["status"] == 1}
    assert [entry["name"] for entry in entries] == [kept[place] for place in sorted(kept)]


def test_own_unshared_events_follow_a_renamed_entry(tmp_path: Path) -> None:
    """Citations, injections and notes from before a machine joined count for the entry that they meant."""
    anna, ben = make_machines(tmp_path, "anna", "ben")
    commands.add(anna.project, "Always test", HUMAN)
    commands.add(ben.project, "Be kind", HUMAN)
    assert 0 == ben.run("rate", "kpt_001", "helpful", "--reason", "it was").code
    given = PlainEvents((make_injection(("kpt_001",), 0), PointCited("kpt_001", "message")))
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


# Sections in a shared project: they travel and land with their entries (rule 18).


MISTAKES, PATTERNS = "MISTAKES TO AVOID", "PATTERNS & APPROACHES"


def add(machine: SharedMachine, text: str, section: str) -> str:
    """Add an entry to a section, and return its name."""
    (name,) = commands.add(machine.project, {"text": text, "section": section}, HUMAN).added
    return name


def sections(machine: SharedMachine) -> dict[str, list[str]]:
    """Return the texts of the entries in each section; playbook.json must say the same."""
    commands.check(machine.project)
    shown = commands.show(machine.project)
    texts = {entry["name"]: entry["text"] for entry in shown["key_points"]}
    found = shown.get("section_names", {})
    return {heading: sorted(texts[name] for name in names) for heading, names in found.items()}


def sync_all(*machines: SharedMachine) -> None:
    """Sync until every machine has everything."""
    for machine in (*machines, *machines):
        machine.sync()


def test_sections_land_with_their_entries(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """Two machines add an entry at once; each is in its own section everywhere, before and after it lands."""
    anna, ben = pair
    sync_all(anna, ben)
    add(anna, "From Anna", MISTAKES)
    add(ben, "From Ben", PATTERNS)
    assert {PATTERNS: ["From Ben"]} == sections(ben)
    sync_all(anna, ben)
    assert ["From Anna"] == sections(anna)[MISTAKES]
    assert ["From Ben"] == sections(anna)[PATTERNS]
    assert sections(anna) == sections(ben)


def test_names_by_section_go_on_by_section(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """In the later format two machines give `mis-001` at once; the one that lands later is `mis-002`."""
    anna, ben = pair
    sync_all(anna, ben)
    for machine in pair:
        path = machine.project.claude / "config" / "tallybook.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text('[playbook]\nformat = "sections"\n')
    assert ("mis-001", "mis-001") == (add(anna, "From Anna", MISTAKES), add(ben, "From Ben", MISTAKES))
    sync_all(anna, ben)
    assert (["From Anna", "From Ben"], sections(ben)) == (sections(anna)[MISTAKES], sections(anna))
    assert {"mis-001", "mis-002"} <= {point["name"] for point in commands.show(anna.project)["key_points"]}
    assert "mis-003" == add(ben, "Once more", MISTAKES)


def test_a_pending_edit_names_the_entries_of_sections_as_they_were_shown(tmp_path: Path) -> None:
    """An edit of another key has all sections, and means the kpt_001 of the book, not its own of before it shared."""
    anna, ben = make_machines(tmp_path, "anna", "ben")
    add(anna, "From Anna", MISTAKES)
    commands.add(ben.project, "From Ben before he shared", HUMAN)
    sync_all(anna, ben)
    before = sections(ben)
    assert {MISTAKES: ["From Anna"]} == before
    document = json.loads(ben.project.playbook.read_text(encoding="utf-8"))
    ben.project.playbook.write_text(json.dumps(document | {"note": "mine"}), encoding="utf-8")
    commands.replay(ben.project)
    assert before == sections(ben)
    sync_all(ben, anna)
    assert (before, before) == (sections(ben), sections(anna))


# Proposals on a machine that shares a book.


def test_a_lesson_stays_on_its_machine_until_a_person_accepts_it(tmp_path: Path) -> None:
    """Neither the lesson nor its message reaches another machine; the accepted entry does."""
    anna, ben = make_machines(tmp_path, "anna", "ben")
    lesson = PointProposed(LESSON_VERB, "", (), "lesson", "", "Seed the database first", "It was an empty database.")
    record.write(ben.project, [Request(PlainEvents((lesson,)), {"rater": "agent", "session": "s1"})])
    commands.add(ben.project, "Be kind", HUMAN)
    for machine in (ben, anna):
        machine.sync()
    assert ([], {"kpt_001": ("Be kind", 0, 0)}) == (curation.open_proposals(anna.project), anna.entries())
    (proposal,) = curation.open_proposals(ben.project)
    curation.accept(ben.project, proposal, "", HUMAN)
    for machine in (ben, anna):
        machine.sync()
    assert ("Seed the database first", 0, 0) == anna.entries()["kpt_002"]
    received = [path.read_bytes() for path in anna.project.claude.rglob("*") if path.is_file()]
    assert not any(b"It was an empty database" in data for data in received)


# What programs meet in a shared project: the functions of `tallybook.compat`, and the tools of the MCP server.


def test_a_rating_after_a_sync_counts_for_the_entry_that_was_loaded(
    pair: tuple[SharedMachine, SharedMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A playbook loaded before a sync is saved after it, and shared: nothing of the other machine is lost."""
    anna, ben = pair
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(anna.project.root))
    playbook = compat.load_playbook()
    assert 0 == ben.run("add", "Write tests").code
    assert 0 == ben.run("rate", "kpt_003", "harmful").code
    ben.sync()
    anna.sync()
    update = {"new_key_points": ["Name units"], "evaluations": [{"name": "kpt_003", "rating": "helpful"}]}
    compat.save_playbook(compat.update_playbook_data(playbook, update))
    for machine in (anna, ben):
        machine.sync()
    assert anna.entries() == ben.entries()
    assert ("Be kind", 3, 1) == anna.entries()["kpt_003"]
    assert {"Write tests", "Name units"} <= {text for text, _, _ in anna.entries().values()}


def test_the_mcp_server_rates_and_adds_in_a_shared_project(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """The tools `rate` and `add` record in the own ledger, and reach the other machine with the next syncs."""
    anna, ben = pair
    rated, added = call_tools(
        anna, ("rate", {"name": "kpt_003", "rating": "helpful", "reason": "it was"}), ("add", {"text": "Name units"})
    )
    assert [] == rated["ignored"]
    (name,) = added["added"]
    assert (("Be kind", 3, 0), "Name units") == (anna.entries()["kpt_003"], anna.entries()[name][0])
    for machine in (anna, ben):
        machine.sync()
    assert anna.entries() == ben.entries()
    assert "it was" not in "".join(map(json.dumps, ben.lines("log")))


def call_tools(machine: SharedMachine, *calls: tuple[str, dict[str, str]]) -> list[Any]:
    """Return what tools of a machine's MCP server answer."""
    ledger = Ledger(machine.project, Author("agent", "s9"))
    return [msgspec.convert(given, TOOLS[name]).run(ledger) for name, given in calls]
