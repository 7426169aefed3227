"""Redaction in a shared book: every copy of every machine, and what the engine keeps."""

from __future__ import annotations

import json
from pathlib import Path
import shutil
from typing import Any

import pytest

from helpers.commands import Run
from helpers.git_repositories import git, make_remote
from helpers.shared_machines import Team
from tallybook.ledger.storage import caches
from tallybook.projections.surfaces.sharing import syncing
from tallybook.projections.surfaces.sharing.membership import Membership
from tallybook.projections.surfaces.writing import redact

PRIVATE = "Ask Petra Zwiebel about the vault"


@pytest.fixture
def private(team: Team) -> Team:
    """Return two machines that share a book; each added the same private text before."""
    for machine in ("anna", "ben"):
        team.run(machine, "add", f"A rule of {machine}")
        team.run(machine, "add", PRIVATE)
        team.share(machine)
    team.run("ben", "rate", "kpt_002", "helpful")
    team.sync("ben", "anna")
    return team


def find_private_files(private: Team, machine: str, part: bytes = b"Zwiebel") -> list[str]:
    """Return the files of a machine, caches included, that hold the private text."""
    places = (private.root(machine), private.home(machine))
    files = (path for place in places for path in place.rglob("*") if path.is_file())
    return [str(path.relative_to(private.folder)) for path in files if part in path.read_bytes()]


@pytest.mark.parametrize("words", [("--text", PRIVATE, "--yes", "--expect", "2"), ("event",)], ids=["text", "event"])
def test_a_redaction_reaches_every_machine(private: Team, words: tuple[str, ...]) -> None:
    """It erases ledger, copies and caches here, then on the others, their own equal texts too; the proof stays."""
    assert find_private_files(private, "anna")
    assert find_private_files(private, "ben")
    if words == ("event",):
        lines = (private.ledger("anna") / "events.jsonl").read_text(encoding="utf-8").splitlines()
        words = (next(json.loads(line)["id"] for line in lines if PRIVATE in line),)
    private.run("anna", "redact", *words, "--reason", "a name")
    assert [] == find_private_files(private, "anna")
    for _ in range(2):
        private.sync("anna", "ben")
    assert [] == find_private_files(private, "ben")
    for machine in ("anna", "ben"):
        verified = private.run(machine, "verify")
        assert "still in the log" not in verified.out + verified.err
        private.run(machine, "rate", "kpt_001", "helpful")
    private.sync("anna", "ben", "anna")
    assert private.entries("anna") == private.entries("ben")
    assert "[redacted]" in [text for text, _, _ in private.entries("anna").values()]
    assert [] == find_private_files(private, "ben") + find_private_files(private, "anna")


def test_an_imported_edit_changes_the_entry_whose_equal_text_its_machine_had_redacted(team: Team) -> None:
    """The ratings and the edit come to the entry that has the text here, although it is not redacted here yet."""
    for machine in ("anna", "ben"):
        team.run(machine, "add", PRIVATE)
    team.share("anna")
    team.run("ben", "redact", "--text", PRIVATE, "--yes", "--expect", "1", "--reason", "a name")
    for _ in range(2):
        team.run("ben", "rate", "kpt_001", "harmful")
    team.share("ben", "--read-only")
    playbook = team.root("ben") / ".claude" / "playbook.json"
    playbook.write_text(playbook.read_text(encoding="utf-8").replace('"harmful": 2', '"harmful": 1'), encoding="utf-8")
    team.run("ben", "replay")
    team.run("anna", "import", "--ledger", str(team.root("ben")))
    assert {"kpt_001": ("[redacted]", 0, 1)} == team.entries("anna")


def test_an_edit_whose_text_was_redacted_before_a_sync_gives_its_entry_no_text(team: Team) -> None:
    """The entry keeps its text, and nobody's equal text is joined to it, also after that text was redacted as well."""
    team.run("anna", "add", "A rule of anna")
    for machine in ("anna", "ben", "cleo"):
        team.share(machine)
    team.sync("anna", "ben", "cleo")
    playbook = team.root("anna") / ".claude" / "playbook.json"
    playbook.write_text(playbook.read_text(encoding="utf-8").replace("A rule of anna", PRIVATE), encoding="utf-8")
    team.run("anna", "redact", "--text", PRIVATE, "--yes", "--expect", "1", "--reason", "a name")
    team.sync("anna", "ben", "cleo")
    assert ["A rule of anna"] == [text for text, _, _ in team.entries("ben").values()]
    team.run("anna", "redact", "--text", "A rule of anna", "--yes", "--expect", "1", "--reason", "a name")
    for machine in ("ben", "cleo"):
        team.run(machine, "add", PRIVATE)
        team.run(machine, "rate", [*team.entries(machine)][-1], "helpful")
        team.sync(machine, "anna")
    team.sync("ben", "cleo", "anna", "ben")
    assert [] == find_private_files(team, "anna") + find_private_files(team, "ben") + find_private_files(team, "cleo")
    assert [("[redacted]", 0, 0), ("[redacted]", 2, 0)] == [*team.entries("anna").values()]
    assert team.entries("anna") == team.entries("ben") == team.entries("cleo")


def test_a_past_moment_keeps_an_edit_whose_text_was_redacted_later(team: Team) -> None:
    """The entry had the new text then, so another one that got its former text was not joined to it."""
    team.run("anna", "add", "A rule of anna")
    team.share("anna")
    playbook = team.root("anna") / ".claude" / "playbook.json"
    playbook.write_text(playbook.read_text(encoding="utf-8").replace("A rule of anna", PRIVATE), encoding="utf-8")
    team.run("anna", "add", "A rule of anna")
    team.run("anna", "retire", [*team.entries("anna")][-1])
    then = len((team.ledger("anna") / "events.jsonl").read_bytes().splitlines())
    team.run("anna", "redact", "--text", PRIVATE, "--yes", "--expect", "1", "--reason", "a name")
    assert {"kpt_001": ("[redacted]", 0, 0)} == team.entries("anna", str(then))


def test_a_past_moment_keeps_an_entry_whose_text_another_machine_had_redacted_before(team: Team) -> None:
    """It equals that text by what was noted later, so the two were not joined then, and are not as of then."""
    team.run("anna", "add", PRIVATE)
    team.run("anna", "redact", "--text", PRIVATE, "--yes", "--expect", "1", "--reason", "a name")
    for machine in ("anna", "ben"):
        team.share(machine)
    team.run("ben", "add", PRIVATE)
    then = str(len((team.ledger("ben") / "events.jsonl").read_bytes().splitlines()))
    before = team.entries("ben", then)
    team.sync("ben", "anna", "ben")
    assert ["[redacted]", "[redacted]"] == [text for text, _, _ in team.entries("ben", then).values()]
    assert [*before] == [*team.entries("ben", then)]


def test_a_redaction_killed_before_its_emptied_list_was_removed_leaves_the_copy_readable(private: Team) -> None:
    """The next command removes the emptied list, and no command after it is refused."""
    private.run("anna", "redact", "--text", PRIVATE, "--yes", "--expect", "2", "--reason", "a name")
    emptied = private.ledger("anna") / "erasing"
    emptied.write_bytes(b"  ")
    for words in (("add", "One more rule"), ("show",), ("verify",), ("sync",)):
        assert 0 == private.run("anna", *words).code
    assert not emptied.exists()


def test_a_redaction_that_came_in_is_not_published_again(private: Team) -> None:
    """The others erase the text, publish nothing for it, and their doctor finds nothing to mend."""
    private.run("anna", "add", "Call Petra Zwiebel's deputy")
    private.sync("anna", "ben")
    private.run("anna", "redact", "--text", "deputy", "--yes", "--expect", "1", "--reason", "a name")
    private.sync("anna")
    before = len(private.batches())
    private.sync("ben", "anna", "ben")
    assert before == len(private.batches())
    assert [] == find_private_files(private, "ben", b"deputy")
    for machine in ("anna", "ben"):
        assert "redaction" not in private.run(machine, "doctor").out


def test_what_the_engine_keeps_is_removed_by_the_command_that_is_named(private: Team) -> None:
    """The answer names the command; after it no reader of the engine finds the text, and the machines go on."""
    out = private.run("anna", "redact", "--text", PRIVATE, "--yes", "--expect", "2", "--reason", "a name").out
    assert "share repair" in out
    private.sync("anna", "ben", "anna")
    assert any(b"Zwiebel" in batch.raw for batch in private.batches())
    private.run("anna", "share", "verify", code=1)
    private.run("anna", "share", "repair", "--yes")
    assert not any(b"Zwiebel" in batch.raw for batch in private.batches())
    private.run("ben", "rate", "kpt_001", "helpful")
    private.sync("ben", "anna")
    assert private.entries("anna") == private.entries("ben")
    private.share("cleo")
    assert private.entries("anna") == private.entries("cleo")
    assert [] == find_private_files(private, "cleo")
    refused = private.run("ben", "add", PRIVATE, code=1).err
    assert "redacted" in refused


def take_in(private: Team, machine: str, patch: pytest.MonkeyPatch) -> None:
    """Sync a machine, and end it as a kill does between taking a redaction in and erasing its text."""

    def kill(*_: Any) -> None:
        raise KeyboardInterrupt

    with patch.context() as context:
        context.setattr(redact, "redact_linked", kill)
        private.run(machine, "sync", code=130)


def test_a_redaction_that_a_killed_sync_took_in_is_erased_by_the_next(
    private: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ledger, copy, spool, and copies that were set aside lose the text, whatever comes next."""
    aside = private.ledger("ben") / "book" / "1.aside-1"
    shutil.copytree(private.ledger("ben") / "book" / "1", aside)
    damaged = private.ledger("ben") / "book" / "1.aside-2"
    shutil.copytree(aside, damaged)
    log = damaged / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b"rule of", b"RULE OF"))
    request = {"by": {"rater": "human"}, "update": {"extraction": {"new_key_points": [PRIVATE]}}}
    waiting = {"id": "a", "at": "2026-11-01T00:00:00.000000Z", "requests": [request]}
    private.run("anna", "redact", "--text", PRIVATE, "--yes", "--expect", "2", "--reason", "a name")
    private.sync("anna")
    take_in(private, "ben", monkeypatch)
    assert {"events.jsonl"} <= {Path(place).name for place in find_private_files(private, "ben")}
    (private.ledger("ben") / "spool").mkdir()
    (private.ledger("ben") / "spool" / "2026-11-01T000000.000000Z-a.json").write_text(json.dumps(waiting))
    private.sync("ben")
    assert [] == find_private_files(private, "ben")
    for _ in range(2):
        private.sync("anna", "ben")
    assert private.entries("anna") == private.entries("ben")
    private.run("ben", "verify")


def test_an_imported_redaction_erases_what_a_killed_first_sync_took_in(
    private: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its ledger says that it is in a book, a machine has a copy of the book all the same."""
    with monkeypatch.context() as patch:
        patch.setattr(syncing.Sync, "_append", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            private.share("cleo")
    assert find_private_files(private, "cleo")
    private.run("ben", "redact", "--text", PRIVATE, "--yes", "--expect", "2", "--reason", "a name")
    private.run("cleo", "import", "--ledger", str(private.root("ben")))
    private.share("cleo")
    assert [] == find_private_files(private, "cleo")
    private.sync("ben", "cleo", "anna")
    assert private.entries("anna") == private.entries("ben") == private.entries("cleo")
    assert [] == find_private_files(private, "anna") + find_private_files(private, "ben") + find_private_files(
        private, "cleo"
    )


def test_a_lost_copy_brings_no_redacted_text_back(private: Team) -> None:
    """The engine holds the text still: a copy that is fetched again is erased again, at its first sync."""
    private.run("anna", "redact", "--text", PRIVATE, "--yes", "--expect", "2", "--reason", "a name")
    private.sync("anna", "ben")
    for machine in ("anna", "ben"):
        shutil.rmtree(private.ledger(machine) / "book" / "1")
        private.sync(machine)
        assert [] == find_private_files(private, machine)
    assert any(b"Zwiebel" in batch.raw for batch in private.batches())


def test_a_link_in_place_of_a_copy_is_not_followed(private: Team, tmp_path: Path) -> None:
    """A project can bring one along: what it leads to stays as it is, and each command says which one it is."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "events.jsonl").write_bytes(b"no line of a ledger")
    link = private.ledger("anna") / "book" / "2.aside-1"
    link.symlink_to(elsewhere)
    assert "2.aside-1: is a symbolic link" in private.run("anna", "sync", code=4).err
    words = ("redact", "--text", PRIVATE, "--yes", "--expect", "2", "--reason", "a name")
    answer = private.run("anna", *words, code=4)
    assert "2.aside-1: is a symbolic link" in answer.out + answer.err
    link.unlink()
    (private.ledger("anna") / "book" / "3.aside-1").mkdir()
    (private.ledger("anna") / "book" / "3.aside-1" / "events.jsonl").hardlink_to(elsewhere / "events.jsonl")
    assert "is a hard link to a file that is not the ledger's" in private.run("anna", "sync", code=4).err
    assert b"no line of a ledger" == (elsewhere / "events.jsonl").read_bytes()


# No secret on a screen: whatever holds a password, a token or a key, no message and no file of ours shows it.


SECRET = "s3cr3t-0f-anna-4711-x"  # noqa: S105 - planted by these tests
PLACE = "127.0.0.1:1"
"""Nobody listens there."""
ADDRESSES = {
    "git password": ("git", f"https://anna:{SECRET}@{PLACE}/x.git"),
    "git password with other characters": ("git", f"https://anna:{SECRET}/a@b?c@{PLACE}/x.git"),
    "git token": ("git", f"https://{SECRET}@{PLACE}/x.git"),
    "git query": ("git", f"https://{PLACE}/x.git?private_token={SECRET}"),
    "git fragment": ("git", f"https://{PLACE}/x.git#{SECRET}"),
    "git over ssh": ("git", f"ssh://anna:{SECRET}@{PLACE}/x.git"),
    "git as scp": ("git", f"anna:{SECRET}@host:x.git"),
    "git, another scheme": ("git", f"http://anna:{SECRET}@{PLACE}/x.git"),
    "git remote": ("git", "origin"),
    "git, an address that the user's configuration replaces": ("git", f"https://{PLACE}/replaced/x.git"),
    "git, a token in a variable": ("git", f"https://{PLACE}/x.git", "--token-env", "PLANTED"),
    "git, a token in place of a variable's name": ("git", f"https://{PLACE}/x.git", "--token-env", SECRET),
    "postgres, a password in place of a file's name": (
        "postgres",
        f"postgresql://anna@{PLACE}/x?sslmode=disable",
        "--password-file",
        SECRET,
    ),
    "postgres password": ("postgres", f"postgresql://anna:{SECRET}@{PLACE}/x"),
    "postgres query": ("postgres", f"postgresql://{PLACE}/x?password={SECRET}"),
    "postgres query, encoded": ("postgres", f"postgresql://{PLACE}/x?pass%77ord={SECRET}"),
    "postgres, a key of a client": ("postgres", f"postgresql://{PLACE}/x?scram_client_key={SECRET}"),
    "postgres, a key of a server": ("postgres", f"postgresql://{PLACE}/x?scram_server_key={SECRET}"),
    "postgres, an unknown option": ("postgres", f"postgresql://{PLACE}/x?pasword={SECRET}"),
    "postgres, words": ("postgres", f"host=127.0.0.1 password={SECRET}"),
    "postgres, a service": ("postgres", f"service=x password={SECRET}"),
    "postgres, a password in a variable": ("postgres", f"postgresql://anna@{PLACE}/x?sslmode=disable"),
    "objects keys": ("objects", f"s3://anna:{SECRET}@bucket/x"),
    "objects query": ("objects", f"s3://bucket/x?secret_access_key={SECRET}"),
    "objects, a word for a query": ("objects", f"s3://bucket/x?{SECRET}"),
    "objects, a word after an option": ("objects", f"s3://bucket/x?region=x&{SECRET}"),
    "objects, a query of the endpoint": ("objects", f"s3://bucket/x?endpoint=https://{PLACE}/%3F{SECRET}"),
    "objects, a fragment of the endpoint": ("objects", f"s3://bucket/x?endpoint=https://{PLACE}/%23{SECRET}"),
    "objects endpoint": ("objects", f"s3://bucket/x?endpoint=https://anna:{SECRET}@{PLACE}"),
    "objects, a key in a variable": ("objects", f"s3://bucket/x?endpoint=http://{PLACE}&region=x"),
    "objects, a shared key of Azure": ("objects", f"az://container/x?account=anna&account_key={SECRET}"),
}


@pytest.mark.parametrize(
    "address",
    [
        "file:///srv/c#/book.git",
        "file:///srv/a?b.git",
        "host:c#/x.git",
        "ssh://anna@host/srv/c#/book.git",
        "https://host/a%20b.git",
        "s3://b/x?endpoint=https%3A%2F%2Fminio.corp%3A9000&region=x",
    ],
)
def test_an_address_without_a_place_for_a_secret_is_shown_whole(address: str) -> None:
    """A command that is printed with it names the same place."""
    assert address == Membership("team", "git", address, "anna").shown_address


@pytest.fixture(name="home")
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home with a project, whose user has secrets in every usual place."""
    for name in ("PLANTED", "PGPASSWORD", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(caches.VARIABLE, str(tmp_path / "caches"))
    (tmp_path / ".gitconfig").write_text(
        f'[url "https://anna:{SECRET}@{PLACE}/"]\n\tinsteadOf = https://{PLACE}/replaced/\n', encoding="utf-8"
    )
    (tmp_path / "app" / ".claude").mkdir(parents=True)
    git(tmp_path / "app", "init", "--quiet")
    git(tmp_path / "app", "remote", "add", "origin", f"https://anna:{SECRET}@{PLACE}/x.git")
    return tmp_path


def output(run: Run, home: Path, *words: str) -> str:
    """Return all that a command prints."""
    answer = run("--project", str(home / "app"), *words)
    return answer.out + answer.err


def holders(home: Path) -> list[str]:
    """Return the files of ours that have the secret."""
    ours = (path for folder in (".claude", "app/.claude", "caches") for path in (home / folder).rglob("*"))
    return [str(path) for path in ours if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("name", ADDRESSES)
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_no_message_shows_a_secret(name: str, home: Path, run: Run, *, as_json: bool) -> None:
    """Joining by an address that holds one, or with one in its usual place, fails in one line without it."""
    words = ("share", *ADDRESSES[name], "--book", "demo", "--yes", *["--json"] * as_json)
    said = output(run, home, *words)
    assert (1, False) == (len(said.splitlines()), SECRET in said)
    assert [] == holders(home)


def test_an_address_with_a_password_names_what_to_use(home: Path, run: Run) -> None:
    """A person learns of both places for the password."""
    said = output(run, home, "share", *ADDRESSES["postgres, words"], "--book", "demo", "--yes")
    assert said.endswith("leave it out and put it into ~/.pgpass, or give --password-file FILE\n")


def test_a_book_that_is_shared_shows_no_secret(home: Path, run: Run) -> None:
    """Nothing that a project prints or stores while it shares has one of its user's secrets."""
    remote = make_remote(home / "remote.git")
    assert SECRET not in output(run, home, "add", "An entry.")
    assert SECRET not in output(run, home, "share", "git", str(remote), "--book", "demo", "--yes")
    remote.rename(home / "gone.git")
    commands = (
        "sync",
        "share status",
        "share verify",
        "share repair --yes",
        "share members",
        "sync --dry-run",
        "doctor",
    )
    said = [output(run, home, *words.split(), *more) for words in commands for more in ((), ("--json",))]
    assert [] == [text for text in said if SECRET in text or not text]
    assert [] == holders(home)


@pytest.mark.parametrize("name", [name for name, words in ADDRESSES.items() if SECRET in words[1]])
def test_a_secret_that_a_person_wrote_into_the_settings_is_not_shown(name: str, home: Path, run: Run) -> None:
    """An address in the settings that holds one is refused, and shown without it."""
    remote = make_remote(home / "remote.git")
    output(run, home, "add", "An entry.")
    output(run, home, "share", "git", str(remote), "--book", "demo", "--yes")
    engine, address = ADDRESSES[name][:2]
    [settings] = [path for path in home.rglob("*.json") if str(remote).encode() in path.read_bytes()]
    fields = json.loads(settings.read_text()) | {"engine": engine, "address": address}
    settings.write_text(json.dumps(fields))
    commands = ("share status", "share members", "sync", "doctor", f"share git {home}/b.git --book b --yes --dry-run")
    said = [output(run, home, *words.split(), *more) for words in commands for more in ((), ("--json",))]
    (home / "app").rename(home / "moved")
    answers = [run("--project", str(home / "moved"), command) for command in ("sync", "doctor")]
    said += [answer.out + answer.err for answer in answers]
    assert [] == [text for text in said if SECRET in text or not text]
