"""Redaction: what is erased, what is left, and what refuses a redacted text; `tests/tape/stories` has its answers."""

from __future__ import annotations

from collections.abc import Callable
import errno
from itertools import product
import json
import os
from pathlib import Path
import re
import shutil
import stat
import subprocess
from typing import Any
import unicodedata

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.commands import Run
from helpers.events import HUMAN, list_events
from helpers.ledger_files import hold_ledger_lock
from helpers.reviews import Terminal
from tallybook import compat
from tallybook.ledger.errors import EXIT_NO
from tallybook.ledger.events import PointRated
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.ledger.storage import disk, redaction, spool
from tallybook.ledger.storage.redacted_digests import FOLDER, MIN_TEXT_CHARS, NAME, RedactedTextError, normalize_look
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands
from tallybook.projections.surfaces.writing.curation import make_undo
from tallybook.projections.surfaces.writing.erasure import RedactionResult
from tallybook.projections.surfaces.writing.redact import NothingToRedactError, RedactionTarget, find_text, redact
from tallybook.projections.surfaces.writing.requests import Request

PRIVATE = "hunter2 & 'ключ'\n🔑"
TOLD = f"the key is {PRIVATE}, keep it"


def spellings(text: str) -> set[bytes]:
    """Return the spellings of a text in a file: unchanged, in JSON, and in JSON within JSON."""
    found = {text}
    for _ in range(2):
        found |= {json.dumps(spelling, ensure_ascii=plain)[1:-1] for spelling, plain in product(found, (True, False))}
    return {spelling.encode() for spelling in found}


def find_files_with_text(here: Project, text: str = PRIVATE) -> list[str]:
    """Return the files in the agent's folder that hold a text in any spelling."""
    files = (path for path in sorted(here.claude.rglob("*")) if path.is_file() and not path.is_symlink())
    return [path.name for path in files if any(spelling in path.read_bytes() for spelling in spellings(text))]


def content(here: Project) -> dict[Path, bytes]:
    """Return every file in the agent's folder except those of locks and caches."""
    files = (path for path in here.claude.rglob("*") if path.is_file() and not path.name.endswith("lock"))
    return {path: path.read_bytes() for path in files}


def strike(here: Project, text: str | None = PRIVATE, event: str | None = None) -> RedactionResult:
    """Redact a text or an event."""
    return redact(here, RedactionTarget(event, text), "it was private", HUMAN)


def texts(here: Project) -> list[str]:
    """Return the texts that the playbook shows."""
    return [entry["text"] for entry in commands.show(here)["key_points"]]


def counts(here: Project) -> list[tuple[Any, ...]]:
    """Return the playbook apart from its texts."""
    return [(entry["name"], entry["helpful"], entry["harmful"]) for entry in commands.show(here)["key_points"]]


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with three entries and three ratings; the second text has the secret."""
    here = Project(project)
    for text in ("Use type hints", TOLD, "Test the edges"):
        commands.add(here, text, HUMAN)
    for name in ("kpt_001", "kpt_002", "kpt_002"):
        commands.rate(here, name, "helpful", HUMAN)
    return here


# None that ids and digests have: there a text would stand by chance.
LETTERS = st.text(st.sampled_from(list('xyXY"\\/{}é🔑\n\t\x01\u2028 ,:')), min_size=4, max_size=12)
SECRETS = LETTERS.filter(lambda text: len(text.strip()) >= MIN_TEXT_CHARS)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(secret=SECRETS, others=st.lists(LETTERS, min_size=1, max_size=3), beside=LETTERS, long=st.booleans())
def test_any_text_can_be_erased_from_the_project(
    new_project: Callable[[], Path], secret: str, others: list[str], beside: str, *, long: bool
) -> None:
    """No file holds it afterwards; other texts, all counts and the chain before it stay."""
    here = Project(new_project())
    said = [f"{beside}{secret}{'x' * 10_000 * long}{secret}", *(f"other {text}" for text in others)]
    names = commands.record(here, {"new_key_points": said}, HUMAN).added
    commands.rate(here, names[0], "helpful", HUMAN)
    (here.ledger / "a.json").write_text(json.dumps({"said": said}))
    shown, before, head = texts(here), counts(here), commands.verify_and_fold(here)[0].head
    done = strike(here, secret)
    assert ([], [], []) == (done.remaining, find_files_with_text(here, secret), list(done.bodies))
    look = normalize_look(secret)
    is_alike = len(look.strip()) >= MIN_TEXT_CHARS
    gone = [secret in text or (is_alike and look in normalize_look(text)) for text in shown]
    assert [REDACTED if is_gone else text for text, is_gone in zip(shown, gone, strict=True)] == texts(here)
    assert before == counts(here)
    verdict = commands.verify_and_fold(here, expect=f"{head.seq}:{head.chain}")[0]
    assert ((), ()) == (verdict.problems, verdict.notes)
    assert 1 == sum(isinstance(e, PointRated) for batch in reading.batches(here) for e in batch.events)
    commands.check(here)


TEXTS = ["Work with type hints", "Test with real files", "Quote ids"]


@pytest.fixture
def named(project: Path) -> Project:
    """Return a project with two entries that hold the word, and one that does not."""
    named = Project(project)
    for text in TEXTS:
        commands.add(named, text, HUMAN)
    return named


@pytest.mark.parametrize(("answer", "code"), [("n", EXIT_NO), ("", EXIT_NO), ("y", 0)])
def test_a_terminal_lists_the_events_and_asks(named: Project, answer: str, code: int) -> None:
    """Each event and its text are listed before the question, and only a yes redacts them."""
    before = content(named)
    terminal = Terminal(named.root, "redact", "--text", "with", "--reason", "a slip")
    terminal.enter(f"{answer}\n")
    ended, shown = terminal.end()
    assert code == ended
    assert all(text in shown.partition("Redact the whole text of 2 events?")[0] for text in TEXTS[:2])
    assert "Redact the whole text of 2 events?" in shown
    assert (code == 0) == (texts(named) == [REDACTED, REDACTED, TEXTS[2]])
    assert (code != 0) == (before == content(named))


FIRST, LAST = "Use type hints", "Test the edges"


def assert_erased(here: Project, *others: str) -> None:
    """Check that the playbook has these texts after the first ones, and no file holds the secret."""
    assert [FIRST, REDACTED, LAST, *others] == texts(here)
    assert ([], []) == (find_files_with_text(here), find_files_with_text(here, "hunter2"))
    verdict = commands.verify_and_fold(here)[0]
    assert ((), ()) == (verdict.problems, verdict.notes)


def test_an_update_saved_after_a_redaction_loses_only_the_redacted_text(here: Project) -> None:
    """Its other texts and ratings count, and a rating of the refused text counts for no entry."""
    loaded = compat.load_playbook()
    strike(here)
    compat.update_playbook_data(loaded, {"new_key_points": [f"so {PRIVATE}"], "evaluations": []})
    (refused,) = {entry["name"] for entry in loaded["key_points"]} - {"kpt_001", "kpt_002", "kpt_003"}
    commands.add(here, "of another session", HUMAN)
    rated = [{"name": name, "rating": "harmful"} for name in (refused, "kpt_001")]
    compat.update_playbook_data(loaded, {"new_key_points": ["fresh"], "evaluations": rated})
    with pytest.warns(UserWarning, match="the text was redacted on "):
        compat.save_playbook(loaded)
    assert_erased(here, "of another session", "fresh")
    assert [1, 0, 0, 0, 0] == [entry["harmful"] for entry in commands.show(here)["key_points"]]
    assert [FIRST, TOLD, LAST, "fresh"] == [entry["text"] for entry in loaded["key_points"]]
    compat.update_playbook_data(loaded, {"evaluations": [{"name": refused, "rating": "harmful"}]})
    compat.save_playbook(loaded)
    assert [1, 0, 0, 0, 0] == [entry["harmful"] for entry in commands.show(here)["key_points"]]


def test_the_reason_of_an_undo_is_compared_under_the_lock(here: Project) -> None:
    """A redaction can end after the undo began."""
    undo = Request(make_undo(["id-1"], reason=f"for {PRIVATE}"), HUMAN)
    strike(here)
    with pytest.raises(RedactedTextError):
        commands.record_request(here, undo)
    assert_erased(here)


def test_the_digests_are_in_one_private_file_that_git_ignores(here: Project) -> None:
    """It is 0600, holds no text, has a key of its own, and is ignored even if the ledger is tracked."""
    strike(here)
    path = here.ledger / FOLDER / NAME
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert "hunter2" not in path.read_text()
    shared = stat.S_IMODE(here.ledger.stat().st_mode) | stat.S_IWGRP
    here.ledger.chmod(shared)
    strike(here, FIRST)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    (here.ledger / ".gitignore").unlink()
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=here.root, check=True, capture_output=True)
    tracked = subprocess.run(["git", "ls-files"], cwd=here.root, check=True, capture_output=True, text=True).stdout
    assert "events.jsonl" in tracked
    assert NAME not in tracked


@pytest.mark.usefixtures("here")
def test_what_looks_the_same_is_found_after_a_backslash(run: Run) -> None:
    """The backslash of a path is no escape that hides what follows it."""
    run("add", r"Read C:\nadia  zwiebel first")
    assert "point.added kpt_004" in run("redact", "--text", "nadia zwiebel", "--dry-run").out


def test_a_redacted_text_in_the_spool_is_left_out(here: Project) -> None:
    """The next command says so, and records the rest of the payload."""
    strike(here)
    with hold_ledger_lock(here):
        assert commands.record(here, {"new_key_points": [f"{TOLD}!", "later"]}, {"rater": "reflector"}).spooled
    notes = commands.rate(here, "kpt_001", "helpful", HUMAN).notes
    assert any("the text was redacted on " in note for note in notes)
    assert_erased(here, "later")


# A redacted text in files: Tallybook's own lose it in every spelling and look, and those of others are named.


STAMP = "20261118T110640123456Z"
PLACES: dict[str, Callable[[str], bytes]] = {
    "ledger/day.json": lambda text: json.dumps({"notes": [{"text": text}]}).encode(),
    "ledger/plain.json": lambda text: json.dumps({text: 1}, ensure_ascii=False).encode(),
    "ledger/lines.jsonl": lambda text: b"".join(json.dumps({"n": n, "t": text}).encode() + b"\n" for n in range(3)),
    f"diagnostic/{STAMP}_playbook_pruning.txt": lambda text: f'  - kpt_001: "{text}" (helpful=0)'.encode(),
    f"diagnostic/{STAMP}_playbook_migration.txt": lambda text: json.dumps([{"text": text}], indent=2).encode(),
    "playbook.json.unreadable-20261118T110640": lambda text: b'{"key_points": ["' + text.encode() + b"\xff",
    "ledger/quarantine/7-99.bin": lambda text: b"\0" * 5000 + json.dumps(text).encode() + b"\0",
    "ledger/spool/a.json": lambda text: json.dumps({"requests": [text], "id": 5}).encode(),
    "ledger/spool/b.json": lambda text: json.dumps(json.dumps([text])).encode()[:-1],
    "ledger/spool/.c.json.77.tmp": lambda text: json.dumps({"original": json.dumps({"t": json.dumps(text)})}).encode(),
    "ledger/.playbook.json.4242.tmp": lambda text: json.dumps({"key_points": [{"text": text}]}).encode(),
    "ledger/.erasing.4242.tmp": lambda text: json.dumps({"texts": [text]}).encode(),
    "ledger/marks/point-9": lambda text: text.encode() + b" " * 3_000_000 + text.encode(),
}
UPPER = re.sub(r"(?<=\\u)[0-9a-f]{4}", lambda found: found[0].upper(), json.dumps(PRIVATE)[1:-1])


def test_every_file_of_tallybook_loses_the_text(here: Project) -> None:
    """Scores, diagnostics, quarantine, spool and set-aside files lose it, in every spelling."""
    expected = []
    for place, write in PLACES.items():
        path = here.claude / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(write(TOLD))
        expected.append(path)
    upper = here.ledger / "upper.json"
    upper.write_text(f'{{"a": "{UPPER}"}}')
    sizes = {path: path.stat().st_size for path in [*expected, upper]}
    assert {*expected, upper, here.playbook} == {*find_text(here, RedactionTarget(text=PRIVATE)).files}
    done = strike(here)
    assert sorted([*expected, upper]) == sorted(done.files)
    assert ([], [], []) == (done.remaining, done.foreign, done.unsearched)
    assert ([], []) == (find_files_with_text(here), find_files_with_text(here, "hunter2"))
    assert sizes == {path: path.stat().st_size for path in sizes}
    assert "the key is" in (here.claude / "diagnostic" / f"{STAMP}_playbook_pruning.txt").read_text()
    assert None is redaction.read_pending(here.ledger)


def test_redaction_reaches_no_file_that_is_not_tallybooks(here: Project) -> None:
    """A file of someone else keeps the text and is named, also in folders where Tallybook has files of its own."""
    places = ("metrics/benchmarks/run.json", "metrics/scores/mine.json", "diagnostic/mine.md", "playbook.json.bak")
    others = [here.claude / place for place in places]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TOLD)
    done = strike(here)
    assert sorted(others) == sorted(done.foreign)
    assert [TOLD] * len(others) == [path.read_text() for path in others]


def test_a_planted_pending_file_has_no_effect(here: Project, tmp_path: Path) -> None:
    """A pending file from an archive hides no text and erases none, and `verify` reports it as ignored."""
    (event,) = (row for row in list_events(here) if row["seq"] == 4)
    redaction.add_pending(here.ledger, (event["id"],), (PRIVATE,), "planted", HUMAN)
    note = json.loads((here.ledger / "erasing").read_bytes())
    redaction.remove_pending(here.ledger)
    note["proof"] |= {"boot": "another machine's", "made": note["proof"]["made"] - 3600 * 10**9}
    (tmp_path / "archived").write_text(json.dumps(note))
    shutil.copy2(tmp_path / "archived", here.ledger / "erasing")
    before = texts(here)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    assert (before, TOLD) == (texts(here), before[1])
    verdict = commands.verify_and_fold(here)[0]
    assert ((), ()) == (verdict.problems, verdict.redacted)
    assert any("is ignored" in note for note in verdict.notes)
    assert ([], [REDACTED]) == (strike(here).remaining, texts(here)[1:2])
    assert [] == find_files_with_text(here)


def test_a_hard_link_in_place_of_a_pending_file_is_left_intact(here: Project) -> None:
    """A file of someone else's that was linked in place of a finished one is not overwritten."""
    other = here.root / "notes.md"
    other.write_text(f" {TOLD}")
    for place in ("erasing", "quarantine/7-99.bin"):
        (here.ledger / place).parent.mkdir(exist_ok=True)
        (here.ledger / place).hardlink_to(other)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    redaction._erase_copies(here.ledger / "quarantine", 7)
    assert f" {TOLD}" == other.read_text()
    assert [False, False] == [(here.ledger / place).exists() for place in ("erasing", "quarantine/7-99.bin")]


def test_checkouts_in_the_agents_folder_are_left_out(here: Project) -> None:
    """Whole working trees that the agent has there are copies like any other; a file of that name is not."""
    inside, beside = here.claude / "worktrees" / "one" / "a.txt", here.claude / "agents" / "worktrees" / "a.txt"
    for path in (inside, beside):
        path.parent.mkdir(parents=True)
        path.write_text(TOLD)
    done = strike(here)
    assert ([beside], []) == (done.foreign, done.unsearched)
    assert [TOLD, TOLD] == [path.read_text() for path in (inside, beside)]


def test_no_link_is_followed_out_of_the_folder(here: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Links out are named as not searched, inner ones are searched at their target, and a pipe is skipped."""
    out = tmp_path_factory.mktemp("out")
    (out / "note.txt").write_text(TOLD)
    (here.ledger / "inside.txt").write_text(TOLD)
    links = {"diagnostic": out, "ledger/link.txt": out / "note.txt", "skills": out}
    for place, target in links.items():
        (here.claude / place).symlink_to(target)
    (here.ledger / "own").symlink_to(here.ledger / "inside.txt")
    (here.ledger / "nowhere").symlink_to(here.claude / "nothing")
    os.mkfifo(here.ledger / "pipe")
    done = strike(here)
    assert sorted(links) == sorted(
        str(Path(line.partition(": ")[0]).relative_to(here.claude)) for line in done.unsearched
    )
    assert ([], []) == (done.remaining, done.foreign)
    assert TOLD == (out / "note.txt").read_text()
    assert ([], None) == (find_files_with_text(here), redaction.read_pending(here.ledger))


def test_a_folder_that_cannot_be_listed_stays_to_be_searched(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it may hold Tallybook's files the redaction is not over, and the next command goes on with it."""
    foreign = here.claude / "skills"
    foreign.mkdir()
    (here.ledger / "note.txt").write_text(TOLD)
    scandir, closed = os.scandir, [foreign, here.claude]

    def refuse(path: str | int) -> Any:
        if path in list(map(os.fspath, closed)):
            raise OSError(errno.EIO, "Input/output error", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert [f"{here.claude}: could not be listed"] == strike(here).remaining
    assert "note.txt" in find_files_with_text(here)
    closed.remove(here.claude)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    assert ([], None) == (find_files_with_text(here), redaction.read_pending(here.ledger))


def test_every_name_of_a_file_loses_the_text(here: Project) -> None:
    """A backup by hard links is overwritten with the file itself; one of the log, too."""
    (here.ledger / "a.txt").write_text(TOLD)
    backup = here.root / "backup"
    shutil.copytree(here.claude, backup, copy_function=os.link)
    assert [] == strike(here).remaining
    with pytest.raises(NothingToRedactError):
        strike(here)
    left = [path.name for path in backup.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    # The old rendering was replaced, not overwritten: what stands in the backup alone is beyond reach.
    assert ["playbook.json"] == left


PERSON = "José Martínez"
ALIKE = {
    "decomposed": unicodedata.normalize("NFD", PERSON),
    "no-break space": PERSON.replace(" ", "\u00a0"),
    "line break": PERSON.replace(" ", "\n"),
    "two blanks": PERSON.replace(" ", " \t "),
    "soft hyphen": PERSON.replace("tín", "tí\u00adn"),
    "zero width": PERSON.replace("tín", "tí\u200bn"),
    "byte order mark": PERSON.replace("tín", "\ufefftín"),
    "within a letter": unicodedata.normalize("NFD", PERSON).replace("\u0301", "\u200d\u0301"),
    "full width": PERSON.replace("Mart", "\uff2d\uff41\uff52\uff54"),
    "control": PERSON.replace("tín", "tí\x01n"),
    "variation selector": PERSON.replace("tín", "tí\ufe0fn"),
}
OTHERS = ["Jose Martinez", "José", "JoséMartínez"]


@pytest.mark.parametrize("look", ALIKE.values(), ids=ALIKE)
@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_text_that_looks_the_same_is_redacted_and_does_not_return(
    here: Project, look: str, *, is_swapped: bool
) -> None:
    """A name is found in the log and a file whichever of its looks is given, and others are left and accepted."""
    given, recorded = (look, PERSON) if is_swapped else (PERSON, look)
    for text in (f"Ask {recorded} first", *OTHERS):
        commands.add(here, text, HUMAN)
    path = here.ledger / "a.json"
    path.write_text(json.dumps({"t": [f"Ask {recorded}", *OTHERS]}))
    done = strike(here, given)
    assert (1, 1, []) == (len(done.events), done.alike, done.remaining)
    assert [REDACTED, *OTHERS] == texts(here)[3:]
    masked, *left = json.loads(path.read_text())["t"]
    assert ("*", OTHERS) == (masked[-1], left)
    assert () == commands.verify_and_fold(here)[0].problems
    for text in (recorded, f"Tell {recorded} last"):
        assert "was redacted" in commands.record(here, {"new_key_points": [text]}, HUMAN).ignored[0].reason
    assert () == commands.record(here, {"new_key_points": [f"{text} too" for text in OTHERS]}, HUMAN).ignored


def test_a_look_with_few_visible_characters_matches_nothing_else(here: Project) -> None:
    """A text of which almost nothing is visible is redacted as it is, not wherever its one letter occurs."""
    hidden = "a\u200b\u200b\u200b"
    commands.add(here, f"Say {hidden} here", HUMAN)
    commands.add(here, "This is a text", HUMAN)
    strike(here, hidden)
    assert [REDACTED, "This is a text"] == texts(here)[3:]
    assert not commands.record(here, {"new_key_points": ["Take a break"]}, HUMAN).ignored


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("form", [r"\u{:04x}", r"\u{:04X}", "{:c}"], ids=["escaped", "capital", "plain"])
def test_escapes_in_a_broken_playbook_that_was_set_aside_are_erased(here: Project, layers: int, form: str) -> None:
    r"""A broken ``playbook.json.unreadable-*`` loses a text of ``\u`` escapes, of each layer of JSON, and no other."""
    spelled = "".join(form.format(ord(char)) for char in PERSON)
    for _ in range(layers - 1):
        spelled = json.dumps(spelled)[1:-1]
    path = here.claude / "playbook.json.unreadable-20261118T110640"
    broken = '{"key_points": [\n"Use \\"quotes\\"",\n"an open string,\n"Ask %s first",\n"Test the edges"'
    path.write_text(broken % spelled)
    done = strike(here, PERSON)
    assert ([path], []) == (done.files, done.remaining)
    data = path.read_text()
    assert len((broken % spelled).encode()) == len(data.encode())
    assert "*" in data
    assert all(line in data for line in ('"Use \\"quotes\\"",', '"Test the edges"'))
    assert PERSON not in json.loads(f'"{data.split(chr(10))[3][1:-2]}"')


@pytest.mark.parametrize("word", ["evaluations", "2026"])
def test_a_pending_redaction_of_a_word_of_our_json_keeps_the_spooled_ratings(here: Project, word: str) -> None:
    """A payload that waits while a redaction is pending is recorded whole: its format is not overwritten."""
    commands.add(here, f"Never say {word} aloud", HUMAN)
    fd = os.open(here.ledger / "render.lock", os.O_RDWR)
    try:
        assert disk.try_lock(fd)
        assert "not finished" in strike(here, word).remaining[0]
        payload = {
            "evaluations": [{"name": "kpt_001", "rating": "helpful", "justification": "it found a bug"}],
            "new_key_points": ["Plan before the work"],
        }
        with hold_ledger_lock(here):
            assert commands.record(here, payload, HUMAN).spooled
    finally:
        os.close(fd)
    commands.replay(here)
    assert None is redaction.read_pending(here.ledger)
    assert ([], ([], [])) == (list(commands.verify_and_fold(here)[0].problems), spool.read_files(here.ledger))
    assert ("kpt_001", 2, 0) in counts(here)
    assert [REDACTED, "Plan before the work"] == texts(here)[3:]
