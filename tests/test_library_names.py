"""The Python library: its page is run, and its names are loaded when they are first used."""

from __future__ import annotations

import ast
import contextlib
from importlib import import_module
import io
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from helpers.installation import installed
from helpers.repository import ROOT
import tallybook

if TYPE_CHECKING:
    from pathlib import Path

LIBRARY = ROOT / "projections" / "surfaces" / "library"
EXAMPLES: list[str] = re.findall(r"```python\n(.*?)```", (LIBRARY / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def typed_names() -> dict[str, str]:
    """Return name → module, as `tallybook/__init__.py` imports them for a type checker."""
    tree = ast.parse((LIBRARY / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module != "importlib"]
    return {name.name: node.module or "" for node in imports for name in node.names}


def test_the_examples_of_the_page_print_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each example runs after the others, and prints the lines in its comments."""
    (tmp_path / "my-project").mkdir()
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for example in EXAMPLES:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example, "README.md", "exec"), names)  # noqa: S102 - the page is what is tested
        assert re.findall(r"^# (.*)$", example, re.MULTILINE) == printed.getvalue().splitlines(), example


def test_the_page_is_short() -> None:
    """The page can be read in five minutes."""
    assert len((LIBRARY / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_importing_the_package_loads_nothing_else() -> None:
    """Every hook imports `tallybook`, which loads no other module, be it attrs, msgspec, click or its own."""
    code = "import sys; before = set(sys.modules); import tallybook; print(sorted(set(sys.modules) - before))"
    environment = os.environ | {"PYTHONPATH": installed()}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "['tallybook']\n" == done.stdout


def test_each_name_is_what_a_type_checker_sees() -> None:
    """A name of the library is that of the module from which `__init__` imports it for type checkers."""
    names = typed_names()
    assert names == tallybook._HOMES
    for name, module in names.items():
        assert getattr(import_module(module), name) is getattr(tallybook, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Python asks the package for each submodule first, so it refuses other names like any module."""
    with pytest.raises(AttributeError, match="module 'tallybook' has no attribute 'nonsense'"):
        getattr(tallybook, "nonsense")  # noqa: B009 - a type checker knows that it is not there


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    """`open` takes an existing folder only, and the error names the given one."""
    with pytest.raises(tallybook.BadInputError, match="nowhere"):
        tallybook.open(tmp_path / "nowhere")


def test_a_story_of_an_unknown_entry_is_an_error(tmp_path: Path) -> None:
    """`why` raises if no entry ever had the name or the words."""
    ledger = tallybook.open(tmp_path)
    ledger.add("Write tests")
    with pytest.raises(tallybook.UnknownEntryError):
        ledger.why("kpt_009")


def test_a_ledger_leaves_no_file_open(tmp_path: Path) -> None:
    """After any number of calls a process has as many open files as before."""
    ledger = tallybook.open(tmp_path)
    ledger.add("Write tests")
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208 - a list of numbers, not of paths
    for _ in range(3):
        ledger.rate("kpt_001", "helpful")
        assert [1] == [len(ledger.entries())]
        assert ledger.why("kpt_001")["name"] == "kpt_001"
        list(ledger.events())
        ledger.fold(tallybook.View(tallybook.State, {}), at=3)
    assert before == len(os.listdir("/dev/fd"))  # noqa: PTH208
