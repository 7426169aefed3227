"""The rules of the house that no linter checks: what imports what, and which files there are."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from itertools import starmap
from pathlib import Path
import subprocess
import sys
from typing import NamedTuple

import pytest

from helpers.commands import ROOT

FOLDERS = ("ledger", "projections", "prompts")
MODULES = sorted(path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
# C modules of the standard library come and go with its version, and all start with an underscore.
STDLIB = {*sys.stdlib_module_names, "_sha256", "_sha2"}

LIBRARY = ("projections", "surfaces", "library")
"""Where the modules directly in `tallybook` lie."""


def find_dotted_name(path: Path) -> str:
    """Return the dotted name under which a module is installed; a package has the name of its folder."""
    parts = path.with_suffix("").parts
    if parts[: len(LIBRARY)] == LIBRARY:
        parts = ("tallybook", *parts[len(LIBRARY) :])
    elif parts[0] != "tests":
        parts = ("tallybook", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


STDLIB_ALONE = [
    *(f"tallybook.ledger.{name}" for name in ("line", "errors", "clock", "search", "scan", "damage", "names", "log")),
    *(f"tallybook.ledger.storage.{name}" for name in ("caches", "disk", "head", "spool")),
    "tallybook.ledger.playbook_constants",
    "tallybook.__main__",
    "tallybook.hook",
    *(find_dotted_name(path) for path in MODULES if path.name == "__init__.py" and path.parts[0] != "tests"),
]
"""What a hook may load: the standard library and one another, nothing that was installed."""

CLIENTS = {
    "tallybook.ledger.codec": ("cattrs", "msgspec"),
    "tallybook.ledger.sharing.objects": ("obstore",),
    "tallybook.ledger.sharing.postgres": ("psycopg",),
}
"""Module of the ledger → what it imports besides; that of an engine is loaded only where a book needs it."""

VIEWS_MAY = (
    *(f"tallybook.ledger.{name}" for name in ("events", "errors", "records", "names", "fast_stdlib")),
    "tallybook.ledger.playbook_constants",
    "tallybook.projections",
)

PLAYBOOK_TYPE = "tallybook.projections.playbook.view.Playbook"


class ImportRule(NamedTuple):
    """A rule: the modules that it binds, and the imports that it allows them.

    Attributes:
        text: The rule as a failure names it.
        binds: Whether a module, by its dotted name, is bound by it.
        allows: Whether such a module may import another.
    """

    text: str
    binds: Callable[[str], bool]
    allows: Callable[[str], bool]


SHELL = (
    "tallybook.projections.surfaces",
    *(f"tallybook.{path.stem}" for path in sorted((ROOT / "projections" / "surfaces" / "library").glob("*.py"))),
)
"""The packages and modules of the shell: the folder `library` is `tallybook` itself."""


def is_within(name: str, *packages: str) -> bool:
    """Return whether a dotted name is one of these packages or inside one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def top(name: str) -> str:
    """Return the first part of a dotted name."""
    return name.partition(".")[0]


def client_rule(module: str, clients: Sequence[str]) -> ImportRule:
    """Return the rule of a module of the ledger that may import more than the others."""
    return ImportRule(
        f"1: {module.removeprefix('tallybook.').replace('.', '/')}.py adds {' and '.join(clients)}",
        lambda name: name == module,
        lambda name: top(name) in STDLIB or is_within(name, "attrs", *clients, "tallybook.ledger"),
    )


RULES = [
    ImportRule(
        "1: ledger imports the standard library, attrs and itself",
        lambda module: is_within(module, "tallybook.ledger") and module not in CLIENTS,
        # Decisions are made on the playbook itself, of which they import the type alone.
        lambda name: top(name) in STDLIB or is_within(name, "attrs", "tallybook.ledger", PLAYBOOK_TYPE),
    ),
    *starmap(client_rule, CLIENTS.items()),
    ImportRule(
        "2: ledger/events.py imports nothing else of ours but constants",
        lambda module: is_within(module, "tallybook.ledger.events"),
        lambda name: (
            not is_within(name, "tallybook", "tests") or is_within(name, "tallybook.ledger.playbook_constants")
        ),
    ),
    ImportRule(
        "3: views import the names and tables of the ledger, and each other",
        lambda module: (
            is_within(module, "tallybook.projections") and not is_within(module, "tallybook.projections.surfaces")
        ),
        lambda name: not is_within(name, "tallybook", "tests") or is_within(name, *VIEWS_MAY),
    ),
    ImportRule(
        "4: only projections/surfaces opens logs",
        lambda module: not is_within(module, "tallybook.ledger", *SHELL),
        lambda name: not is_within(name, "tallybook.ledger.log"),
    ),
    ImportRule(
        "5: nobody but surfaces and tests imports surfaces",
        # The package itself names where the library's names are, for type checkers alone.
        lambda module: module != "tallybook" and not is_within(module, *SHELL),
        lambda name: not is_within(name, *SHELL),
    ),
]


def imports(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of everything that a source imports, for the type checker or for running.

    ``from tallybook.ledger import log`` imports ``tallybook.ledger.log`` as far as the rules care. Ruff refuses
    relative imports, and the folders by their bare names.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def violations(path: Path, source: str) -> list[str]:
    """Return every import of a source that breaks a rule, as ``file:line: rule (import)``."""
    bound = [rule for rule in RULES if rule.binds(find_dotted_name(path))]
    return [
        f"{path.as_posix()}:{line}: {rule.text} (imports {name})"
        for line, name in imports(source)
        for rule in bound
        if not rule.allows(name)
    ]


def test_no_import_breaks_a_rule() -> None:
    """No import of any module breaks a rule; a failure names file, line and rule."""
    assert [] == [
        violation for path in MODULES for violation in violations(path, (ROOT / path).read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(
    ("path", "source", "rule"),
    [
        ("ledger/line.py", "import click", "1"),
        ("ledger/records.py", "import cattrs", "1"),
        ("ledger/sharing/memory.py", "import psycopg", "1"),
        ("ledger/events.py", "from tallybook.ledger.line import Draft", "2"),
        (
            "projections/history/entry_history.py",
            "if TYPE_CHECKING:\n    from tallybook.ledger.codec import decode",
            "3",
        ),
        ("projections/__init__.py", "from tallybook.projections import surfaces", "5"),
        ("prompts/__init__.py", "from tallybook.ledger import log", "4"),
    ],
)
def test_a_forbidden_import_is_named_with_file_line_and_rule(path: str, source: str, rule: str) -> None:
    """Each rule catches a source that breaks it."""
    line = source.count("\n") + 1
    found = violations(Path(path), source)
    assert [True] == [violation.startswith(f"{path}:{line}: {rule}: ") for violation in found], found


PROBE = """
import importlib, sys
before = set(sys.modules)
for module in sys.argv[1:]:
    importlib.import_module(module)
    print(module, *sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
    before = set(sys.modules)
"""


def test_what_a_hook_may_load_loads_the_standard_library_alone() -> None:
    """Importing all of it in a fresh process loads nothing that was installed; a failure names the first importer."""
    command = [sys.executable, "-I", "-c", PROBE, *STDLIB_ALONE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    loaded = {module: {*names} - STDLIB - {"tallybook"} for module, *names in map(str.split, done.stdout.splitlines())}
    assert {module: set() for module in STDLIB_ALONE} == loaded


VISIBLE_FOLDERS = ("ledger", "projections", "prompts", "tests")

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


def test_no_file_names_a_package_registry() -> None:
    """The repository installs from the index that the user's tools are configured for."""
    command = ["git", "-C", str(ROOT), "grep", "--untracked", "-liE", REGISTRY_HOST]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (1, "") == (done.returncode, done.stdout)


def test_the_visible_folders_are_the_four_of_the_design() -> None:
    """Apart from ledger, projections, prompts and tests there are only files and dot folders."""
    folders = {path.parts[0] for path in repository_files() if len(path.parts) > 1}
    assert set(VISIBLE_FOLDERS) == {folder for folder in folders if not folder.startswith(".")}


def test_each_class_has_a_name_of_its_own() -> None:
    """No two modules of the product or of the tests define a class of the same name."""
    places: dict[str, list[str]] = {}
    for path in (*MODULES, *(file.relative_to(ROOT) for file in sorted((ROOT / "tests").rglob("*.py")))):
        for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path))
    assert {} == {name: paths for name, paths in places.items() if len(paths) > 1}
