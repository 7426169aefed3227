"""Power loss: writers append to a real file system in a loop-mounted image, and its plug is pulled under them.

The plug is the kernel's shutdown of a mounted file system without a last flush of its journal. What was acknowledged
is read from the writers' pipes before it is pulled: a flush that races with it may be confirmed falsely.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
import os
from pathlib import Path
from random import Random
import select
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from faults import NoToolError, Setting, Tally
from faults.crash_states import LINES, OTHER_BOOT, names, sealed_ranges
from ledger import head as heads
from ledger.backends.jsonl import JsonlLog
from ledger.errors import TallybookError
from ledger.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent.parent
SHUTDOWN = 0x8004587D
"""The ioctl FS_IOC_SHUTDOWN, known to ext4 and XFS."""
NO_LOG_FLUSH = 2
WRITERS = 4
LEAST = 40
"""Acknowledgements that a pull waits for; how many more come is drawn."""
SPREAD = 200
USUAL = 200
HEADINGS = ("acknowledged", "lost", "doubled", "refused", "sealed")
MAKERS = {"ext4": ("mkfs.ext4", "-q", "-F"), "xfs": ("mkfs.xfs", "-q", "-f")}
"""File system → the command that makes one."""
# XFS makes none smaller than 300 MB; the image is sparse.
IMAGE_BYTES = 320 * 1024 * 1024
WRITER = """
import os, sys
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
from faults.crash_states import put
from ledger.backends.jsonl import JsonlLog
from ledger.errors import LockHeldError
log = JsonlLog(Path(sys.argv[3]))
number = 0
while True:
    name = f"{sys.argv[4]}.{number}"
    try:
        put(log, name)
    except LockHeldError:
        continue
    os.write(1, name.encode() + b"\\n")
    number += 1
"""
FRESH = """
import sys
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
from faults.crash_states import put
from ledger.backends.jsonl import JsonlLog
put(JsonlLog(Path(sys.argv[3])), sys.argv[4])
"""


class Pulled(NamedTuple):
    """What came of one pull.

    Attributes:
        counts: By heading.
        problems: What was refused or lost, in words; empty where all is well.
    """

    counts: dict[str, int]
    problems: list[str]


def _run(*words: str | Path) -> None:
    """Run a command as root.

    Raises:
        NoToolError: The system refuses it.
    """
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoToolError(f"{words[0]} was refused: {done.stderr.strip()}")


def why_not(system: str) -> str:
    """Return why no plug of such a file system can be pulled here, nothing where it can."""
    if sys.platform != "linux":
        return "only Linux can shut a file system down"
    if os.geteuid() != 0:
        return "only root may mount a file system and shut it down"
    missing = [tool for tool in (MAKERS[system][0], "mount", "umount", "losetup") if shutil.which(tool) is None]
    if missing:
        return f"{missing[0]} is not installed"
    free = subprocess.run(["losetup", "-f"], capture_output=True, text=True, check=False)
    return "" if free.returncode == 0 else f"there is no loop device: {free.stderr.strip()}"


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[None]:
    """Mount an image; it is unmounted, and its loop device detached, whatever happens."""
    place.mkdir(exist_ok=True)
    _run("mount", "-o", "loop", image, place)
    try:
        yield
    finally:
        try:
            _run("umount", place)
        except NoToolError:
            # Somebody still looks at it: it goes, and its loop device with it, as soon as they stop.
            _run("umount", "-l", place)
            raise


def pull(place: Path) -> None:
    """Shut a mounted file system down at once, as if its power went."""
    import fcntl  # noqa: PLC0415 - not on Windows

    fd = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, SHUTDOWN, NO_LOG_FLUSH.to_bytes(4, sys.byteorder))
    finally:
        os.close(fd)


def _sampled(writers: list[subprocess.Popen[bytes]], least: int) -> list[str]:
    """Return the names that the writers acknowledged, ``least`` or more, read while the power is still on."""
    pipes = [writer.stdout.fileno() for writer in writers if writer.stdout is not None]
    told = dict.fromkeys(pipes, b"")
    while sum(data.count(b"\n") for data in told.values()) < least:
        for pipe in select.select(pipes, [], [])[0]:
            data = os.read(pipe, 65_536)
            if not data:
                raise ChildProcessError("a writer ended before the plug was pulled")
            told[pipe] += data
    # What is cut off behind the last line feed was not told yet.
    return [name.decode() for data in told.values() for name in data.split(b"\n")[:-1]]


def _written_until_pulled(place: Path, least: int, pull_number: int) -> list[str]:
    """Let writers append, pull the plug under them, and return what they had acknowledged before."""
    command = [sys.executable, "-B", "-c", WRITER, str(ROOT), str(ROOT / "tests"), str(place / "ledger")]
    writers = [
        subprocess.Popen([*command, f"{pull_number}.{index}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for index in range(WRITERS)
    ]
    try:
        acknowledged = _sampled(writers, least)
        pull(place)
        return acknowledged
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()


def _other_boot(folder: Path) -> None:
    """Let the head say another boot of the machine: a power loss ends one, and this machine's goes on."""
    with suppress(FileNotFoundError):
        data = (folder / "head").read_bytes()
        head = heads.decode(data)
        if head is not None:
            (folder / "head").write_bytes(heads.encode(head._replace(boot=OTHER_BOOT)))


def _looked_at(folder: Path, acknowledged: list[str], pull_number: int) -> Pulled:
    """Go on with the ledger in a fresh process, and count what became of what was acknowledged."""
    command = [sys.executable, "-B", "-c", FRESH, str(ROOT), str(ROOT / "tests"), str(folder), f"after.{pull_number}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    problems = [done.stderr.strip()] if done.returncode else []
    log = JsonlLog(folder)
    read: list[str] = []
    sealed = 0
    try:
        read = names(log)
        sealed = len(sealed_ranges(log))
        problems += map(str, verify(log).problems)
    except TallybookError as error:
        problems.append(str(error))
    lost = {*acknowledged, f"after.{pull_number}"} - {*read}
    problems += [f"lost {name}" for name in sorted(lost)]
    doubled = len(read) - LINES * len({*read})
    counts = (len(acknowledged), len(lost), doubled, len(problems) - len(lost), sealed)
    return Pulled(dict(zip(HEADINGS, counts, strict=True)), problems)


def suffer(system: str, count: int, seed: int, folder: Path) -> Iterator[Pulled]:
    """Pull the plug of one file system ``count`` times, a ledger that grows on it, and yield what came of each.

    Raises:
        NoToolError: It cannot be done here.
    """
    if why_not(system):
        raise NoToolError(f"{system}: {why_not(system)}")
    draw = Random(seed)  # noqa: S311 - the same seed is to draw the same pulls
    image, place = folder / f"{system}.img", folder / system
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    _run(*MAKERS[system], image)
    acknowledged: list[str] = []
    for number in range(count):
        with mounted(image, place):
            acknowledged += _written_until_pulled(place, LEAST + draw.randrange(SPREAD), number)
        with mounted(image, place):
            _other_boot(place / "ledger")
            yield _looked_at(place / "ledger", acknowledged, number)
        acknowledged.append(f"after.{number}")
    image.unlink()


def rows(setting: Setting) -> Iterator[Tally]:
    """Yield a tally for each file system.

    Raises:
        NoToolError: There is none whose plug can be pulled here.
    """
    for system in MAKERS:
        pulled = list(suffer(system, setting.times(USUAL), setting.seed, setting.folder))
        counts: Mapping[str, int] = {
            # The ledger grows, so the last pull knows all that was ever acknowledged and sealed.
            heading: pulled[-1].counts[heading] if heading in {"acknowledged", "sealed"} else most
            for heading in HEADINGS
            for most in [sum(each.counts[heading] for each in pulled)]
        }
        failures = tuple(problem for each in pulled for problem in each.problems)
        yield Tally("pulls", system, len(pulled), counts, "", failures)
