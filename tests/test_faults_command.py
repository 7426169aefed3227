"""`python -m tests.faults`: one table in the end, also of a run that was ended early, and an exit code that judges."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from faults import NoToolError, Setting, Tally, render
from faults import __main__ as command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ALL_WELL = {"acknowledged": 1_200, "lost": 0, "doubled": 0, "believed": 0, "sealed": 7}


@pytest.fixture(autouse=True)
def _signals_as_they_were() -> Iterator[None]:
    """Give the test runner its signals back."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def rows(monkeypatch: pytest.MonkeyPatch, **made: Callable[[Setting], Iterator[Tally]]) -> None:
    """Put stand-ins in place of the rows."""
    monkeypatch.setattr(command, "ROWS", made)


def printed(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """Return the cells of the last table that was printed."""
    lines = capsys.readouterr().out.rstrip().split("\n\n")[-1].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_summary_says_the_same_of_every_fault() -> None:
    """One line a fault and one for all, whatever a row calls it; rivals are left out, what nobody can ask is a dash."""
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


def test_a_run_that_is_ended_tells_what_it_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first signal ends the run in order: the faults made so far are tallied, and what was not begun is named."""

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


def test_a_run_that_is_broken_off_tells_what_it_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second signal, or an error of the suite itself, ends it at once: what was tallied is printed even so."""

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
def test_the_exit_code_says_whether_a_promise_was_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failures: tuple[str, ...], code: int
) -> None:
    """A broken promise is exit code 1 and a line that repeats it; a tool that is missing is told and breaks nothing."""

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
    """Date, Python, cores, kernel and file system stand above the tables."""
    told = command.machine(tmp_path)
    assert told[:2] == "20"
    assert "Python 3." in told
    assert " cores, " in told
