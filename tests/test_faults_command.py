"""`python -m tests.faults` prints one table at its end, even if interrupted, and exits with a verdict."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from faults import NoToolError, Setting, Tally, render
from faults import __main__ as command
from tallybook.ledger.storage import caches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ALL_WELL = {"acknowledged": 1_200, "lost": 0, "doubled": 0, "believed": 0, "sealed": 7}


@pytest.fixture(autouse=True)
def _restore_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore the signals and the cache folder that a run sets for its own process."""
    # The value does not matter: a run sets its own, and pytest removes the variable after the test.
    monkeypatch.setenv(caches.VARIABLE, "")
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def rows(monkeypatch: pytest.MonkeyPatch, **made: Callable[[Setting], Iterator[Tally]]) -> None:
    """Replace the rows by stand-ins."""
    monkeypatch.setattr(command, "ROWS", made)


def printed(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """Return the cells of the last table that was printed."""
    lines = capsys.readouterr().out.rstrip().split("\n\n")[-1].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_summary_has_one_row_for_each_fault() -> None:
    """One row for each fault and one for the total, in uniform words; rivals are left out, an unknown is a dash."""
    tallies = [
        Tally("kills", "writers", 2_000, ALL_WELL),
        Tally("mutations", "Tallybook", 50, {"found": 50, "silently different": 1, "rows lost": 3}),
        Tally("mutations", "plain", 9, {"found": 0, "silently different": 9, "rows lost": 9}, rival=True),
    ]
    summary = render(tallies, ["pulls: no"]).rstrip().split("\n\n")[-1]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in summary.splitlines()]
    assert ["fault", "made", "acknowledged", "lost", "doubled", "believed"] == cells[0]
    assert ["kills: writers", "2,000", "1,200", "0", "0", "0"] == cells[2]
    assert ["mutations: Tallybook", "50", "-", "3", "-", "1"] == cells[3]
    assert ["all", "2,050", "1,200", "3", "0", "1"] == cells[4]
    assert 5 == len(cells)


def test_an_interrupted_run_prints_its_tally(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first signal ends the run in order: it prints the tally so far and the rows that did not run."""

    def ended(setting: Setting) -> Iterator[Tally]:
        made = 0
        for made in setting.until_stopped(range(1, 1_000)):
            if made == 30:
                signal.raise_signal(signal.SIGTERM)
        yield Tally("ended", "ledger", made, ALL_WELL)

    rows(monkeypatch, ended=ended, never=ended)
    assert 0 == command.main([])
    out = capsys.readouterr().out
    assert "- ledger: the run was ended" in out
    assert "- left out: never: the run was ended before" in out
    assert "| ended: ledger | 30 " in out


def test_an_aborted_run_prints_its_tally(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The second signal, or an error of the suite itself, ends it at once, with the tally printed."""

    def first(_: Setting) -> Iterator[Tally]:
        yield Tally("first", "ledger", 5, ALL_WELL)

    def broken(_: Setting) -> Iterator[Tally]:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        yield Tally("broken", "ledger", 1, ALL_WELL)

    rows(monkeypatch, first=first, broken=broken)
    with pytest.raises(KeyboardInterrupt):
        command.main([])
    assert ["first: ledger", "5", "1,200", "0", "0", "0"] == printed(capsys)[2]


@pytest.mark.parametrize(("failures", "code"), [((), 0), (("lost: 1",), 1)], ids=["kept", "broken"])
def test_a_broken_promise_is_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failures: tuple[str, ...], code: int
) -> None:
    """A broken promise is exit code 1 and a line that repeats it; a missing tool is reported and breaks none."""

    def some(setting: Setting) -> Iterator[Tally]:
        yield Tally("some", "ledger", setting.times(9), ALL_WELL, failures=failures)

    def missing(_: Setting) -> Iterator[Tally]:
        raise NoToolError("pulls: only root")
        yield

    rows(monkeypatch, some=some, missing=missing)
    assert code == command.main(["--count", "4", "--seed", "7"])
    out = capsys.readouterr().out
    assert "- left out: pulls: only root" in out
    assert (code == 1) == ("- FAILED, some, ledger: lost: 1" in out)
    assert "seed 7" in out.splitlines()[0]


def test_the_machine_is_named(tmp_path: Path) -> None:
    """Date, Python, cores, kernel and file system are printed above the tables."""
    told = command.machine(tmp_path)
    assert told[:2] == "20"
    assert "Python 3." in told
    assert " cores, " in told
