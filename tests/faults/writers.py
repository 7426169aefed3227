"""Writers that are killed at random moments: sixty-four at once on one log keep all acknowledged ratings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
import random
import subprocess
import sys
import tempfile
import time

from faults import FaultCounts, FaultOptions
from helpers.commands import installed
from tallybook.ledger.errors import LockHeldError
from tallybook.ledger.line import Draft
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.strict_json import loads
from tallybook.ledger.verification import verify

WRITERS = 64
USUAL = 5_000
KILLS_A_LEDGER = 1_000
BROKEN = ("lost", "doubled", "believed", "damaged", "complaints")
APPENDS = 8
# A killed writer's kill falls within this many seconds of the first acknowledgement.
SPREAD_S = 0.3
WRITER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.errors import CannotWriteError, LockHeldError
from tallybook.ledger.line import Draft
log = JsonlLog(Path(sys.argv[2]))
for number in range(int(sys.argv[4])):
    name = f"{sys.argv[3]}-{number}"
    while True:
        try:
            with log.transaction() as tx:
                tx.append([Draft("point.rated", 1, {"name": name, "rating": "helpful"})] * 2, {"rater": "test"}, name)
            break
        except (CannotWriteError, LockHeldError):
            pass
    os.write(1, name.encode() + b"\\n")
"""


def start(folder: Path, name: str, appends: int = APPENDS) -> subprocess.Popen[bytes]:
    """Start a writer that appends pairs of ratings, and prints the name of each pair once it is acknowledged."""
    arguments = [installed(), str(folder), name, str(appends)]
    command = [sys.executable, "-I", "-S", "-B", "-c", WRITER, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0)


def finish(writers: Sequence[subprocess.Popen[bytes]]) -> tuple[list[str], list[bytes]]:
    """Wait for writers; return the acknowledged pairs, and the errors."""
    acknowledged: list[str] = []
    complaints: list[bytes] = []
    for writer in writers:
        out, err = writer.communicate()
        # A name that was cut off by the kill was not heard.
        acknowledged += [line.decode() for line in out.split(b"\n")[:-1]]
        complaints += [err] if err else []
    return acknowledged, complaints


def kill_some(folder: Path, chance: random.Random, writers: int = WRITERS) -> tuple[list[str], int, list[bytes]]:
    """Run writers at once and kill three in four of them; return the acknowledged, the kills and the complaints."""
    started = [start(folder, f"w{number}-{chance.randrange(10**9)}") for number in range(writers)]
    doomed = sorted((chance.random() * SPREAD_S, number) for number in range(writers) if chance.random() < 0.75)
    begun = time.monotonic()
    for moment, number in doomed:
        time.sleep(max(0.0, begun + moment - time.monotonic()))
        started[number].kill()
    acknowledged, complaints = finish(started)
    return acknowledged, sum(writer.returncode < 0 for writer in started), complaints


def counts(log: JsonlLog) -> Counter[str]:
    """Return how often each name was rated."""
    lines = [loads(line, "line") for batch in log.read() for line in batch.lines]
    return Counter(line["body"]["name"] for line in lines if line["kind"] == "point.rated")


def judge(log: JsonlLog, acknowledged: Sequence[str]) -> dict[str, int]:
    """Count the faults of a log: acknowledged pairs that are lost, pairs read twice or in part, damage."""
    found = counts(log)
    return {
        "lost": sum(found[name] == 0 for name in acknowledged),
        "doubled": sum(number > 2 for number in found.values()),
        "believed": sum(number == 1 for number in found.values()),
        "damaged": len(verify(log).problems),
    }


def append_one(log: JsonlLog, name: str) -> None:
    """Append one rating, however often another process holds the lock for too long."""
    while True:
        try:
            with log.transaction() as tx:
                tx.append([Draft("point.rated", 1, {"name": name, "rating": "helpful"})], {"rater": "test"}, name)
        except LockHeldError:
            continue
        return


def tally(setting: FaultOptions) -> dict[str, int]:
    """Kill writers until there were so many kills; the seed repeats their choice, and not what the scheduler does."""
    count = setting.times(USUAL)
    chance = random.Random(setting.seed)  # noqa: S311 - a fault that can be repeated, no secret
    total: Counter[str] = Counter(dict.fromkeys(("kills", "acknowledged", *BROKEN), 0))
    while total["kills"] < count:
        place = Path(tempfile.mkdtemp(prefix="writers-", dir=setting.folder)) / "ledger"
        acknowledged: list[str] = []
        kills = 0
        while kills < min(KILLS_A_LEDGER, count - total["kills"]):
            heard, killed, complaints = kill_some(place, chance)
            acknowledged += heard
            kills += killed
            total["complaints"] += len(complaints)
        log = JsonlLog(place)
        total.update(judge(log, acknowledged), kills=kills, acknowledged=len(acknowledged))
        log.close()
    return dict(total)


def rows(setting: FaultOptions) -> Iterator[FaultCounts]:
    """Yield the tally of killed writers."""
    counts = tally(setting)
    kills = counts.pop("kills")
    broken = tuple(f"{what}: {counts[what]}, seed {setting.seed}" for what in BROKEN if counts[what])
    yield FaultCounts("kills", f"{WRITERS} writers", kills, counts, "", broken)
