"""The tools of the repository: benchmarks, sweeps, mutants, the simulated month, and the versions that checks use."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from math import isfinite
from pathlib import Path
import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
import pytest
import yaml

from benchmarks import __main__ as command
from helpers.commands import ROOT
from lift_simulation import chances
import month
from tallybook.ledger.storage import caches

LINES = {"append": 1, "replay": 1, "load": 2}
"""Row → how many lines of the table it has; the other rows take longer, and run where somebody measures."""


@pytest.mark.parametrize("name", LINES)
def test_a_row_prints_its_ratios(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every row has finite positive figures and prints them, and deletes its files."""
    # The command sets it for its process, which is this one: pytest removes it after the test.
    monkeypatch.setenv(caches.VARIABLE, "")
    rows = command.main([name, "--events", "600", "--repeats", "1", "--folder", str(tmp_path)])
    assert [name] * LINES[name] == [row.name for row in rows]
    assert [] == [
        figure for row in rows for pair in row.pairs for figure in pair if not (isfinite(figure) and figure > 0)
    ]
    assert len(rows) == capsys.readouterr().out.count(f"\n| {name} ")
    assert [] == [*tmp_path.iterdir()]


SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, GROUPS = SETTINGS["project"], SETTINGS["dependency-groups"]
CONSTRAINTS = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
LINE = re.compile(r"([A-Za-z0-9._-]+)==([0-9][0-9a-z.]*)")


def list_needed(requirements: list[str], extras: frozenset[str] = frozenset()) -> set[str]:
    """Return the names of what these requirements install here, with what those require in turn."""
    names = set()
    for text in requirements:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            continue
        name = canonicalize_name(requirement.name)
        try:
            nested = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        names |= {name} | list_needed(nested, frozenset(requirement.extras))
    return names


def test_the_constraints_are_names_with_versions() -> None:
    """Every line but the first comment is a name with one exact version, sorted, and names nothing twice."""
    names = [match[1].lower() for match in map(LINE.fullmatch, CONSTRAINTS[1:]) if match]
    assert CONSTRAINTS[0].startswith("#")
    assert sorted(set(names)) == names
    assert len(CONSTRAINTS) - 1 == len(names)


def test_the_constraints_name_all_that_the_checks_install() -> None:
    """Whatever the package, its tests and their browser need here has one version in the constraints."""
    installed = list_needed([*PROJECT["dependencies"], *GROUPS["test"], *GROUPS["browser"]])
    constrained = {canonicalize_name(match[1]) for match in map(LINE.fullmatch, CONSTRAINTS[1:]) if match}
    assert set() == installed - constrained


def test_the_workflow_runs_every_python_that_is_declared() -> None:
    """The classifiers, the workflow's matrix and the slices of .ci/run name the same versions."""
    declared = [row.rpartition(" ")[2] for row in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", row)]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert declared == workflow["jobs"]["check"]["strategy"]["matrix"]["python"]
    assert f"for version in {' '.join(declared)}; do" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_a_week_of_true_marks_and_its_review_take_bad_entries_out_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bad entry leaves, and each good entry stays; `python -m tests.month` simulates whole months."""
    monkeypatch.setattr(month, "PERSON_IS_RIGHT", 1)
    with month.home():
        _, rng = chances(2)
        world = month.live(tmp_path / "world", rng, month.Habits(1.0, wrong=0.0), count=1, days=month.WEEK)
    assert {month.BAD} == {entry.quality for entry in world.entries.values() if entry.is_gone}
    assert [month.GOOD] * 2 == [entry.quality for entry in world.entries.values() if not entry.is_gone]
