"""What engines do, one layer below machines: processes that race for numbers, and what a sync costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
import importlib
import multiprocessing
from pathlib import Path
from typing import Any
from unittest.mock import patch

from helpers.engines import Fixtures
from helpers.git_repositories import git, push_files
from helpers.memory_store import make_runs
from tallybook.ledger.line import Position
from tallybook.ledger.sharing.engine import NOTHING, End, Engine, _encode
from tallybook.ledger.sharing.git import REFERENCES, path_of

NAMES = ("folder", "git by path", "postgres", "s3", "azure")
PROCESSES = 8
NUMBERS = 200
_RUNS = 300
_GIT_RUNS = 3_000
_PUSHES = 20
_TRIPS: dict[str, tuple[str, str, Callable[[Any], object]]] = {
    "git": ("git_remote", "run_git", lambda words: {"ls-remote", "fetch", "push"} & {*words[0]}),
    "objects": ("objects", "ObjectStore._connect", bool),
    "postgres": ("postgres", "_cut_after", bool),
}
"""Where each engine talks to its server: module, function, and which calls of it do."""


@contextmanager
def open_book(name: str, folder: Path) -> Iterator[Callable[[], Engine]]:
    """Start an engine on loopback, and give a function that opens one more machine's engine on one new book."""
    with ExitStack() as stack:
        yield Fixtures(stack, folder).open_book(name)


def _put_all(connect: Callable[[], Engine], writer: int, numbers: int) -> list[int]:
    """Put a run of its own under each number in turn, and return the numbers that were free."""
    store, data = connect().store, b"%d" % writer
    won = [
        number
        for number in range(1, numbers + 1)
        if store.put(number, data) is not None or store.get([number]).get(number) == data
    ]
    store.close()
    return won


def race(name: str, folder: Path, processes: int = PROCESSES, numbers: int = NUMBERS) -> list[str]:
    """Let processes race for numbers, and return what is wrong: a number that was not won exactly once."""
    context = multiprocessing.get_context("fork")
    with open_book(name, folder) as connect:
        results = [context.Pipe(duplex=False) for _ in range(processes)]

        def run(writer: int) -> None:
            results[writer][1].send(_put_all(connect, writer, numbers))

        workers = [context.Process(target=run, args=(writer,)) for writer in range(processes)]
        for worker in workers:
            worker.start()
        won = [reader.recv() for reader, _ in results]
        for worker in workers:
            worker.join()
        winners = {
            number: [writer for writer in range(processes) if number in won[writer]] for number in range(1, numbers + 1)
        }

        def read() -> None:
            store = connect().store
            store.list(0)
            results[0][1].send(store.get([*winners]))

        # Here, the threads of a client library would be missing in the processes of the next race.
        context.Process(target=read).start()
        stored = results[0][0].recv()
    return [
        f"{name}: number {number} was won by {winner}, and holds {stored.get(number)!r}"
        for number, winner in winners.items()
        if [b"%d" % writer for writer in winner] != [stored.get(number)]
    ]


def report_race(folder: Path) -> int:
    """Let processes race on every engine, and print what is wrong."""
    wrong = []
    for name in NAMES:
        (folder / name).mkdir()
        (folder / name).chmod(0o755)
        found = race(name, folder / name)
        print(f"{name}: {PROCESSES} processes, {NUMBERS} numbers, {NUMBERS - len(found)} won once")  # noqa: T201
        wrong += found
    print(*wrong, sep="\n", end="")  # noqa: T201
    return bool(wrong)


@contextmanager
def _counted(name: str) -> Iterator[list[Any]]:
    """Note each call of an engine's server."""
    module, function, is_trip = _TRIPS["git" if name.startswith("git") else name if name == "postgres" else "objects"]
    owner = importlib.import_module(f"tallybook.ledger.sharing.{module}")
    *classes, function = function.split(".")
    for part in classes:
        owner = getattr(owner, part)
    calls: list[Any] = []
    real = getattr(owner, function)

    def note(*words: Any, **options: Any) -> Any:
        if is_trip(words):
            calls.append(words)
        return real(*words, **options)

    with patch.object(owner, function, note):
        yield calls


def _append(engine: Engine, end: End, writer: str) -> End:
    after = engine.append(end, make_runs(1, writer, Position(end.seq, end.chain, 0)))
    assert after is not None
    return after


def report_cost(folder: Path) -> int:
    """Print the round trips of a sync with nothing new and of one that sends a rating, and what a remote grows by."""
    for name in NAMES:
        (folder / name).mkdir()
        (folder / name).chmod(0o755)
        with open_book(name, folder / name) as connect:
            engine = connect()
            if name.startswith("git"):
                files = {path_of(number): _encode(run) for number, run in enumerate(make_runs(_GIT_RUNS), 1)}
                push_files(folder / name / "remote.git", f"{REFERENCES}main", files)
                git(folder / name / "remote.git", "gc", "--quiet")
                end = engine.read(0).end
            else:
                end = engine.append(NOTHING, make_runs(_RUNS)) or NOTHING
            with _counted(name) as nothing:
                engine.read(end.seq, since=end)
            with _counted(name) as sent:
                engine.read(end.seq, since=end)
                end = _append(engine, end, "anna")
            grown = ""
            if name.startswith("git"):
                before = _size(folder / name / "remote.git")
                for number in range(_PUSHES):
                    end = _append(engine, end, f"writer{number}")
                bytes_ = (_size(folder / name / "remote.git") - before) / _PUSHES
                grown = f"; the remote grows by {bytes_:,.0f} bytes a push before its gc"
        print(f"{name}: {len(nothing)} round trips with nothing new, {len(sent)} with one rating out{grown}")  # noqa: T201
    return 0


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
