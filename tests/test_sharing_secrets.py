"""No secret on a screen: whatever holds a password, a token or a key, no message and no file of ours shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.command_line import Run
from helpers.git_repositories import git, make_remote
from tallybook.ledger.storage import caches

SECRET = "s3cr3t-0f-anna-4711-x"  # noqa: S105 - planted by these tests
PLACE = "127.0.0.1:1"
"""Nobody listens there."""
ADDRESSES = {
    "git password": ("git", f"https://anna:{SECRET}@{PLACE}/x.git"),
    "git password with other characters": ("git", f"https://anna:{SECRET}/a@b?c@{PLACE}/x.git"),
    "git token": ("git", f"https://{SECRET}@{PLACE}/x.git"),
    "git query": ("git", f"https://{PLACE}/x.git?private_token={SECRET}"),
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
    "postgres, an unknown option": ("postgres", f"postgresql://{PLACE}/x?pasword={SECRET}"),
    "postgres, words": ("postgres", f"host=127.0.0.1 password={SECRET}"),
    "postgres, a service": ("postgres", f"service=x password={SECRET}"),
    "postgres, a password in a variable": ("postgres", f"postgresql://anna@{PLACE}/x?sslmode=disable"),
    "objects keys": ("objects", f"s3://anna:{SECRET}@bucket/x"),
    "objects query": ("objects", f"s3://bucket/x?secret_access_key={SECRET}"),
    "objects endpoint": ("objects", f"s3://bucket/x?endpoint=https://anna:{SECRET}@{PLACE}"),
    "objects, a key in a variable": ("objects", f"s3://bucket/x?endpoint=http://{PLACE}&region=x"),
    "objects, a shared key of Azure": ("objects", f"az://container/x?account=anna&account_key={SECRET}"),
}


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
