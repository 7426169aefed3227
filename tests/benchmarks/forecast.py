"""Row ``forecast``: whether the confidence of a forecast is true, and its error against the naive one.

Series of five kinds are made, each cut off somewhere; what they went on to is the truth. The naive forecast is that the
next seven days are like the last seven.
"""

from __future__ import annotations

from datetime import date, timedelta
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.table import Row, Setting, medians
from tallybook.projections.scores.trends import CLOSE_POINTS, HORIZON_DAYS, LEAST_POINTS, forecast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Day = tuple[date, int]

PAIRS = 5
SERIES = 60
"""So many of each kind in a pair, with other chances in the next."""
LONGEST_DAYS = 120
BEGIN = date(2026, 1, 5)
BANDS = {"under 60 %": (0.0, 0.6), "60 to 80 %": (0.6, 0.8), "80 % and more": (0.8, 1.0)}
"""Name → the confidence stated, from and below."""


class Held(NamedTuple):
    """The result of one forecast.

    Attributes:
        kind: The kind of the series.
        confidence: What was stated, above 0 and below 1.
        error: How far off it was, in points.
        naive: How far off the naive one was, in points.
    """

    kind: str
    confidence: float
    error: float
    naive: float


def _flat(chance: Random) -> Iterator[float]:
    level, spread = chance.uniform(40, 90), chance.choice((1, 2, 4, 7, 10))
    while True:
        yield chance.gauss(level, spread)


def _linear(chance: Random) -> Iterator[float]:
    slope = chance.uniform(-0.6, 0.6)
    for day, noise in enumerate(_flat(chance)):
        yield noise + slope * (day - LONGEST_DAYS / 2)


def _weekly(chance: Random) -> Iterator[float]:
    rise = chance.uniform(3, 15)
    for day, noise in enumerate(_flat(chance)):
        yield noise + (rise if day % 7 >= 5 else 0)


def _steps(chance: Random) -> Iterator[float]:
    while True:
        noise = _flat(chance)
        for _ in range(chance.randint(10, 60)):
            yield next(noise)


def _walk(chance: Random) -> Iterator[float]:
    level, step = chance.uniform(40, 90), chance.uniform(0.5, 4)
    while True:
        level = min(max(level + chance.gauss(0, step), 10), 95)
        yield chance.gauss(level, 1)


KINDS: dict[str, Callable[[Random], Iterator[float]]] = {
    "flat noise": _flat,
    "a linear trend": _linear,
    "a weekly rhythm": _weekly,
    "steps": _steps,
    "a random walk": _walk,
}
"""Name of a kind → what yields a value for each day, without end."""
GAPS: tuple[Callable[[Random, int], bool], ...] = (
    lambda _chance, _day: False,
    lambda chance, _day: chance.random() < 0.3,
    lambda _chance, day: day % 7 >= 5,
)
"""Which days have no score: none, three in ten, weekends."""


def series(kind: str, chance: Random) -> tuple[list[Day], list[int]]:
    """Return a series of a kind, and the scores of the seven days after its last one."""
    days, missing = chance.randint(LEAST_POINTS, LONGEST_DAYS), chance.choice(GAPS)
    values = zip(range(days + 2 * HORIZON_DAYS), KINDS[kind](chance), strict=False)
    known = [
        (BEGIN + timedelta(day), round(min(max(value, 0), 100))) for day, value in values if not missing(chance, day)
    ]
    past = [(day, score) for day, score in known if day < BEGIN + timedelta(days)]
    end = past[-1][0] + timedelta(HORIZON_DAYS)
    return past, [score for day, score in known[len(past) :] if day <= end]


def check(kind: str, past: Sequence[Day], came: Sequence[int]) -> Held | None:
    """Return the result of forecasting one series; None without a forecast, or without scores after it."""
    found = forecast(past)
    if found is None or not came:
        return None
    truth = fmean(came)
    week = [score for day, score in past if day > past[-1][0] - timedelta(HORIZON_DAYS)]
    return Held(kind, found.confidence, abs(found.next_7_days - truth), abs(fmean(week) - truth))


def backtest(seed: int, each: int = SERIES) -> list[Held]:
    """Return the results of the forecasts of so many series of each kind, the same for the same seed."""
    chance = Random(seed)  # noqa: S311 - the same series in every run, and no secret
    judged = (check(kind, *series(kind, chance)) for kind in KINDS for _ in range(each))
    return [held for held in judged if held is not None]


def calibration(judged: Sequence[Held]) -> tuple[float, float]:
    """Return how many of these forecasts held, and how many were stated to hold, in percent."""
    held = fmean(metric.error <= CLOSE_POINTS for metric in judged)
    return held * 100, fmean(metric.confidence for metric in judged) * 100


def errors(judged: Sequence[Held]) -> tuple[float, float]:
    """Return the mean absolute error of these forecasts, and of the naive ones, in points."""
    return fmean(metric.error for metric in judged), fmean(metric.naive for metric in judged)


def _held(what: str, tests: Sequence[Sequence[Held]]) -> Row:
    taken = [calibration(judged) for judged in tests]
    ratios = tuple(held / stated for held, stated in taken)
    return Row("forecast", f"forecasts that held, {what}", "the confidence stated", ratios, *medians(taken), "%")


def _off(what: str, tests: Sequence[Sequence[Held]]) -> Row:
    taken = [errors(judged) for judged in tests]
    ratios = tuple(naive / ours for ours, naive in taken)
    return Row("forecast", f"mean error, {what}", "next week is like last week", ratios, *medians(taken), "points")


def rows(setting: Setting) -> Iterator[Row]:
    """Return how many forecasts held against the stated confidence, by kind and confidence, with their errors."""
    tests = [backtest(seed) for seed in range(setting.pairs(PAIRS))]
    for kind in KINDS:
        yield _held(kind, [[metric for metric in judged if metric.kind == kind] for judged in tests])
    for name, (least, below) in BANDS.items():
        yield _held(
            f"stated {name}", [[metric for metric in judged if least <= metric.confidence < below] for judged in tests]
        )
    for kind in KINDS:
        yield _off(kind, [[metric for metric in judged if metric.kind == kind] for judged in tests])
