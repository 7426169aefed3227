"""Power loss: writers append to a real file system in a loop-mounted image, which is shut down under them.

The plug is the kernel's shutdown of a mounted file system without a last flush of its journal. What was acknowledged
is read from the writers' pipes before it is pulled: a flush that races with it may be confirmed falsely.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
import ctypes
import os
from pathlib import Path
from random import Random
import select
import shutil
import signal
import subprocess
import sys
from time import monotonic, sleep
from typing import NamedTuple

from faults import FaultCounts, FaultOptions, NoToolError
from faults.crash_states import names, read_sealed_ranges
from helpers.commands import installed
from tallybook.ledger.errors import TallybookError
from tallybook.ledger.line import Draft
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.verification import verify

SHUTDOWN = 0x8004587D
"""The ioctl FS_IOC_SHUTDOWN, known to ext4 and XFS."""
NO_LOG_FLUSH = 2
WRITERS = 4
LINES = 3
LAST_LINES = 120
"""Lines of the batch that a writer has in flight when the power goes: together these are a hundred pages or so."""
LEAST = 20
"""Acknowledgements that a pull waits for; how many more come is drawn."""
SPREAD = 120
USUAL = 1_500
PULLS_A_LEDGER = 10
"""Then another ledger is begun, so that looking at it stays quick and beginning one is cut short as well."""
UNMOUNT_S = 30
PAGE_BYTES = 4096
PAGES = 48
"""The last pages of the log, of which some are written before the power goes: what is in flight lies in them."""
SHARE = 0.3
WRITE_AND_WAIT = 7
IN_FLIGHT = "#"
MAX_FAILURES = 20
HEADINGS = ("acknowledged", "lost", "doubled", "believed", "refused", "sealed")
MAKERS = {"ext4": ("mkfs.ext4", "-q", "-F"), "xfs": ("mkfs.xfs", "-q", "-f")}
"""File system → the command that makes one."""
# XFS makes none smaller than 300 MB; the image is sparse.
IMAGE_BYTES = 320 * 1024 * 1024
WRITER = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tallybook.ledger.storage import disk
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.errors import LockHeldError
from tallybook.ledger.line import Draft
log = JsonlLog(Path(sys.argv[2]))
size, number, last = int(sys.argv[4]), 0, False
def in_flight(*_):
    global last, size
    last, size = True, int(sys.argv[5])
signal.signal(signal.SIGUSR1, in_flight)
flush = disk.flush_data
def flush_unless_last(fd):
    if last:
        os.write(1, b"#\\n")
        while True:
            signal.pause()
    flush(fd)
disk.flush_data = flush_unless_last
while True:
    name = f"{sys.argv[3]}.{number}x{size}"
    drafts = [Draft("point.rated", 1, {"name": name, "rating": "helpful"})] * size
    try:
        with log.transaction() as tx:
            tx.append(drafts, {"rater": "test"}, name)
    except LockHeldError:
        continue
    os.write(1, name.encode() + b"\\n")
    number += 1
"""


class Pulled(NamedTuple):
    """The result of one power loss."""

    counts: dict[str, int]
    problems: list[str]


def _run(*words: str | Path) -> None:
    """Run a command as root, or raise NoToolError where the system refuses it."""
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoToolError(f"{words[0]} was refused: {done.stderr.strip()}")


def why_not(system: str) -> str:
    """Return the reason why no such file system can be shut down here, an empty text if it can."""
    if sys.platform != "linux":
        return "only Linux can shut a file system down"
    if os.geteuid() != 0:
        return "only root may mount a file system and shut it down"
    missing = [tool for tool in (MAKERS[system][0], "mount", "umount", "losetup") if shutil.which(tool) is None]
    if missing:
        return f"{missing[0]} is not installed"
    free = subprocess.run(["losetup", "-f"], capture_output=True, text=True, check=False)
    return "" if free.returncode == 0 else f"there is no loop device: {free.stderr.strip()}"


def make_image(system: str, image: Path) -> None:
    """Make an empty file system, or raise NoToolError where it cannot be shut down."""
    why = why_not(system)
    if why:
        raise NoToolError(f"{system}: {why}")
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    _run(*MAKERS[system], image)


@contextmanager
def mount_image(image: Path, place: Path) -> Iterator[None]:
    """Mount an image; it is unmounted, and its loop device detached, whatever happens."""
    place.mkdir(exist_ok=True)
    _run("mount", "-o", "loop", image, place)
    try:
        yield
    finally:
        _unmount(place)


def _unmount(place: Path) -> None:
    """Unmount an image; a process that was killed a moment ago may hold it for a while."""
    end = monotonic() + UNMOUNT_S
    while True:
        try:
            return _run("umount", place)
        except NoToolError:
            if monotonic() > end:
                # It goes, and its loop device with it, as soon as nobody holds it any more.
                _run("umount", "-l", place)
                raise
            sleep(0.1)


def pull(place: Path) -> None:
    """Shut a mounted file system down at once, as in a power loss."""
    import fcntl  # noqa: PLC0415 - not on Windows

    fd = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, SHUTDOWN, NO_LOG_FLUSH.to_bytes(4, sys.byteorder))
    finally:
        os.close(fd)


def write_back(path: Path, draw: Random, other: Path) -> None:
    """Make the system write some pages of a file's end before others, as it may at any time, and commit its size."""
    sync = ctypes.CDLL(None, use_errno=True).sync_file_range
    size = path.stat().st_size
    fd = os.open(path, os.O_RDONLY)
    try:
        for page in range(max(size // PAGE_BYTES - PAGES, 0), size // PAGE_BYTES + 1):
            if draw.random() < SHARE:
                sync(fd, ctypes.c_int64(page * PAGE_BYTES), ctypes.c_int64(PAGE_BYTES), WRITE_AND_WAIT)
    finally:
        os.close(fd)
    # The journal holds what became of all files, so a flush of another one commits this one's size.
    fd = os.open(other, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(fd, b"x")
    os.fsync(fd)
    os.close(fd)


def start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    """Start a writer that prints the name of each batch once it is acknowledged; the signal USR1 stops it in flight."""
    command = [sys.executable, "-I", "-S", "-B", "-c", WRITER, installed(), folder, name, LINES, LAST_LINES]
    return subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0)


class Pipes:
    """The output of writers about their batches, read before the power loss."""

    def __init__(self, writers: Sequence[subprocess.Popen[bytes]]) -> None:
        """Read from these writers."""
        self._writers = {writer.stdout.fileno(): writer for writer in writers if writer.stdout is not None}
        self._told = dict.fromkeys(self._writers, b"")

    def lines(self) -> list[list[str]]:
        """Return the lines of each; an unfinished last line is left out."""
        return [data.decode().split("\n")[:-1] for data in self._told.values()]

    def read_until(self, is_enough: Callable[[list[list[str]]], bool]) -> None:
        """Read until there is enough.

        Raises:
            ChildProcessError: A writer ended.
        """
        poll = select.poll()
        for pipe in self._told:
            poll.register(pipe, select.POLLIN)
        while not is_enough(self.lines()):
            for pipe, _ in poll.poll():
                data = os.read(pipe, 65_536)
                if not data:
                    why = self._writers[pipe].communicate()[1].decode().strip().rpartition("\n")[2]
                    raise ChildProcessError(f"a writer ended before the plug was pulled: {why}")
                self._told[pipe] += data


def _write_until_pulled(folder: Path, name: str, draw: Random) -> list[str]:
    """Run writers, shut down while each has a batch in flight, and return the acknowledged batches."""
    least = LEAST + draw.randrange(SPREAD)
    writers = [start(folder, f"{name}.{index}") for index in range(WRITERS)]
    try:
        pipes = Pipes(writers)
        pipes.read_until(lambda told: all(told) and sum(map(len, told)) >= least)
        for writer in writers:
            writer.send_signal(signal.SIGUSR1)
        pipes.read_until(lambda told: all(IN_FLIGHT in lines for lines in told))
        write_back(folder / "events.jsonl", draw, folder / "other")
        pull(folder)
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    return [line for lines in pipes.lines() for line in lines if line != IN_FLIGHT]


def _check_ledger(folder: Path, acknowledged: Sequence[str], fresh: int, after: str) -> Pulled:
    """Append to the ledger, and count the acknowledged batches, ``fresh`` of them from just now."""
    log = JsonlLog(folder)
    problems: list[str] = []
    read: Counter[str] = Counter()
    sealed = 0
    try:
        before, ranges = Counter(names(log)), len(read_sealed_ranges(log))
        with log.transaction() as tx:
            tx.append([Draft("point.rated", 1, {"name": after, "rating": "helpful"})], {"rater": "test"}, after)
        read = Counter(names(log))
        sealed = len(read_sealed_ranges(log)) - ranges
        problems += map(str, verify(log).problems)
        problems += [] if read - Counter([after]) == before else ["it does not read twice alike"]
    except TallybookError as error:
        problems.append(str(error))
    finally:
        log.close()
    lost = {*acknowledged, after} - {*read}
    # A name ends in the number of its lines.
    sizes = {name: int(name.rpartition("x")[2]) for name in read}
    doubled = {name for name, number in read.items() if number > sizes[name]}
    torn = {name for name, number in read.items() if number < sizes[name]}
    refused = len(problems)
    problems += [
        f"{what}: {name}"
        for what, some in (("lost", lost), ("doubled", doubled), ("torn", torn))
        for name in sorted(some)
    ]
    numbers = (fresh, len(lost), len(doubled), len(torn), refused, sealed)
    return Pulled(dict(zip(HEADINGS, numbers, strict=True)), problems)


def suffer(system: str, count: int, setting: FaultOptions) -> Iterator[Pulled]:
    """Shut down one file system ``count`` times, and yield each result; raise NoToolError where it cannot be done."""
    draw = Random(setting.seed)  # noqa: S311 - the same seed is to draw the same pulls
    image, place = setting.folder / f"{system}.img", setting.folder / system
    make_image(system, image)
    folder = place
    acknowledged: list[str] = []
    fresh: list[str] = []
    # What a pull has left is looked at in the mount in which the next one is made.
    for number in range(count + 1):
        with mount_image(image, place):
            if number > 0:
                after = f"after.{number}x1"
                acknowledged += fresh
                yield _check_ledger(folder, acknowledged, len(fresh), after)
                acknowledged.append(after)
            if number % PULLS_A_LEDGER == 0:
                if number > 0:
                    shutil.rmtree(folder)
                folder = place / f"ledger-{number}"
                acknowledged = []
            if number < count:
                fresh = _write_until_pulled(folder, str(number), draw)
    image.unlink()


def rows(setting: FaultOptions) -> Iterator[FaultCounts]:
    """Yield a tally for each file system."""
    for system in MAKERS:
        pulled = list(suffer(system, setting.times(USUAL), setting))
        counts = {heading: sum(each.counts[heading] for each in pulled) for heading in HEADINGS}
        failures = tuple(problem for each in pulled for problem in each.problems)
        yield FaultCounts("pulls", system, len(pulled), counts, "", failures[:MAX_FAILURES])
