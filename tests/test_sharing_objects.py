"""Books in object stores: addresses, how to log in, erasing, segments, and a book that two machines share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import os
from pathlib import Path
import shutil
import subprocess
from urllib.parse import urlsplit

import pytest

from helpers.commands import Run
from helpers.engines import objects_engine
from helpers.git_repositories import git
from helpers.memory_store import MemoryStore, make_runs, plain
from helpers.s3_server import Buckets
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.sharing import engine as engines
from tallybook.ledger.sharing.engine import NOTHING, Engine, ReadOnlyError, UnreachableError
from tallybook.ledger.sharing.objects import ObjectStore

obstore = pytest.importorskip("obstore", reason="the extra objects is not installed")
PAGE = 4
LONG = 3 * PAGE + 2


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    (tmp_path / "objects").mkdir()
    return tmp_path / "objects"


# ---- Addresses, and how to log in ----


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ftp://bucket/a",
        "s3://",
        "s3://secret@bucket/a",
        "s3://anna:secret@bucket/a",
        "s3://bucket/a?access_key_id=secret",
        "s3://bucket/a?endpoint=https://anna:secret@host",
        "s3://bucket/a?endpoint=http://host",
        "az://container/a?sas=secret",
        "gs://bucket/a#secret",
        "s3://bucket/a?endpoint=",
        "file://host/a",
    ],
)
def test_an_address_that_is_none_or_holds_a_secret_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says why, and shows no secret; nothing is asked over a connection that is not protected."""
    for name in ("AWS_ACCESS_KEY_ID", "GOOGLE_SERVICE_ACCOUNT", "AZURE_CLIENT_SECRET"):
        monkeypatch.setenv(name, "x")
    with pytest.raises(BadInputError) as caught:
        ObjectStore(address, "main")
    assert (1, False) == (len(str(caught.value).splitlines()), "secret" in str(caught.value))


@pytest.mark.parametrize(("address", "login"), [("s3://a", ""), ("gs://a", ""), ("az://a", ""), ("gs://a", "other")])
def test_a_store_without_credentials_is_refused_before_it_is_asked(
    address: str, login: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them the library would ask the metadata address of a cloud; the message names what to set."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BadInputError, match=r"set (AWS|GOOGLE|AZURE)_"):
        ObjectStore(address, "main", login=login)


def test_a_profile_logs_in(s3_bucket: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile of AWS takes the place of variables, by boto3."""
    pytest.importorskip("boto3", reason="boto3, which reads profiles, is not installed")
    address = s3_bucket.new_address()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    (tmp_path / "credentials").write_text("[team]\naws_access_key_id = ben\naws_secret_access_key = secret-of-ben\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    store = ObjectStore(address, "main", login="team")
    assert (False, 1) == (store.put(1, b"x") is None, len(store.list(0)))


@pytest.mark.parametrize("address", ["s3://a?endpoint=http://127.0.0.1:9&region=x", "file:///nowhere/at/all"])
def test_a_store_that_is_not_there_cannot_be_reached(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has one line and no secret."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anna-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with pytest.raises(UnreachableError) as caught:
        objects_engine(address, limit_s=2).read(0)
    message = str(caught.value)
    assert (1, False, False) == (len(message.splitlines()), "secret" in message, "anna" in message)


def test_a_folder_that_is_not_there_is_named_with_what_makes_it(tmp_path: Path) -> None:
    """A book in a folder that does not exist names the command that creates it; waiting would not help."""
    folder = tmp_path / "no store"
    with pytest.raises(UnreachableError, match="is not a folder") as caught:
        objects_engine(f"file://{folder}").read(0)
    assert f"mkdir -p '{folder}'" in caught.value.hint


# ---- Objects ----


def test_other_objects_are_passed_over(folder: Path) -> None:
    """What has no number of ours for a name, and what is left of a put that was cut short, is not listed."""
    engine = objects_engine(f"file://{folder}")
    assert engine.append(NOTHING, make_runs(2)) is not None
    for name in ("README.md", "000000000003.jsonl#1", "3.jsonl"):
        (folder / "main" / "runs" / name).write_bytes(b"x")
    assert make_runs(2) == [plain(run) for run in engine.read(0).runs]


def test_an_erased_number_stays_in_use(s3_bucket: Buckets) -> None:
    """Erased runs are empty objects, so that a writer who slept is refused; the fresh ones are read."""
    address = s3_bucket.new_address()
    engine = objects_engine(address)
    end = engine.append(NOTHING, make_runs(3)) or NOTHING
    assert engine.replace(end, make_runs(2, "repaired")) is not None
    engine.erase_former()
    store = ObjectStore(address, "main")
    assert [0, 0, 0] == [entry.size for entry in store.list(0)][:3]
    assert store.put(2, b"x") is None
    assert make_runs(2, "repaired") == [plain(run) for run in objects_engine(address).read(0).runs]


def test_a_store_that_loses_the_answer_to_an_erasure_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not known to be erased is not taken for erased, and the next call erases the remaining runs."""
    engine = objects_engine(f"file://{folder}")
    end = engine.append(NOTHING, make_runs(2)) or NOTHING
    engine.replace(end, make_runs(1, "repaired"))

    def break_off(*_: object, **__: object) -> None:
        raise obstore.exceptions.GenericError("connection reset")

    with monkeypatch.context() as patch:
        patch.setattr(obstore, "put", break_off)
        with pytest.raises(UnreachableError, match="run 1 could not be erased; run it again"):
            engine.erase_former()
    engine.erase_former()
    assert [0, 0] == [entry.size for entry in ObjectStore(f"file://{folder}", "main").list(0)][:2]


@pytest.mark.skipif(not shutil.which("aws"), reason="the command line of AWS, which deletes versions, is not installed")
@pytest.mark.parametrize("kind", ["plain", "versions", "lock"])
def test_a_bucket_that_keeps_versions_is_named_with_the_command(s3_bucket: Buckets, kind: str) -> None:
    """Before anything is erased the engine says what stays, and the command that it names deletes it."""
    address = s3_bucket.new_address(lock=kind == "lock")
    bucket = urlsplit(address).netloc
    environment = os.environ | {"AWS_DEFAULT_REGION": "us-east-1"}

    def aws(script: str) -> subprocess.CompletedProcess[str]:
        script = script.replace("aws ", f"aws --endpoint-url {s3_bucket.place} ", 1)
        return subprocess.run(["sh", "-c", script], env=environment, capture_output=True, check=False, text=True)

    if kind == "versions":
        aws(f"aws s3api put-bucket-versioning --bucket {bucket} --versioning-configuration Status=Enabled")
    engine = objects_engine(address)
    end = engine.append(NOTHING, make_runs(2)) or NOTHING
    if kind == "lock":
        key = "teams/one/main/runs/000000000001.jsonl"
        until = "Mode=COMPLIANCE,RetainUntilDate=2099-01-01"
        assert 0 == aws(f"aws s3api put-object-retention --bucket {bucket} --key {key} --retention {until}").returncode
    remains = engine.store.describe_remains()
    assert (kind != "plain") == ("keeps versions of erased runs, and an object lock forbids" in remains)
    engine.replace(end, make_runs(1, "repaired"))
    engine.erase_former()
    if remains:
        script = remains.partition("; its operator runs: ")[2]
        done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, check=False, text=True)
        assert (kind == "lock") == ("AccessDenied" in done.stderr), done.stderr
    counted = aws(f"aws s3api list-object-versions --bucket {bucket} --query 'length(Versions[?Size>`0`])'").stdout
    assert (2 if kind == "lock" else 1, make_runs(1, "repaired")) == (
        int(counted),
        [plain(run) for run in engine.read(0).runs],
    )


def test_who_may_not_write_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that denies a put makes the book read-only here."""

    def refuse(*_: object, **__: object) -> None:
        raise obstore.exceptions.PermissionDeniedError("The operation lacked the necessary privileges: <?xml secret")

    monkeypatch.setattr(obstore, "put", refuse)
    with pytest.raises(ReadOnlyError, match="is read-only here: The operation lacked the necessary privileges;"):
        objects_engine(f"file://{folder}").append(NOTHING, make_runs(1))


def test_a_book_is_named_after_its_project(
    folder: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Owner and repository of the remote name it; without a remote a name is needed, and a strange one is noticed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    project = tmp_path / "app"
    (project / ".claude").mkdir(parents=True)
    words = ("--project", str(project), "share", "objects", f"file://{folder}", "--yes")
    refused = run(*words)
    assert (2, True) == (refused.code, "--book NAME: is needed: this project has no remote" in refused.err)
    git(project, "init", "--quiet")
    git(project, "remote", "add", "origin", "https://host/acme/app.git")
    assert "Makes the book acme+app at " in run(*words).out
    git(project, "remote", "set-url", "origin", "https://host/acme/other.git")
    noted = run(*words, "--book", "acme+app").err
    assert "The book was made for the project acme+app, and this one is acme+other" in noted


# ---- Segments ----


class CountingStore(MemoryStore):
    """Holds runs, and segments of them; it notes which numbers were asked for."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self.segments: MemoryStore = MemoryStore()
        self.asked: list[int] = []

    def get(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Note the numbers, and return their runs."""
        self.asked += numbers
        return super().get(numbers)


@pytest.fixture(name="store")
def _store(monkeypatch: pytest.MonkeyPatch) -> CountingStore:
    """Return a store with a book whose segments were put by its first reader."""
    monkeypatch.setattr(engines, "PAGE", PAGE)
    store = CountingStore()
    assert Engine(store).append(NOTHING, make_runs(LONG)) is not None
    assert make_runs(LONG) == _read(store)
    assert [1, 2, 3] == [*store.segments.runs]
    store.asked.clear()
    return store


def _read(store: CountingStore, after: int = 0) -> list[engines.Run]:
    return [plain(run) for run in Engine(store).read(after).runs]


def test_segments_are_read_in_place_of_runs(store: CountingStore) -> None:
    """A joiner gets the run after each segment, which proves it, and the runs after the last one."""
    end = Engine(store).read(0).end
    assert [PAGE + 1, 2 * PAGE + 1, 3 * PAGE + 1, LONG - 1, LONG] == store.asked
    assert (make_runs(LONG), end) == (_read(store), Engine(MemoryStoreOf(store)).read(0).end)


class MemoryStoreOf(MemoryStore):
    """The same runs without segments."""

    def __init__(self, store: MemoryStore) -> None:
        """Take the runs of another store."""
        super().__init__()
        self.runs = store.runs


def test_a_book_is_read_in_pieces_over_segments(store: CountingStore) -> None:
    """Pieces begin and end anywhere, in the middle of a thousand as well."""
    found, contents = list[engines.Run](), engines.Contents((), NOTHING, more=True)
    while contents.more:
        contents = Engine(store).read(contents.end.seq, 1000, contents.end)
        found += map(plain, contents.runs)
    assert make_runs(LONG) == found


def test_no_segment_is_made_of_what_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full thousand that no run follows has none: nothing would prove it."""
    monkeypatch.setattr(engines, "PAGE", PAGE)
    store = CountingStore()
    Engine(store).append(NOTHING, make_runs(PAGE))
    assert (make_runs(PAGE), {}) == (_read(store), store.segments.runs)


def test_a_false_segment_changes_nothing(store: CountingStore) -> None:
    """Whatever somebody puts in a segment's place, every reader gets the runs, and a check names it."""
    good = store.segments.runs[2]
    other = CountingStore()
    Engine(other).append(NOTHING, make_runs(LONG, "mallory"))
    _read(other)
    line, _, rest = good.partition(b"\n")
    begin = good.index(b'"last"')
    forged = [b"", b"x", line, good[:-1], good + b"x", line + b"\n" + rest[::-1]]
    forged += [other.segments.runs[2], store.segments.runs[1], good[:begin] + b'"fres"' + good[begin + 6 :]]
    forged += [good.replace(b"helpful", b"harmful"), good.replace(b"kpt_001", b"kpt_002")]
    for data in forged:
        store.segments.runs[2] = data
        assert make_runs(LONG) == _read(store), data
        assert ([2] if data else []) == Engine(store).false_segments()
    store.segments.runs[2] = good
    assert [] == Engine(store).false_segments()


def test_erased_runs_leave_no_segment(store: CountingStore) -> None:
    """Segments of erased runs are empty and stay so, those that nobody had put as well."""
    end = Engine(store).read(0).end
    del store.segments.runs[3]
    Engine(store).replace(end, make_runs(2, "repaired"))
    Engine(store).erase_former()
    assert make_runs(2, "repaired") == _read(store)
    assert dict.fromkeys(range(1, 5), b"") == store.segments.runs


def test_who_may_not_put_segments_reads(store: CountingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader without the right to write leaves the segments to others."""
    store.segments.runs.clear()

    def refuse(*_: object) -> str | None:
        raise ReadOnlyError("memory", "no")

    monkeypatch.setattr(store.segments, "put", refuse)
    assert make_runs(LONG) == _read(store)
