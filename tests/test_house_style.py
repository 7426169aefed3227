"""The rules of the house that no linter checks: docstrings, use of the clock, the repository's files."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
import re
import subprocess

import pytest

from helpers.repository import ROOT

FOLDERS = ("ledger", "projections", "prompts", "tests")
MODULES = sorted(path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PACKAGED = [path for path in MODULES if path.parts[0] != "tests"]
TESTS = [path for path in MODULES if path.parts[0] == "tests"]

IMPURE = {
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "os.urandom",
    "time.time",
    "time.time_ns",
    "uuid.uuid1",
    "uuid.uuid4",
}
"""What asks the clock or the random source; time.monotonic only measures a wait and tells no moment."""
CHANCE = ("random.", "secrets.")

# Written so that this file does not name what it looks for.
REGISTRY_HOST = re.compile(r"(?i)p[y]pi\.org|python[h]osted\.org|registry\.n[p]mjs|deb\.d[e]bian\.|proxy\.g[o]lang")

BACKQUOTED = re.compile(r"`([a-z]+(?:_[a-z]+)+)(?:\(\))?`")


@cache
def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a module of the repository."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def impure_uses(tree: ast.Module) -> list[tuple[int, str]]:
    """Return line and full name of every use of something impure, under any imported name."""
    full: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            full |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            full |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    used = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            first, _, rest = ast.unparse(node).partition(".")
            used.append((node.lineno, ".".join(filter(None, (full.get(first, first), rest)))))
    return [(line, name) for line, name in used if name in IMPURE or name.startswith(CHANCE)]


def repository_files() -> list[Path]:
    """Return the files that git keeps or would keep."""
    try:
        listed = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("git knows no repository here, so nobody can tell which files belong to it")
    return [Path(name) for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_every_module_has_a_docstring() -> None:
    """Every module starts with a docstring."""
    assert [] == [path.as_posix() for path in MODULES if not ast.get_docstring(parse(path))]


def missing_attributes(tree: ast.Module) -> list[str]:
    """Return the attributes that docstrings of classes describe, and that the class does not have."""
    missing = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            block = re.search(r"^Attributes:\n((?: {4}.*\n?|\n)*)", ast.get_docstring(node) or "", re.MULTILINE)
            described = re.findall(r"^ {4}(\w+): ", block[1], re.MULTILINE) if block else []
            members = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
            members |= {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
            members |= {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
            missing += [f"{node.name}.{name}" for name in described if name not in members]
    return missing


def test_a_docstring_describes_attributes_that_exist() -> None:
    """Every name under `Attributes:` is a member of its class."""
    assert [] == [f"{path}: {name}" for path in MODULES for name in missing_attributes(parse(path))]
    assert ["A.gone"] == missing_attributes(
        ast.parse('class A:\n    """A.\n\n    Attributes:\n        gone: X.\n    """')
    )


def test_a_comment_names_code_that_exists() -> None:
    """A name of several words in backquotes in a comment of the package occurs in its code."""
    lines = [(path, line) for path in PACKAGED for line in (ROOT / path).read_text(encoding="utf-8").splitlines()]
    known = {name for _, line in lines for name in re.findall(r"\w+", line.partition("# ")[0])}
    quoted = [(path, name) for path, line in lines for name in BACKQUOTED.findall(line.partition("# ")[2])]
    assert [] == [f"{path}: {name}" for path, name in quoted if name not in known]


def test_every_test_states_the_behaviour() -> None:
    """Every test function has a docstring."""
    functions = [(path, node) for path in TESTS for node in ast.walk(parse(path)) if isinstance(node, ast.FunctionDef)]
    tests = [(path, node) for path, node in functions if node.name.startswith("test_")]
    assert [] == [f"{path}:{node.lineno}: {node.name}" for path, node in tests if not ast.get_docstring(node)]


def test_a_test_file_is_named_by_its_subject() -> None:
    """No test file is the second part of another one by its name."""
    assert [] == [path.as_posix() for path in MODULES if path.stem.endswith(("_more", "_rest", "_2"))]


def test_only_the_clock_module_reads_time_and_chance() -> None:
    """The present moment and random bits are read in ledger/clock.py alone."""
    uses = {path.as_posix(): impure_uses(parse(path)) for path in PACKAGED}
    assert ["ledger/clock.py"] == [path for path, found in uses.items() if found], uses


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "import time as t\nt.time_ns()",
        "from time import time as now\nnow()",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime\ndatetime.now()",
        "from random import choice\nchoice([1, 2])",
        "from os import urandom\nclass C:\n    salt = urandom(8)",
    ],
)
def test_a_disguised_clock_is_found(source: str) -> None:
    """An alias or a plain name does not hide a use of the clock."""
    assert [] != impure_uses(ast.parse(source))


def test_no_file_names_a_package_registry() -> None:
    """The repository installs from the index that the user's tools are configured for."""
    found = [
        path.as_posix()
        for path in repository_files()
        if REGISTRY_HOST.search((ROOT / path).read_text(encoding="utf-8", errors="replace"))
    ]
    assert [] == found


def test_the_visible_folders_are_the_four_of_the_design() -> None:
    """Apart from ledger, projections, prompts and tests there are only files and dot folders."""
    folders = {path.parts[0] for path in repository_files() if len(path.parts) > 1}
    assert set(FOLDERS) == {folder for folder in folders if not folder.startswith(".")}


def exceptions_made_at_import(tree: ast.Module) -> list[int]:
    """Return the lines on which a module creates an exception when it is imported, in decorators too."""
    bodies = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for statement in (node.body if isinstance(node.body, list) else [node.body])
        for inner in ast.walk(statement)
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and id(node) not in bodies]
    names = [(getattr(call.func, "id", getattr(call.func, "attr", "")), call.lineno) for call in calls]
    return [line for name, line in names if name.endswith(("Error", "Exception", "Interrupt", "Exit"))]


def test_no_exception_outlives_its_test() -> None:
    """No parameter is an exception: it would keep every frame that it passed, and their open files, to the end."""
    assert [] == [f"{path}:{line}" for path in TESTS for line in exceptions_made_at_import(parse(path))]


def test_an_exception_among_parameters_is_found() -> None:
    """A decorator and a constant are checked; an exception that a called function creates is not reported."""
    source = "A = [OSError(1)]\n@mark('x', [duck.InterruptException('y')])\ndef test():\n    raise OSError(2)\n"
    assert [1, 2] == exceptions_made_at_import(ast.parse(source))
