"""The reference in the documentation agrees with the tables in the code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib

from helpers.documentation import (
    COMMANDS,
    CONTRIBUTING,
    FAULTS,
    FILES,
    LEDGER,
    PAGES,
    TELEMETRY,
    VIEWS,
    first_cells,
    section,
)
from helpers.installation import package_folders
from helpers.repository import ROOT
from tallybook.ledger import errors
from tallybook.ledger.events import EVENT_TYPES
from tallybook.ledger.line import CONTINUED
from tallybook.ledger.telemetry.mapping import (
    GAUGES,
)
from tallybook.projections.comparison.conditions import COMPARED, FIELDS, STATUSES
from tallybook.projections.surfaces.workspace.settings import SETTINGS, Settings


def test_what_the_code_knows_is_in_the_reference() -> None:
    """The commands, the policies and the table of telemetry are as the code has them; `cog -r` writes them."""
    pages = [str(ROOT / page) for page, text in PAGES.items() if "[[[cog" in text]
    assert 3 == len(pages)
    words = [sys.executable, "-m", "cogapp", "--check", "-I", str(ROOT / "tests"), *pages]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr


def test_every_kind_is_in_the_reference() -> None:
    """The table of kinds lists exactly those that are written."""
    named = set(re.findall(r"`([a-z]+\.[a-z]+)`", "\n".join(first_cells(section(LEDGER, "Event kinds")))))
    assert {*EVENT_TYPES, CONTINUED} == named


def test_the_example_of_a_line_has_the_documented_fields() -> None:
    """The example is one object of JSON, whose fields are in the table after it."""
    text = section(LEDGER, "The line")
    example = re.search(r"```text\n(.*?)```", text, re.DOTALL)
    assert example is not None
    line = json.loads(example[1].replace("\u21e5", "\t"))
    fields = set(re.findall(r"`(\w+)`", "\n".join(first_cells(text))))
    assert set() == set(line) - fields
    assert {"seq", "id", "kind", "body", "chain"} < set(line)


def test_every_named_test_exists() -> None:
    """Tests that the documentation names, in its tables and in its commands, exist."""
    named = [name for page in PAGES.values() for name in re.findall(r"(test_\w+\.py)(?:::(test_\w+))?", page)]
    files = {path.name: path for path in (ROOT / "tests").rglob("test_*.py")}
    assert [] == [
        (file, test)
        for file, test in named
        if file not in files or f"def {test}" not in files[file].read_text(encoding="utf-8")
    ]
    assert 20 < len(re.findall(r"`test_\w+\.py", section(FAULTS, "The promises")))


def test_every_exit_code_is_in_the_reference() -> None:
    """The table of exit codes has every code that an error carries."""
    codes = {cls.exit_code for cls in vars(errors).values() if isinstance(cls, type) and hasattr(cls, "exit_code")}
    assert {0, *codes} == {int(cell) for cell in first_cells(section(COMMANDS, "Exit codes")) if cell.isdigit()}


def test_every_setting_is_in_the_reference() -> None:
    """The table of settings lists all of them, with their defaults."""
    text = section(FILES, "Settings")
    rows = re.findall(r"^\| `\[(\w+)\] (\w+)` \| `(.*?)` \|", text, re.MULTILINE)
    assert list(SETTINGS) == [(section_, key) for section_, key, _ in rows]
    written = tomllib.loads("\n".join(f"{key} = {value}" for _, key, value in rows))
    assert {"own": False} | json.loads(json.dumps(Settings()._asdict())) == written


def test_every_part_of_a_condition_is_in_the_reference() -> None:
    """The table of conditions has each status, field and comparison."""
    text = section(VIEWS, "Conditions")
    assert set(STATUSES) == set(re.findall(r"`(\w+)\(NAME\)`", text))
    assert set(FIELDS) == set(re.findall(r"`NAME\.(\w+)", text))
    assert set(COMPARED) == set(re.findall(r"`([<>=!]+)`", text))


def test_every_measure_is_in_the_reference() -> None:
    """The names of metrics include each measure that telemetry may carry, a pair by its measure."""
    named = set(re.findall(r"`([a-z_]+)`", section(TELEMETRY, "Names of metrics")))
    assert set() == {name for name in GAUGES if not name.endswith(("_count", "_total"))} - named


def test_every_dependency_has_its_reason() -> None:
    """The table of dependencies names what the package installs, alone and with the extras for users."""
    listed = {cell.strip("`") for cell in first_cells(section(CONTRIBUTING, "Dependencies")) if cell.startswith("`")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["objects"], *extras["postgres"]]
    assert {re.split(r"[<>=~ \[]", name)[0] for name in wanted} == listed


def test_every_folder_of_modules_is_in_the_layout() -> None:
    """The layout names each folder of the package, where it lies in the repository."""
    roots = package_folders().values()
    folders = {str(path.parent.relative_to(ROOT)) for root in roots for path in root.rglob("__init__.py")}
    listed = {cell.strip("`/") for cell in first_cells(section(CONTRIBUTING, "The layout")) if cell.startswith("`")}
    assert folders | {"tests"} == listed
