"""The versions that the checks install and run on: constraints, the workflow, and pyproject.toml agree."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
import os
import re
import subprocess
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
import yaml

from helpers.repository import ROOT

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, GROUPS = SETTINGS["project"], SETTINGS["dependency-groups"]
CONSTRAINTS = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
LINE = re.compile(r"([A-Za-z0-9._-]+)==([0-9][0-9a-z.]*)")


def needed(requirements: list[str], extras: frozenset[str] = frozenset()) -> set[str]:
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
        names |= {name} | needed(nested, frozenset(requirement.extras))
    return names


def test_the_constraints_are_names_with_versions() -> None:
    """Every line but the first comment is a name with one exact version, sorted, and names nothing twice."""
    names = [match[1].lower() for match in map(LINE.fullmatch, CONSTRAINTS[1:]) if match]
    assert CONSTRAINTS[0].startswith("#")
    assert sorted(set(names)) == names
    assert len(CONSTRAINTS) - 1 == len(names)


def test_the_constraints_name_all_that_the_checks_install() -> None:
    """Whatever the package, its tests and their browser need here has one version in the constraints."""
    installed = needed([*PROJECT["dependencies"], *GROUPS["test"], *GROUPS["browser"]])
    constrained = {canonicalize_name(match[1]) for match in map(LINE.fullmatch, CONSTRAINTS[1:]) if match}
    assert set() == installed - constrained


def test_the_workflow_runs_every_python_that_is_declared() -> None:
    """The classifiers, the workflow's matrix and the slices of .ci/run name the same versions."""
    declared = [row.rpartition(" ")[2] for row in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", row)]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert declared == workflow["jobs"]["check"]["strategy"]["matrix"]["python"]
    assert f"for version in {' '.join(declared)}; do" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_a_python_that_is_too_old_is_refused() -> None:
    """The installer says which Python it cannot use, and how another is named."""
    env = os.environ | {"PYTHON": "no-such-python", "VENV": "/nonexistent/venv"}
    answer = subprocess.run(["sh", ".ci/install"], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    expected = (
        "no-such-python is not Python 3.11 or later; if yours has another name: PYTHON=python3.12 sh .ci/install\n"
    )
    assert (1, expected) == (answer.returncode, answer.stderr)
