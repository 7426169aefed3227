"""The import rules of the house: who may know whom, read from the sources, and what an import really loads."""

from __future__ import annotations

import ast
from pathlib import Path
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("ledger", "projections", "prompts", "tests")
MODULES = sorted(path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
# C modules of the standard library come and go with its version, and all start with an underscore.
STDLIB = {*sys.stdlib_module_names, "_sha256", "_sha2"}

STDLIB_ALONE = [
    "ledger.line",
    "ledger.errors",
    "ledger.clock",
    "ledger.caches",
    "ledger.disk",
    "ledger.rights",
    "ledger.head",
    "ledger.ends",
    "ledger.scan",
    "ledger.recover",
    "ledger.spool",
    "ledger.keys",
    "ledger.names",
    "ledger.backends.jsonl",
    "projections.surfaces.entry",
    *(".".join(path.parent.parts) for path in MODULES if path.name == "__init__.py" and path.parts[0] != "tests"),
]
"""What a hook may load: the standard library and one another, nothing that was installed."""

VIEWS_MAY = ("ledger.events", "ledger.errors", "ledger.recorded", "ledger.names", "ledger.light", "projections")


class Rule(NamedTuple):
    """One rule: whom it binds, and what it lets them import.

    Attributes:
        text: The rule as a failure names it.
        binds: Whether a module, by its dotted name, is bound by it.
        allows: Whether such a module may import another.
    """

    text: str
    binds: Callable[[str], bool]
    allows: Callable[[str], bool]


def within(name: str, *packages: str) -> bool:
    """Tell whether a dotted name is one of these packages or stands in one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def top(name: str) -> str:
    """Return the first part of a dotted name."""
    return name.partition(".")[0]


RULES = [
    Rule(
        "0: imports are absolute, so that the other rules can read them",
        lambda _: True,
        lambda name: not name.startswith("."),
    ),
    Rule(
        "1: ledger imports the standard library, attrs and itself",
        lambda module: within(module, "ledger") and module != "ledger.event_json",
        lambda name: top(name) in STDLIB or within(name, "attrs", "ledger"),
    ),
    Rule(
        "1: ledger/event_json.py adds cattrs and msgspec",
        lambda module: module == "ledger.event_json",
        lambda name: top(name) in STDLIB or within(name, "attrs", "cattrs", "msgspec", "ledger"),
    ),
    Rule(
        "2: ledger/events.py and the classes that it names import nothing else of ours",
        lambda module: within(module, "ledger.events", "ledger.kinds"),
        lambda name: not within(name, *FOLDERS) or within(name, "ledger.kinds"),
    ),
    Rule(
        "3: views import ledger.events, .errors, .recorded, .names, .light and each other",
        lambda module: within(module, "projections") and not within(module, "projections.surfaces"),
        lambda name: not within(name, *FOLDERS) or within(name, *VIEWS_MAY),
    ),
    Rule(
        "4: only projections/surfaces opens logs",
        lambda module: not within(module, "ledger", "projections.surfaces") and not module.startswith("tests."),
        lambda name: not within(name, "ledger.log", "ledger.backends"),
    ),
    Rule(
        "5: nobody but surfaces and tests imports surfaces",
        lambda module: not within(module, "projections.surfaces") and not module.startswith("tests."),
        lambda name: not within(name, "projections.surfaces"),
    ),
]


def dotted(path: Path) -> str:
    """Return the dotted name of a module; a package goes by its folder."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of everything that a source imports, for the type checker or for running.

    ``from ledger import log`` imports ``ledger.log`` as far as the rules care, and ``ledger`` with it.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


def violations(path: Path, source: str) -> list[str]:
    """Return every import of a source that breaks a rule, as ``file:line: rule (import)``."""
    bound = [rule for rule in RULES if rule.binds(dotted(path))]
    return [
        f"{path.as_posix()}:{line}: {rule.text} (imports {name})"
        for line, name in imports(source)
        for rule in bound
        if not rule.allows(name)
    ]


@pytest.mark.parametrize("path", MODULES, ids=Path.as_posix)
def test_a_module_imports_only_what_the_house_lets_it(path: Path) -> None:
    """No import of any module breaks a rule."""
    assert [] == violations(path, (ROOT / path).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("path", "source", "rule"),
    [
        ("projections/fold.py", "from . import surfaces", "0"),
        ("ledger/line.py", "import click", "1"),
        ("ledger/line.py", "import orjson", "1"),
        ("ledger/codec.py", "import cattrs", "1"),
        ("ledger/event_json.py", "from rich import print", "1"),
        ("ledger/events.py", "from ledger.line import Draft", "2"),
        ("projections/audit.py", "if TYPE_CHECKING:\n    from ledger.codec import decode", "3"),
        ("projections/__init__.py", "from projections import surfaces", "5"),
        ("projections/scores/trends.py", "import ledger.line", "3"),
        ("prompts/__init__.py", "from ledger import log", "4"),
    ],
)
def test_a_forbidden_import_is_named_with_file_line_and_rule(path: str, source: str, rule: str) -> None:
    """Each rule catches a source that breaks it."""
    line = source.count("\n") + 1
    found = violations(Path(path), source)
    assert [True] == [violation.startswith(f"{path}:{line}: {rule}: ") for violation in found], found


PROBE = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
importlib.import_module(sys.argv[2])
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""


@pytest.mark.parametrize("module", STDLIB_ALONE)
def test_what_a_hook_may_load_loads_the_standard_library_alone(module: str) -> None:
    """Importing it in a fresh process leaves nothing that was installed in sys.modules."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROBE, str(ROOT), module], capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert set() == set(done.stdout.split()) - STDLIB - set(FOLDERS)
