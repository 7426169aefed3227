"""The recorder: it replaces system calls, passes each on, and records its effect on a folder's files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
import os
from pathlib import Path
from typing import Any, NamedTuple, Self
from unittest.mock import patch

from tallybook.ledger.storage import disk


class TracedEffect(NamedTuple):
    """One effect of the traced run.

    Attributes:
        call: write, size, flush, names, flush-folder or acknowledged.
        what: The file's number, the folder's path or the acknowledged name.
        data: The file's bytes after a write or a new size.
        names: Path → file number, None where the name is removed.
    """

    call: str
    what: Any
    data: bytes = b""
    names: Mapping[str, int | None] = {}


class Recorder:
    """Records calls: every call is passed on to the system, and its effect is recorded."""

    def __init__(self, root: Path) -> None:
        """Record the content of the folder, which counts as flushed; ``begun`` steps have it."""
        self.root = root
        self.steps: list[TracedEffect] = []
        self.meanwhile: list[Callable[[], None]] = []
        self._files: dict[str, int] = {}
        self._open: dict[int, int] = {}
        self._count = 0
        for path in sorted(path for path in root.rglob("*") if path.is_file()):
            number = self._named(str(path))
            self._note("write", number, path.read_bytes())
            self._note("flush", number)
            self._note("flush-folder", str(path.parent))
        self.begun = len(self.steps)
        self._patches = ExitStack()

    def __enter__(self) -> Self:
        """Replace the calls."""
        calls: dict[str, Callable[..., Any]] = {
            "open": self._opened,
            "write": self._wrote,
            "pwrite": self._wrote,
            "ftruncate": self._sized,
        }
        calls |= {"fsync": self._flushed, "replace": self._renamed, "unlink": self._removed}
        for name, noted in calls.items():
            self._patches.enter_context(patch.object(os, name, partial(noted, getattr(os, name))))
        self._patches.enter_context(patch.object(disk, "flush_data", partial(self._flushed, disk.flush_data)))
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the calls."""
        self._patches.close()

    def acknowledged(self, name: str) -> None:
        """Record that a caller's batch was acknowledged."""
        self.steps.append(TracedEffect("acknowledged", name))

    def _note(self, call: str, what: int | str, data: bytes = b"") -> None:
        self.steps.append(TracedEffect(call, what, data))

    def _named(self, path: str) -> int:
        self._count += 1
        self._files[path] = self._count
        self.steps.append(TracedEffect("names", path, names={path: self._count}))
        return self._count

    def _opened(self, call: Callable[..., int], path: Any, flags: int, *rest: Any, **named: Any) -> int:
        fd = call(path, flags, *rest, **named)
        text = os.fspath(path)
        self._open.pop(fd, None)
        if isinstance(text, str) and text.startswith(str(self.root)):
            if Path(text).is_dir():
                self._open[fd] = -1
            else:
                self._open[fd] = self._files[text] if text in self._files else self._named(text)
        return fd

    def _wrote(self, call: Callable[..., int], fd: int, *rest: Any) -> int:
        done = call(fd, *rest)
        if self._open.get(fd, -1) > 0:
            self._note("write", self._open[fd], _all_of(fd))
        return done

    def _sized(self, call: Callable[..., None], fd: int, size: int) -> None:
        call(fd, size)
        if self._open.get(fd, -1) > 0:
            self._note("size", self._open[fd], _all_of(fd))

    def _flushed(self, call: Callable[..., None], fd: int) -> None:
        if self.meanwhile and self._files.get(str(self.root / "events.jsonl")) == self._open.get(fd):
            self.meanwhile.pop(0)()
        call(fd)
        if self._open.get(fd, 0) > 0:
            self._note("flush", self._open[fd])
        elif fd in self._open:
            self._note("flush-folder", str(Path(f"/proc/self/fd/{fd}").readlink()))

    def _renamed(self, call: Callable[..., None], old: Any, new: Any) -> None:
        old, new = os.fspath(old), os.fspath(new)
        if not new.startswith(str(self.root)):
            call(old, new)
            return
        data = Path(old).read_bytes()
        call(old, new)
        number = self._files.pop(old, None)
        if number is None:
            # It was written by other calls than those recorded here, and not flushed.
            self._count = number = self._count + 1
            self._note("write", number, data)
        self._files[new] = number
        self.steps.append(TracedEffect("names", new, names={old: None, new: number}))

    def _removed(self, call: Callable[..., None], path: Any, **named: Any) -> None:
        call(path, **named)
        if self._files.pop(os.fspath(path), None) is not None:
            self.steps.append(TracedEffect("names", os.fspath(path), names={os.fspath(path): None}))


def _all_of(fd: int) -> bytes:
    """Return a file's bytes, however it was opened."""
    return Path(f"/proc/self/fd/{fd}").read_bytes()
