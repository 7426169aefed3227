"""How a missing package is added to the environment that Tallybook runs in, and Tallybook itself to PATH."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
import json
from pathlib import Path
from shlex import join
import sys
import tomllib
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

NAME: Final = "tallybook"
_PIPX_FILE: Final = "pipx_metadata.json"
_UV_FILE: Final = "uv-receipt.toml"
_PATHS: Final = ("directory", "editable", "path")


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


def tool_command() -> str:
    """Return the command line that puts this Tallybook on PATH for every shell, whichever environment is active."""
    try:
        # An installer leaves this file where the package came from an address or a folder, not from an index.
        source = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        source = {}
    url = str(source.get("url", NAME))
    place = f"git+{url}" if "vcs_info" in source else unquote(url.removeprefix("file://"))
    return join(["uv", "tool", "install", place])


def _uv_words(receipt: Path, package: str) -> list[str]:
    """Return what names the tool as it was installed, with its other packages and one more: uv keeps no others."""
    try:
        requirements = tomllib.loads(receipt.read_text(encoding="utf-8"))["tool"]["requirements"]
        named: dict[str, dict[str, Any]] = {requirement["name"]: requirement for requirement in requirements}
    except (OSError, ValueError, KeyError, TypeError):
        named = {}
    own = named.pop(NAME, {})
    words = ["--editable"] if "editable" in own else []
    for name, one in named.items():
        words += ["--with", _source(name, one)]
    return [*words, "--with", package, _source(NAME, own)]


def _source(name: str, requirement: dict[str, Any]) -> str:
    """Return what uv is given for one of its requirements, with its extras: uv removes the packages of the others."""
    extras = f"[{','.join(named)}]" if (named := requirement.get("extras")) else ""
    if isinstance(git := requirement.get("git"), str):
        # uv keeps the revision and the folder in the address's query, and takes them in the places that pip has.
        address, _, query = git.partition("?")
        fields = dict(parse_qsl(query))
        revision = f"@{fields['rev']}" if "rev" in fields else ""
        folder = f"#subdirectory={fields['subdirectory']}" if "subdirectory" in fields else ""
        return f"{name}{extras} @ git+{address}{revision}{folder}"
    if isinstance(url := requirement.get("url"), str):
        return f"{name}{extras} @ {url}" if extras else url
    paths = (value for key in _PATHS if isinstance(value := requirement.get(key), str))
    return next((f"{path}{extras}" for path in paths), f"{name}{extras}{requirement.get('specifier') or ''}")
