"""The rules of the house that no linter checks: the repository's files, and docstrings that name what exists."""

from __future__ import annotations

import ast
from pathlib import Path
import re
import subprocess

import pytest

from helpers.repository import ROOT

FOLDERS = ("ledger", "projections", "prompts", "tests")

# Written so that this file does not name what it looks for.
REGISTRY_HOST = r"p[y]pi\.org|python[h]osted\.org|registry\.n[p]mjs|deb\.d[e]bian\.|proxy\.g[o]lang"


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
    """Every name under `Attributes:` in the package is a member of its class."""
    sources = {path: (ROOT / path).read_text() for folder in FOLDERS[:3] for path in (ROOT / folder).rglob("*.py")}
    missing = [
        f"{path}: {name}"
        for path, source in sources.items()
        if "Attributes:" in source
        for name in missing_attributes(ast.parse(source))
    ]
    assert [] == missing
    assert ["A.gone"] == missing_attributes(
        ast.parse('class A:\n    """A.\n\n    Attributes:\n        gone: X.\n    """')
    )


def test_no_file_names_a_package_registry() -> None:
    """The repository installs from the index that the user's tools are configured for."""
    command = ["git", "-C", str(ROOT), "grep", "--untracked", "-liE", REGISTRY_HOST]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (1, "") == (done.returncode, done.stdout)


def test_the_visible_folders_are_the_four_of_the_design() -> None:
    """Apart from ledger, projections, prompts and tests there are only files and dot folders."""
    folders = {path.parts[0] for path in repository_files() if len(path.parts) > 1}
    assert set(FOLDERS) == {folder for folder in folders if not folder.startswith(".")}
