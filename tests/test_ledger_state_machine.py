"""A state machine in which the back ends must agree, while the file's end is torn and its process restarts."""

from __future__ import annotations

from pathlib import Path
import shutil
import tempfile
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
import pytest

from helpers.ledger_logs import BY, Clock, break_off, lines
from helpers.memory_log import AnyLog, MemoryLog
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.line import Draft, Stamp, frame
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import caches

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
DRAFTS = st.lists(
    st.builds(
        Draft,
        st.sampled_from(["point.rated", "x.y"]),
        st.integers(1, 3),
        st.dictionaries(st.sampled_from(["name", "n"]), st.one_of(TEXTS, st.integers(0, 2**53), st.none())),
        st.one_of(st.none(), st.fixed_dictionaries({"text": TEXTS})),
        st.sampled_from([None, "2020-01-01T00:00:00.000000Z"]),
    ),
    min_size=1,
    max_size=4,
)
MAYBE_KEYS = st.one_of(st.none(), st.sampled_from(["k1", "k2", "k3", "ключ", 'a "key":"k1"']))
BATCHES = st.lists(st.tuples(DRAFTS, MAYBE_KEYS), max_size=3)


def comparable(log: AnyLog) -> list[tuple[Any, ...]]:
    """Return what two back ends must agree on, for every event but seals and the ledger's own id."""
    told = []
    for line in lines(log):
        if line["kind"] == "log.recovered":
            continue
        body = line["body"] if line["kind"] != "ledger.opened" else None
        free = {name: text for name, text in (line.get("free") or {}).items() if name != "salt"}
        told.append((line["kind"], line["v"], body, free, line.get("when"), line.get("key"), line["part"], line["by"]))
    return told


class BackEnds(RuleBasedStateMachine):
    """Both back ends get the same operations; the file is also damaged as crashes do."""

    def __init__(self) -> None:
        """Begin with two empty ledgers and one clock."""
        super().__init__()
        self.clock = Clock()
        self.folder = Path(tempfile.mkdtemp(prefix="tallybook-")) / "ledger"
        self.memory = MemoryLog(self.clock)
        self.jsonl = JsonlLog(self.folder, self.clock)

    def teardown(self) -> None:
        """Remove the file."""
        self.jsonl.close()
        shutil.rmtree(self.folder.parent)

    @rule(batches=BATCHES)
    def append(self, batches: list[tuple[list[Draft], str | None]]) -> None:
        """Append some batches, or none, in one transaction: both refuse the same."""
        taken: list[list[bool]] = []
        for log in (self.memory, self.jsonl):
            with log.transaction() as tx:
                taken.append([tx.append(drafts, BY, key) is not None for drafts, key in batches])
        assert taken[0] == taken[1]

    @rule()
    def break_off(self) -> None:
        """End a transaction by an exception: nothing of it is recorded."""
        for log in (self.memory, self.jsonl):
            with pytest.raises(BadInputError):
                break_off(log)

    @rule()
    def reopen(self) -> None:
        """Reopen the file like a new process."""
        self.jsonl.close()
        self.jsonl = JsonlLog(self.folder, self.clock)

    @rule(seconds=st.integers(-7200, 7200))
    def move_the_clock(self, seconds: int) -> None:
        """Move the clock on, or back."""
        self.clock.move(seconds)

    @rule()
    def forget_the_keys(self) -> None:
        """Delete the files that may be deleted at any time."""
        folder = caches.find_folder(self.folder)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    @precondition(lambda self: self.jsonl.head().seq > 0)
    @rule(tail=st.one_of(st.binary(min_size=1, max_size=200), st.integers(1, 9000).map(bytes)))
    def tear_with_any_bytes(self, tail: bytes) -> None:
        """Write bytes after the end that make no batch: junk, or a hole of NULs."""
        self._leave(tail)

    @precondition(lambda self: self.jsonl.head().seq > 0)
    @rule(data=st.data(), drafts=DRAFTS)
    def tear_within_a_batch(self, data: st.DataObject, drafts: list[Draft]) -> None:
        """Write a batch that would have been valid, but for its last bytes."""
        end = list(self.jsonl.read())[-1].position
        stamp = Stamp(end, self.clock().at, BY, lambda: "0" * 36, lambda: "0" * 16, "k1")
        whole = frame(drafts, stamp).raw
        # The last bytes, the batch's proof, are where a cut is hardest to tell from a whole batch.
        missing = data.draw(st.one_of(st.integers(1, 40), st.integers(1, len(whole) - 1)))
        self._leave(whole[:-missing])

    def _leave(self, tail: bytes) -> None:
        with self.jsonl.path.open("ab") as file:
            file.write(tail)

    @invariant()
    def they_agree(self) -> None:
        """Kinds, bodies, texts, keys, places in the batch and their order are the same in both."""
        assert comparable(self.memory) == comparable(self.jsonl)

    @invariant()
    def seqs_have_no_gap(self) -> None:
        """In each, events are numbered from 1, seals included, and ids are unique."""
        for log in (self.memory, self.jsonl):
            read = lines(log)
            assert list(range(1, len(read) + 1)) == [line["seq"] for line in read]
            assert len(read) == len({line["id"] for line in read})


BackEnds.TestCase.settings = settings(
    max_examples=30, stateful_step_count=20, deadline=None, database=None, print_blob=True
)
TestBackEnds = BackEnds.TestCase
