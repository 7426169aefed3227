"""The command that adds a missing package, for each way in which Tallybook can be installed."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tallybook.projections.surfaces.workspace import installation
from tallybook.projections.surfaces.workspace.installation import install_command, tool_command

if TYPE_CHECKING:
    from pathlib import Path


def test_pip_adds_it_to_this_environment() -> None:
    """By this interpreter, whatever `pip` on PATH belongs to; it is one that pip takes."""
    words = shlex.split(install_command("duckdb"))
    assert [sys.executable, "-m", "pip", "install", "duckdb"] == words
    tried = [*words[:-1], "--dry-run", "--no-index", "attrs"]
    assert 0 == subprocess.run(tried, capture_output=True, check=False).returncode


def test_uv_adds_it_where_there_is_no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an environment that uv made."""
    monkeypatch.setattr(installation, "find_spec", lambda _: None)
    assert f"uv pip install --python {shlex.quote(sys.executable)} duckdb" == install_command("duckdb")


def test_pipx_injects_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into its environment of this name, which a suffix may have made another."""
    (tmp_path / "tallybook-2").mkdir()
    (tmp_path / "tallybook-2" / "pipx_metadata.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "tallybook-2"))
    assert "pipx inject tallybook-2 duckdb" == install_command("duckdb")


@pytest.mark.parametrize(
    ("requirements", "words"),
    [
        ('[{ name = "tallybook" }]', "--with duckdb tallybook"),
        ('[{ name = "tallybook", specifier = ">=0.1" }]', "--with duckdb 'tallybook>=0.1'"),
        ('[{ name = "tallybook", directory = "/a b" }]', "--with duckdb '/a b'"),
        ('[{ name = "tallybook", editable = "/src" }]', "--editable --with duckdb /src"),
        ('[{ name = "tallybook", path = "/t.whl" }]', "--with duckdb /t.whl"),
        (
            '[{ name = "tallybook", git = "https://host.example/t" }]',
            "--with duckdb 'tallybook @ git+https://host.example/t'",
        ),
        (
            '[{ name = "tallybook", directory = "/src" }, { name = "anthropic", specifier = ">=0.60" }]',
            "--with 'anthropic>=0.60' --with duckdb /src",
        ),
        (
            '[{ name = "tallybook", git = "https://host.example/t?subdirectory=a%2Fb&rev=v1" }]',
            "--with duckdb 'tallybook @ git+https://host.example/t@v1#subdirectory=a/b'",
        ),
        (
            '[{ name = "tallybook", extras = ["anthropic", "x"], git = "https://host.example/t?rev=main" }]',
            "--with duckdb 'tallybook[anthropic,x] @ git+https://host.example/t@main'",
        ),
        (
            '[{ name = "tallybook", extras = ["anthropic"], specifier = ">=0.1" }]',
            "--with duckdb 'tallybook[anthropic]>=0.1'",
        ),
        (
            '[{ name = "tallybook", extras = ["anthropic"], editable = "/src" }]',
            "--editable --with duckdb '/src[anthropic]'",
        ),
        ('[{ name = "tallybook", url = "https://host.example/t.whl" }]', "--with duckdb https://host.example/t.whl"),
        (
            '[{ name = "tallybook", extras = ["anthropic"], url = "https://host.example/t.whl" }]',
            "--with duckdb 'tallybook[anthropic] @ https://host.example/t.whl'",
        ),
        ("7", "--with duckdb tallybook"),
    ],
)
def test_uv_installs_the_tool_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requirements: str, words: str
) -> None:
    """From where it came, at the same revision, with its extras and with what else it was installed with."""
    (tmp_path / "uv-receipt.toml").write_text(f"[tool]\nrequirements = {requirements}\n", encoding="utf-8")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert f"uv tool install {words}" == install_command("duckdb")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (None, "uv tool install tallybook"),
        ({"url": "file:///a%20b/tallybook", "dir_info": {"editable": True}}, "uv tool install '/a b/tallybook'"),
        ({"url": "https://h.example/t.whl", "archive_info": {}}, "uv tool install https://h.example/t.whl"),
        ({"url": "https://h.example/t", "vcs_info": {"vcs": "git"}}, "uv tool install git+https://h.example/t"),
    ],
    ids=["an index", "a folder", "an address", "git"],
)
def test_the_tool_is_installed_from_where_this_one_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, Any] | None, expected: str
) -> None:
    """The command that puts Tallybook on PATH names the folder, address or index that this Tallybook came from."""
    folder = tmp_path / "tallybook-0.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: tallybook\nVersion: 0.1\n", encoding="utf-8")
    if source is not None:
        (folder / "direct_url.json").write_text(json.dumps(source), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert expected == tool_command()
