"""What waits in the spool: written whole or not at all, read in order, and never in anybody's way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tallybook.ledger.errors import CannotWriteError, Problem
from tallybook.ledger.storage import spool

REQUESTS = [{"payload": {"new_key_points": ["ü\u2028 \"'{"]}, "by": {"rater": "agent"}, "key": None}]
AT = "2026-11-21T20:17:03.123456Z"
LATER = "2026-11-21T20:17:04.000000Z"


def test_what_was_put_waits(tmp_path: Path) -> None:
    """It reads as it was sent, with its time and id."""
    path = spool.put(tmp_path, AT, "id-1", REQUESTS)
    assert ([spool.SpoolFile(str(path), "id-1", AT, REQUESTS)], []) == spool.read_files(tmp_path)


def test_nothing_waits_where_there_is_no_spool(tmp_path: Path) -> None:
    """Looking creates no folder."""
    assert ([], []) == spool.read_files(tmp_path)
    assert [] == list(tmp_path.iterdir())


def test_requests_wait_by_time_and_then_by_id(tmp_path: Path) -> None:
    """Whatever the order in which they were written."""
    for at, id_ in [(LATER, "a"), (AT, "c"), (AT, "b"), (LATER, "d")]:
        spool.put(tmp_path, at, id_, REQUESTS)
    assert [(AT, "b"), (AT, "c"), (LATER, "a"), (LATER, "d")] == [
        (one.at, one.id) for one in spool.read_files(tmp_path)[0]
    ]


def test_what_is_done_waits_no_more(tmp_path: Path) -> None:
    """The others stay, and to be done twice does no harm."""
    for id_ in "ab":
        spool.put(tmp_path, AT, id_, REQUESTS)
    first, second = spool.read_files(tmp_path)[0]
    for _ in range(2):
        spool.remove_files([first])
    assert [second] == spool.read_files(tmp_path)[0]


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"7", b"{}", b"\xff", b'{"id":"x","at":"y"}', b"[" * 200_000, b'{"id":"x"}'],
    ids=["empty", "half", "list", "null", "number", "object", "bytes", "no-requests", "deep", "id-only"],
)
def test_what_cannot_be_read_is_named_and_stays(tmp_path: Path, data: bytes) -> None:
    """A file of nonsense is a problem beside what can be read, and is not removed."""
    good = spool.put(tmp_path, AT, "good", REQUESTS)
    bad = tmp_path / "spool" / "bad.json"
    bad.write_bytes(data)
    waiting, problems = spool.read_files(tmp_path)
    assert ([good], ["spool/bad.json"]) == ([one.path for one in waiting], [problem.source for problem in problems])
    assert data == bad.read_bytes()


def test_a_folder_in_the_spool_is_a_problem(tmp_path: Path) -> None:
    """It is named and left alone."""
    (tmp_path / "spool" / "x.json").mkdir(parents=True)
    waiting, problems = spool.read_files(tmp_path)
    assert ([], ["spool/x.json"]) == (waiting, [problem.source for problem in problems])


def test_a_problem_says_what_is_wrong(tmp_path: Path) -> None:
    """It names the file and what kind of wrong it is, and says that nothing was done to it."""
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "bad.json").write_bytes(b"{")
    assert [Problem("spool/bad.json", "cannot be read: JSONDecodeError; it stays there")] == spool.read_files(tmp_path)[
        1
    ]


def test_only_the_spools_own_files_wait(tmp_path: Path) -> None:
    """A hidden file and one of another kind are nobody's request, and no problem either."""
    path = Path(spool.put(tmp_path, AT, "id-1", REQUESTS))
    for name in (".hidden.json", "notes.txt"):
        (tmp_path / "spool" / name).write_bytes(path.read_bytes())
    assert ([spool.SpoolFile(str(path), "id-1", AT, REQUESTS)], []) == spool.read_files(tmp_path)


def test_what_another_process_took_in_meanwhile_waits_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that goes between the look at the folder and the look at itself is no problem, and hides no other."""
    paths = [Path(spool.put(tmp_path, AT, id_, REQUESTS)) for id_ in "ab"]
    listed = [path.name for path in paths]
    paths[0].unlink()
    monkeypatch.setattr(os, "listdir", lambda _: listed)
    assert ([spool.SpoolFile(str(paths[1]), "b", AT, REQUESTS)], []) == spool.read_files(tmp_path)


def test_a_file_in_the_spool_has_a_name_for_every_system(tmp_path: Path) -> None:
    """Time and id, without the colons that Windows does not take."""
    path = spool.put(tmp_path, AT, "id-1", REQUESTS)
    assert str(tmp_path / "spool" / "2026-11-21T201703.123456Z-id-1.json") == path


def test_an_unfinished_file_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends before the rename leaves nothing that anybody takes for a request."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", end)
        with pytest.raises(KeyboardInterrupt):
            spool.put(tmp_path, AT, "id-1", REQUESTS)
    assert ([], []) == spool.read_files(tmp_path)


def test_a_spool_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A file in place of the folder: one of our errors, and nothing else is touched."""
    (tmp_path / "spool").write_text("in the way")
    with pytest.raises(CannotWriteError):
        spool.put(tmp_path, AT, "id-1", REQUESTS)
    assert "in the way" == (tmp_path / "spool").read_text()


def test_a_spool_that_is_a_link_is_neither_filled_nor_read(tmp_path: Path) -> None:
    """What waits behind it is another ledger's; it is a problem, and nothing is put there."""
    spool.put(tmp_path / "other", AT, "id-1", REQUESTS)
    (tmp_path / "spool").symlink_to(tmp_path / "other" / "spool")
    waiting, problems = spool.read_files(tmp_path)
    told = f"{tmp_path / 'spool'}: is a symbolic link; replace it by what it points to"
    assert ([], [Problem("spool", told)]) == (waiting, problems)
    with pytest.raises(CannotWriteError, match="is a symbolic link"):
        spool.put(tmp_path, AT, "id-2", REQUESTS)
    assert 1 == len(list((tmp_path / "other" / "spool").iterdir()))


def test_a_link_in_the_spool_is_not_read(tmp_path: Path) -> None:
    """A file of another ledger's spool is not taken in through it."""
    path = spool.put(tmp_path / "other", AT, "id-1", REQUESTS)
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "x.json").symlink_to(path)
    waiting, problems = spool.read_files(tmp_path)
    assert ([], ["spool/x.json"]) == (waiting, [problem.source for problem in problems])


def test_half_of_a_surrogate_pair_is_refused(tmp_path: Path) -> None:
    """What is no Unicode text could never be recorded, so it does not wait either."""
    with pytest.raises(CannotWriteError) as told:
        spool.put(tmp_path, AT, "id-1", [{"payload": "\ud800"}])
    where, what, hint = str(told.value).rpartition(": surrogates not allowed; ")
    assert where.startswith(f"{tmp_path / 'spool' / '2026-11-21T201703.123456Z-id-1.json'}: ")
    assert (": surrogates not allowed; ", "nothing was recorded") == (what, hint)
    assert ([], []) == spool.read_files(tmp_path)


def test_what_waits_is_private_and_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else reads it, and both its bytes and its name are durable before anybody is told."""
    (tmp_path / "spool").mkdir()
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(os.fstat(fd).st_ino))
    path = Path(spool.put(tmp_path, AT, "id-1", REQUESTS))
    assert [path.stat().st_ino, path.parent.stat().st_ino] == flushed
    assert 0o600 == path.stat().st_mode & 0o777
