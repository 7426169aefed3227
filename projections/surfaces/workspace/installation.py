"""How a missing package is added to the environment that Tallybook runs in, by the program that made it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from shlex import join
import sys
import tomllib
from typing import Any, Final

NAME: Final = "tallybook"
_PIPX_FILE: Final = "pipx_metadata.json"
_UV_FILE: Final = "uv-receipt.toml"
_SOURCES: Final = ("directory", "editable", "path", "url")


def install_command(package: str) -> str:
    """Return the command line that adds a package where this Tallybook is installed.

    It names the package itself: ``tallybook[EXTRA]`` can be resolved only where Tallybook came from an index.
    """
    prefix = Path(sys.prefix)
    if (prefix / _PIPX_FILE).is_file():
        return join(["pipx", "inject", prefix.name, package])
    if (prefix / _UV_FILE).is_file():
        return join(["uv", "tool", "install", *_uv_words(prefix / _UV_FILE, package)])
    if find_spec("pip") is None:
        return join(["uv", "pip", "install", "--python", sys.executable, package])
    return join([sys.executable, "-m", "pip", "install", package])


def _uv_words(receipt: Path, package: str) -> list[str]:
    """Return what names the tool as it was installed, with its other packages and one more: uv keeps no others."""
    try:
        requirements = tomllib.loads(receipt.read_text(encoding="utf-8"))["tool"]["requirements"]
        named: dict[str, dict[str, Any]] = {one["name"]: one for one in requirements}
    except (OSError, ValueError, KeyError, TypeError):
        named = {}
    own = named.pop(NAME, {})
    words = ["--editable"] if "editable" in own else []
    for name, one in named.items():
        words += ["--with", _source(name, one)]
    return [*words, "--with", package, _source(NAME, own)]


def _source(name: str, requirement: dict[str, Any]) -> str:
    """Return what uv is given for one of its requirements."""
    if isinstance(git := requirement.get("git"), str):
        return f"{name} @ git+{git}"
    found = (requirement.get(key) for key in _SOURCES)
    return next((value for value in found if isinstance(value, str)), f"{name}{requirement.get('specifier') or ''}")
