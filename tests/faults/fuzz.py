"""Row ``fuzz``: logs are changed below their proofs, and every path that reads a line must have one verdict.

A change of bytes ends at the chain, so most changed logs are proven anew: checksums, sums, seals and chain fit again,
and the readers must judge the content of the lines. Coverage guides the changes if atheris is installed, else they are
random. A failure carries its log, packed: ``judge(folder, unpacked(text))`` repeats it.
"""

from __future__ import annotations

from base64 import b85decode, b85encode
import binascii
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from itertools import count
import json
import os
from pathlib import Path
from random import Random
import re
import signal
import subprocess
import sys
import zlib

from faults import FaultCounts, FaultOptions
from faults.mutations import LINES, somewhere
from faults.verdicts import BY, ENTRY, NOW, RATED, judge
from helpers.ledger_lines import compute_chain
from tallybook.ledger import clock
from tallybook.ledger.codec import encode
from tallybook.ledger.events import LedgerOpened, PlaybookAdopted, PlaybookEdited, PlaybookUpdated, PointAdded
from tallybook.ledger.line import (
    CHAIN_MARK,
    CRC_BYTES,
    FREE_CHARS,
    FREE_MARK,
    SECTION,
    START,
    Draft,
    Position,
    RawBatch,
    Stamp,
    complete_lines,
    digest,
    frame,
)

TESTS = Path(__file__).resolve().parent.parent
COUNT = 20_000
MAX_FAILURES = 20
MAX_BYTES = 256 * 1024
# Far longer than any log of this size takes; what takes longer stands still.
HANG_S = 60

# The logs that changes begin with


@cache
def hostile() -> dict[str, tuple[bytes, str]]:
    """Return the corpus of hostile JSON: name → its bytes, and whether readers of JSON agree about them."""
    corpus = {}
    for case in json.loads((TESTS / "data" / "hostile-json.json").read_text(encoding="utf-8")):
        times = case.get("times", 1)
        text = case["json"] * times + case.get("middle", "") + case.get("close", "") * times
        # A byte that is no UTF-8 stands in the file as the character of the same number.
        corpus[case["name"]] = text.encode("latin-1"), case["readers"]
    return corpus


def log_of(*steps: Sequence[Draft] | bytes) -> bytes:
    """Return a log of these batches after its opening; bytes among them are a torn end, followed by its seal."""
    data, mark = b"", START
    serial = count(1)
    for step in ([encode(LedgerOpened("00000000-0000-4000-8000-000000000001", 1))], *steps):
        drafts = step
        if isinstance(drafts, bytes):
            torn, data = drafts, data + drafts
            seal = {"begin": mark.offset, "end": len(data), "digest": digest(torn)}
            drafts, mark = [Draft("log.recovered", 1, seal)], mark._replace(offset=len(data))
        key = f"span-{mark.seq}" if len(drafts) > 1 else None
        at = clock.moment(NOW.unix_us + (mark.seq - 10**6) * clock.MICROSECONDS).at
        batch = frame(drafts, Stamp(mark, at, BY, lambda: f"id-{next(serial)}", lambda: "5a17", key))
        data, mark = data + batch.raw, batch.position
    return data


def redact_secrets(data: bytes, secret: bytes) -> bytes:
    """Return a log in which every free value with a secret was overwritten."""
    values = re.findall(rb',\t"free":(\{[^\n]*?\})\}?(?:\n|,\t"chain")', data)
    for value in values:
        if secret in value:
            data = data.replace(value, b"null".ljust(len(value)))
    return data


@cache
def logs() -> tuple[bytes, ...]:
    """Return whole logs that hold every kind, continued, redacted and repeated texts, sealed ranges and keys."""
    rated = encode(RATED)
    update = [rated, rated, encode(PlaybookUpdated(0, 2, 0))]
    added = [encode(PointAdded(ENTRY, "the secret")), encode(PointAdded("kpt_002", "Plain")), *update]
    gone = Draft("event.redacted", 1, {"id": "id-2"}, {"reason": "it was secret"})
    long = [encode(PointAdded("kpt_003", "secret " * FREE_CHARS)), encode(PlaybookEdited(7, None, '{"version":"2"}'))]
    adopted = [encode(PlaybookAdopted("0" * 64, 0, '{"version":"1.0","last_updated":null,"more":[1]}'))]
    return (
        (TESTS / "golden.jsonl").read_bytes(),
        log_of(added, update, update, [rated]),
        redact_secrets(log_of(added, [gone], update), b"the secret"),
        redact_secrets(log_of(long, [gone]), b"secret secret"),
        log_of(adopted, update, b'{"crc":"00000000","seq":6\n', update, bytes(99) + b"\n", [rated]),
    )


# How they are changed

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|null|true|false|\{\}|\[\]')
_PAIR = re.compile(rb'"[a-z_]*":(?:"(?:[^"\\]|\\.)*"|-?[0-9]+|null|\{[^{}]*\}|\[[^\[\]]*\]),?')
_SEQ = re.compile(rb'^"seq":[0-9]+')
_PART = re.compile(rb'"part":\[[0-9]+,[0-9]+\]')
_SUM = re.compile(rb'(?<="sum":")[^"]*(?="$)')
_SEAL = re.compile(rb'\{"begin":[0-9]+,"end":[0-9]+,"digest":"[0-9a-f]*"\}')


def prove_again(data: bytes, *, renumbered: bool = True) -> bytes:
    """Return a log in which every well-formed batch has new proofs, whatever its lines hold.

    Args:
        data: The log.
        renumbered: Whether lines get the seq and part that are due; otherwise they keep what they have.
    """
    done, mark = b"", START
    pending: list[bytes] = []
    for line in _LINE.findall(data):
        pending.append(line)
        if not (line.startswith(b'{"crc":"') and SECTION in line and line.endswith(b"\n")):
            # No line of ours: a torn stretch, which a seal behind it may cover.
            done, pending = done + b"".join(pending), []
        elif CHAIN_MARK in line:
            batch = _prove_batch(pending, mark, done, renumbered=renumbered)
            done, mark, pending = done + batch.raw, batch.position, []
    return done + b"".join(pending)


def _prove_batch(lines: Sequence[bytes], mark: Position, done: bytes, *, renumbered: bool) -> RawBatch:
    texts = [line[:-1] for line in lines]
    texts[-1] = texts[-1].partition(CHAIN_MARK)[0] + b"}"
    proven = []
    for part, text in enumerate(texts, 1):
        end = text[-1:] if text.endswith(b"}") else b""
        core, free, value = text[CRC_BYTES : len(text) - len(end)].partition(FREE_MARK)
        if renumbered:
            core = _SEQ.sub(b'"seq":%d' % (mark.seq + part), core)
            core = _PART.sub(b'"part":[%d,%d]' % (part, len(texts)), core, count=1)
        begin = mark.offset
        seal = b'{"begin":%d,"end":%d,"digest":"%b"}' % (begin, len(done), digest(done[begin:]).encode())
        core = _SEAL.sub(seal, core) if len(done) > begin else core
        core = _SUM.sub(digest(value).encode(), core) if value.strip(b" ") != b"null" else core
        proven.append(b'{"crc":"%08x",' % binascii.crc32(core) + core + free + value + end)
    data = b"\n".join(proven).removesuffix(b"}")
    return RawBatch(
        mark.seq + 1, mark.seq + len(texts), compute_chain(mark.chain, data), len(done), complete_lines(data)
    )


def _other_token(chance: Random, line: bytes, begin: int, end: int) -> bytes:
    """Replace a token by hostile JSON, or by a token of any log."""
    source = chance.choice(logs())
    other = chance.choice(_TOKEN.findall(source, at := chance.randrange(len(source)), at + 999) or [b"0"])
    return line[:begin] + chance.choice((other, chance.choice(list(hostile().values()))[0])) + line[end:]


def _change_token(form: re.Pattern[bytes], change: Callable[[Random, bytes, int, int], bytes]) -> Callable[..., bytes]:
    """Return a function that makes a change at one of a line's tokens."""

    def changed(chance: Random, line: bytes) -> bytes:
        places = list(form.finditer(line))
        return change(chance, line, *chance.choice(places).span()) if places else line

    return changed


WITHIN: dict[str, Callable[[Random, bytes], bytes]] = {
    "token": _change_token(_TOKEN, _other_token),
    "without a pair": _change_token(_PAIR, lambda _, line, begin, end: line[:begin] + line[end:]),
    "a pair twice": _change_token(_PAIR, lambda _, line, begin, end: line[:end] + line[begin:]),
    "bytes": lambda chance, line: somewhere(line, chance),
    "blank": _change_token(re.compile(rb"[,:{}\[\]]"), lambda _, line, begin, __: line[:begin] + b" " + line[begin:]),
}
"""Kind → what changes a line; changes of whole lines are those of the row ``mutations``."""


def change_log(chance: Random, data: bytes) -> bytes:
    """Return a log with one to three changes, most often with new proofs."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        lines = _LINE.findall(data) or [b"\n"]
        at = chance.randrange(len(lines))
        kind = chance.choice([*WITHIN, *WITHIN, *WITHIN, "lines"])
        if kind == "lines":
            foreign = [*_LINE.findall(chance.choice(logs())), b"\n"]
            lines = LINES[chance.choice(list(LINES))](chance, lines, at, foreign)
        else:
            lines[at] = WITHIN[kind](chance, lines[at])
        data = b"".join(lines)
    how = chance.randrange(8)
    return data[:MAX_BYTES] if not how else prove_again(data, renumbered=how > 1)[:MAX_BYTES]


def pack_log(data: bytes) -> str:
    """Return a log as text that a person can copy."""
    return b85encode(zlib.compress(data, 9)).decode()


def unpack_log(text: str) -> bytes:
    """Return the log of such a text."""
    return zlib.decompress(b85decode(text))


# The row


@contextmanager
def _limit_time() -> Iterator[None]:
    """Raise after HANG_S seconds if the system can; used outside the tests alone."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"stands still for {HANG_S} s")

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class FuzzResult:
    """The result of a run."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Begin without a log."""
        self.folder = folder
        self.seed = seed
        self.tried = 0
        self.counts: Counter[str] = Counter()
        self.failures: dict[str, str] = {}

    def take(self, data: bytes) -> None:
        """Judge one log, and store the first log of every complaint."""
        self.tried += 1
        with _limit_time():
            outcome = judge(self.folder, data)
        verdict = (
            "whole" if outcome.whole else "damaged, and spelt so that a fold takes it" if outcome.taken else "damaged"
        )
        self.counts[verdict] += 1
        self.counts["complaints"] += bool(outcome.complaints)
        for complaint in outcome.complaints:
            self.failures.setdefault(
                complaint, f"{complaint}: input {self.tried} of seed {self.seed}, {pack_log(data)}"
            )

    def as_json(self) -> str:
        """Return it for another process."""
        return json.dumps([self.tried, self.counts, self.failures])


def judge_at_random(run: FuzzResult, times: int) -> None:
    """Judge so many logs, each a change of a valid one, or of an earlier change."""
    chance = Random(run.seed)  # noqa: S311 - a seed to repeat it
    for _ in range(times):
        run.take(change_log(chance, chance.choice(logs())))


def judge_guided(folder: str, times: int, seed: int) -> None:
    """Judge so many logs that atheris makes; called in a process of its own, which ends with the last of them."""
    import atheris  # noqa: PLC0415 - a group that need not be there

    run = FuzzResult(Path(folder) / "ledger", seed)

    def take(data: bytes) -> None:
        run.take(data)
        if run.tried >= times:
            (Path(folder) / "run.json").write_text(run.as_json(), encoding="utf-8")
            os._exit(0)

    def mutate(data: bytes, size: int, number: int) -> bytes:
        chance = Random(number)  # noqa: S311 - atheris draws it from its own seed
        how = chance.randrange(4)
        if how:
            # Now and then from a whole log again: what was changed often is refused at its first line.
            fresh = change_log(chance, data if how > 1 else chance.choice(logs()))
        else:
            fresh = prove_again(atheris.Mutate(data, size))
        return fresh[:size]

    begun = Path(folder) / "corpus"
    begun.mkdir()
    for number, data in enumerate(logs()):
        (begun / f"{number}").write_bytes(data)
    limits = [f"-seed={seed}", f"-max_len={MAX_BYTES}", "-timeout=0", "-rss_limit_mb=0", "-verbosity=0"]
    atheris.Setup(["fuzz", str(begun), *limits], take, custom_mutator=mutate)
    atheris.Fuzz()


_LED = """
import sys
sys.path[:0] = sys.argv[1:3]
import atheris
with atheris.instrument_imports(include=["ledger"]):
    from faults import fuzz
fuzz.judge_guided(sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
"""


def judge_by_coverage(run: FuzzResult, times: int) -> None:
    """Judge so many logs in a process that atheris guides."""
    run.folder.mkdir()
    words = [str(TESTS), str(TESTS.parent), str(run.folder), str(times), str(run.seed)]
    done = subprocess.run([sys.executable, "-B", "-c", _LED, *words], capture_output=True, text=True, check=False)
    told = run.folder / "run.json"
    if not told.is_file():
        run.failures["ended"] = f"ended early, exit code {done.returncode}: {done.stderr[-500:]}"
        return
    run.tried, counts, run.failures = json.loads(told.read_text(encoding="utf-8"))
    run.counts.update(counts)


HEADINGS = ("whole", "damaged", "damaged, and spelt so that a fold takes it", "complaints")


def rows(setting: FaultOptions, *, guided: bool | None = None) -> Iterator[FaultCounts]:
    """Yield the tally of changed logs.

    Args:
        setting: The options of the command line.
        guided: Whether coverage guides the changes; None: if atheris is installed.
    """
    guided = find_spec("atheris") is not None if guided is None else guided
    run = FuzzResult(setting.folder / "fuzz", setting.seed)
    (judge_by_coverage if guided else judge_at_random)(run, setting.times(COUNT))
    counts = {heading: run.counts[heading] for heading in HEADINGS}
    note = "led by coverage (atheris)" if guided else "changed by chance: atheris is not installed"
    yield FaultCounts("fuzz", "Tallybook", run.tried, counts, note, tuple(run.failures.values())[:MAX_FAILURES])
