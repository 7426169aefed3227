"""The package as it is installed: the folders of the repository under the names that they have in the wheel."""

from __future__ import annotations

import atexit
from functools import cache
from pathlib import Path
import shutil
import tempfile
import tomllib

from helpers.repository import ROOT


def package_folders() -> dict[str, Path]:
    """Return package → folder in the repository, as in pyproject.toml, without subpackages."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {name: ROOT / folder for name, folder in settings["tool"]["setuptools"]["package-dir"].items()}


def lay_out(target: Path) -> Path:
    """Copy the package into a folder, like an installer, and return the folder.

    Args:
        target: A folder; what it holds of the package is replaced.
    """
    for package, folder in package_folders().items():
        place = target.joinpath(*package.split("."))
        ignored = shutil.ignore_patterns("__pycache__", *(["library"] if package == "tallybook.projections" else []))
        shutil.copytree(folder, place, ignore=ignored, dirs_exist_ok=True)
    return target


@cache
def installed() -> str:
    """Return a folder with such a copy, for processes that import only from it; this process deletes it at its end."""
    folder = tempfile.mkdtemp(prefix="tallybook-installed-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(lay_out(Path(folder)))
