"""The doctor's checks of the ledger's own files: each fault made for real, and no secret ever shown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.doctor import findings_of, levels, lines_of, posix
from helpers.real_command import run
from helpers.score_examples import events, plain, record_events
from helpers.spool_files import held
from tallybook.ledger import clock
from tallybook.ledger.errors import OutcomeUnknownError
from tallybook.ledger.line import Draft
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import disk, redaction
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.doctor import checks
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import redact as redacting

if TYPE_CHECKING:
    from pathlib import Path

# In two parts, so that no detector takes this file for a leak.
TOKEN = "ghp" + "_" + "aB3dE6gH9" * 4


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project whose ledger holds one key point and one rating."""
    here = Project(project)
    commands.add(here, "Use type hints", HUMAN)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    return here


# The ledger and its head


def test_a_ledger_that_is_gone_is_damage(here: Project) -> None:
    """A log that was acknowledged and is not there is damage, not a project without a ledger."""
    (here.ledger / "events.jsonl").unlink()
    findings = checks.run_checks(here)
    assert 3 == checks.exit_code(findings)
    assert [("bad", "events.jsonl: is missing, and held 5 events")] == findings_of(here, "ledger")


def test_a_ledger_of_a_later_version_asks_for_an_upgrade(here: Project) -> None:
    """A format from the future is no damage; the one line says who can read it."""
    path = here.ledger / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"format":1}', b'"format":9}', 1))
    findings = checks.run_checks(here)
    told = [one for one in findings if one.level == "bad" and "upgrade Tallybook" in one.message]
    assert (1, 1) == (checks.exit_code(findings), len(told))


def test_a_kind_of_a_later_version_is_noted(here: Project) -> None:
    """Events that this version keeps and ignores are counted, and are no fault."""
    with JsonlLog(here.ledger).transaction() as tx:
        tx.append([Draft("point.dreamt", 1, {})], HUMAN)
    (first, second) = findings_of(here, "ledger")
    assert ("note", "1 event of kind point.dreamt/1 kept and ignored") == first
    assert ("ok", True) == (second[0], second[1].startswith("6 events verified; head 6:"))


def test_a_ledger_of_which_nothing_was_written_yet_is_fine(project: Path) -> None:
    """A first writer that was killed before its first line leaves an empty log, and no fault."""
    here = Project(project)
    here.ledger.mkdir(mode=0o700)
    disk.replace_cache_file(here.ledger / "events.jsonl", b"")
    assert [("ok", "0 events verified")] == findings_of(here, "ledger")
    assert {} == levels(here)


@pytest.mark.parametrize("left", [None, b"torn"])
def test_a_head_that_says_nothing_is_noted(here: Project, left: bytes | None) -> None:
    """Without a head, or with half of one, a missing end would go unnoticed; the next writer makes it anew."""
    (here.ledger / "head").unlink()
    if left is not None:
        disk.replace_cache_file(here.ledger / "head", left)
    assert {"head": "note"} == levels(here)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    assert {} == levels(here)


def test_a_flush_that_failed_is_bad_until_it_is_made_good(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the disk may have lost is bad until it was written again."""

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "flush_data", fail)
        with pytest.raises(OutcomeUnknownError):
            commands.rate(here, "kpt_001", "helpful", HUMAN)
    ((level, message),) = [one for one in findings_of(here, "head") if one[0] == "bad"]
    assert ("bad", True) == (level, message.startswith("1 flush failed, and the disk may have lost what was written"))
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    assert [("ok", "it is there")] == findings_of(here, "head")


def test_events_dated_far_ahead_are_named(here: Project) -> None:
    """Events that say they happened hours after they were recorded are named by number; minutes are no finding."""
    last = commands.verify(here).head.seq
    for minutes in (6 * 60, 5, 24 * 60):
        when = clock.moment(clock.utc_now().unix_us + minutes * 60 * clock.MICROSECONDS).at
        record_events(here.root, "s1", events(plain(80)), when)
    ((level, message),) = findings_of(here, "dates")
    numbers = f"{last + 1}, {last + 2}, {last + 5} and 1 more"
    assert ("note", f"events {numbers} are dated far ahead of the time of recording, which counts") == (level, message)


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("Use tabs\u200b", "U+200B"),
        ("Use \u202etabs\u202c and \u00ad", "U+00AD, U+202C, U+202E"),
        ("Use\U000e0041 tabs", "U+E0041"),
        ("Two lines:\n\tand a tab, an e\u0301, a \u00a0, and \u2764\ufe0f", None),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", None),
    ],
)
def test_entries_with_invisible_characters_are_named(here: Project, text: str, codes: str | None) -> None:
    """An agent reads what people do not see, so `doctor` names the entry and the characters; white space is none."""
    (name,) = commands.add(here, text, HUMAN).added
    expected = [] if codes is None else [("note", f"{name} has invisible characters: {codes}")]
    assert expected == [one for one in findings_of(here, "texts") if one[0] == "note"]


# What waits


@posix
def test_what_waits_in_the_spool_is_counted(here: Project) -> None:
    """Payloads that wait are counted, and taken in by the next command that writes."""
    with held(here):
        for _ in range(2):
            commands.rate(here, "kpt_001", "helpful", HUMAN)
    assert [("note", "2 payloads waiting")] == findings_of(here, "spool")
    commands.replay(here)
    assert [("ok", "nothing waits")] == findings_of(here, "spool")


def test_a_spool_file_that_holds_no_request_is_named(here: Project) -> None:
    """A file that can be read and never be taken in is bad, as it will wait for ever."""
    (here.ledger / "spool").mkdir(mode=0o700)
    value = {"id": "1", "at": clock.utc_now().at, "requests": [{"update": 1}]}
    disk.replace_cache_file(here.ledger / "spool" / "x.json", json.dumps(value).encode())
    ((level, message),) = findings_of(here, "spool")
    assert ("bad", True) == (level, message.startswith("spool/x.json: "))


# Redactions and secrets


def test_a_redaction_that_is_owed_is_bad_until_it_is_done(here: Project) -> None:
    """A redaction that was cut short is bad, and the next command that writes finishes it."""
    added = next(one for batch in reading.batches(here) for one in batch.records if one.seq == 2)
    redaction.write_pending(here.ledger, redaction.PendingRedaction((added.id,), ("Use type hints",), "wrong", HUMAN))
    assert [("bad", "the text of 1 event is redacted and may still be on disk")] == findings_of(here, "redaction")
    commands.replay(here)
    assert [("ok", "none is pending")] == findings_of(here, "redaction")


def test_a_redaction_that_cannot_be_read_ends_no_other_check(here: Project) -> None:
    """A note of what has to go that is torn is told once, and every check that needs it not is made."""
    disk.replace_cache_file(here.ledger / redaction.PENDING_FILE, b"{")
    findings = checks.run_checks(here)
    (told,) = [one for one in findings if one.level == "bad"]
    assert told.message.startswith(f"could not be checked: {here.ledger / redaction.PENDING_FILE}: cannot be read")
    assert {"lock", "spool", "files", "modes"} <= {one.check for one in findings if one.level == "ok"}


def test_what_a_killed_redaction_left_is_bad(here: Project) -> None:
    """The note under its last name may hold the text that had to go, until the next command that writes removes it."""
    disk.replace_cache_file(here.ledger / redaction.FINISHED_FILE, b"hunter2")
    assert [("bad", "a text is redacted and may still be on disk")] == findings_of(here, "redaction")
    commands.replay(here)
    assert [("ok", "none is pending")] == findings_of(here, "redaction")


def test_a_redacted_text_that_is_put_back_is_bad(here: Project) -> None:
    """A log whose old bytes come back from a backup shows a text again that had to go."""
    path = here.ledger / "events.jsonl"
    before = path.read_bytes()
    redacting.redact(here, redacting.RedactionTarget(event="2"), "wrong", HUMAN)
    path.write_bytes(before + path.read_bytes()[len(before) :])
    ((level, message),) = findings_of(here, "redaction")
    assert ("bad", True) == (level, message.endswith(" was redacted and is in the log again"))


def test_secrets_are_told_and_never_shown(here: Project) -> None:
    """A text by a person that looks like a secret is told with its event, its entry and its format, and kept."""
    commands.add(here, f"Log in with {TOKEN}", HUMAN)
    answer = run(here, "doctor")
    told = (
        "note  secrets: event 6 (kpt_002) looks like it holds a secret (GitHub Token); run: tallybook redact 6 --reason"
    )
    assert 1 == sum(line.startswith(told) for line in lines_of(answer, 0))
    assert TOKEN not in answer.out + run(here, "doctor", "--json").out
    assert TOKEN in here.playbook.read_text(encoding="utf-8")
    redacting.redact(here, redacting.RedactionTarget(event="6"), "a token", HUMAN)
    assert [("ok", "no text looks like one")] == findings_of(here, "secrets")


def test_a_name_that_is_a_secret_is_not_shown(here: Project) -> None:
    """An old file may name an entry by a token: neither its name nor its text is printed."""
    book = {"key_points": [{"name": TOKEN, "text": f"use {TOKEN}", "helpful": 0, "harmful": 0}]}
    commands.import_file(here, json.dumps(book).encode(), "old.json")
    findings = checks.run_checks(here)
    assert 1 == sum("([masked: GitHub Token])" in one.message for one in findings)
    assert TOKEN not in "".join(checks.format_findings(findings))


def test_secrets_in_files_are_told(here: Project) -> None:
    """What waits in the spool and what was set aside is searched, too."""
    (here.ledger / "spool").mkdir(mode=0o700)
    disk.replace_cache_file(here.ledger / "spool" / "x.json", json.dumps({"text": TOKEN}).encode())
    disk.replace_cache_file(here.claude / "playbook.json.unreadable-20261122T010203", TOKEN.encode())
    places = [message.partition(" ")[0] for _, message in findings_of(here, "secrets")]
    assert ["ledger/spool/x.json", "playbook.json.unreadable-20261122T010203"] == places


def test_a_legacy_file_is_searched_before_it_is_taken_in(project: Path) -> None:
    """Without a ledger, playbook.json itself is searched, while its secret can still be taken out by hand."""
    here = Project(project)
    here.playbook.write_text(json.dumps({"key_points": [f"use {TOKEN}", "quote ids"]}), encoding="utf-8")
    assert [("note", "playbook.json looks like it holds a secret (GitHub Token)")] == findings_of(here, "secrets")
    assert [("note", "2 entries, not in the ledger yet")] == findings_of(here, "playbook.json")


def test_secrets_of_a_damaged_ledger_are_told(here: Project) -> None:
    """What is whole of a damaged ledger is searched all the same."""
    commands.add(here, f"Log in with {TOKEN}", HUMAN)
    path = here.ledger / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"helpful"', b'"helpfuL"', 1))
    assert [("note", "event 6 (kpt_002) looks like it holds a secret (GitHub Token)")] == findings_of(here, "secrets")


# playbook.json and what lies about


def test_a_playbook_that_is_not_the_replay_is_noted(here: Project) -> None:
    """A hand's change and a missing file are worth a note; both are made good by the command that the hint names."""
    here.playbook.write_bytes(here.playbook.read_bytes().replace(b"Use type", b"Use good type"))
    (found,) = [one for one in checks.run_checks(here) if one.check == "playbook.json"]
    assert ("note", True) == (found.level, found.fix.startswith("run `tallybook replay`"))
    here.playbook.unlink()
    assert [("note", f"{here.playbook}: is missing")] == findings_of(here, "playbook.json")
    commands.replay(here)
    assert {} == levels(here)


def test_a_file_that_is_no_playbook_is_bad_and_then_set_aside(here: Project) -> None:
    """An agent cannot read it now; once it was set aside, it is to be looked at."""
    here.playbook.write_bytes(b"junk")
    assert {"playbook.json": "bad"} == levels(here)
    commands.replay(here)
    assert {"set aside": "note"} == levels(here)
    ((_, message),) = findings_of(here, "set aside")
    assert message.startswith("unreadable as a playbook and set aside: playbook.json.unreadable-")


@posix
def test_a_name_steers_no_terminal(here: Project) -> None:
    """A file whose name holds an escape sequence is named without it."""
    disk.replace_cache_file(here.claude / "playbook.json.unreadable-\x1b[2J", b"")
    out = run(here, "doctor").out
    assert (True, False) == ("set aside: playbook.json.unreadable-" in out, "\x1b" in out)
