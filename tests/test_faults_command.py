"""`python -m tests.faults` prints one table at its end, even if interrupted, and exits with a verdict."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from faults import NoToolError, Setting, Tally
from faults import __main__ as command
from tallybook.ledger.storage import caches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
