"""Fixtures for every test: a project of its own, its playbook file, its diagnostics, and a ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import io
import json
import os
from pathlib import Path
import signal
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from hypothesis import settings
import pytest

from helpers.azure_server import Containers
from helpers.browser import chromium
from helpers.commands import CommandResult, Run, lay_out, run_here
from helpers.git_repositories import make_remote
from helpers.postgres_server import Database
from helpers.s3_server import Buckets
from helpers.shared_machines import Team, make_team
from helpers.sweep import slice_of
from helpers.transcripts import ScriptedClient, client_in
import tallybook
from tallybook.ledger.line import Draft
from tallybook.ledger.log import JsonlLog
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Under `git bisect` and in hooks of git, tests would work on the repository that these variables name.
for _variable in [name for name in os.environ if name.startswith("GIT_")]:
    del os.environ[_variable]

# A deadline would make a slow disk a failure; in CI every run tries the same examples.
settings.register_profile(
    "tallybook", max_examples=slice_of(100, 40), deadline=None, derandomize=bool(os.environ.get("CI")), print_blob=True
)
settings.load_profile("tallybook")


def _enter_home(patch: pytest.MonkeyPatch, home: Path) -> None:
    patch.setenv("HOME", str(home))
    patch.setenv("USERPROFILE", str(home))
    # Caches belong into that home, too.
    patch.delenv("XDG_CACHE_HOME", raising=False)
    patch.delenv("TALLYBOOK_CACHE_DIR", raising=False)


@pytest.fixture(scope="session", autouse=True)
def _empty_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep every test away from the home and the project of the user who runs it."""
    with pytest.MonkeyPatch.context() as patch:
        _enter_home(patch, tmp_path_factory.mktemp("nobodys_home"))
        patch.delenv("CLAUDE_PROJECT_DIR", raising=False)
        for row in table.AGENTS.values():
            for name in (row.session_variable, *row.variables, row.home[0], *row.shell_variables):
                patch.delenv(name, raising=False)
        patch.setenv("TZ", "UTC")
        if hasattr(time, "tzset"):
            time.tzset()
        yield


@pytest.fixture(scope="session", autouse=True)
def _heed_interrupts() -> None:
    """Let Ctrl-C and the end of a terminal end what a test starts: ``nohup`` and many CI runners have them ignored."""
    for name, usual in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return Chromium, started once for a module of tests; they are skipped where it is missing."""
    with chromium() as running:
        yield running


@pytest.fixture
def project(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the project folder, which holds an empty ``.claude``; the home folder is another, and empty."""
    _enter_home(monkeypatch, tmp_path_factory.mktemp("home"))
    (tmp_path / ".claude").mkdir()
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def here(project: Path) -> Project:
    """Return the project, which has no ledger."""
    return Project(project)


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """Return a new bare repository, as a server has it."""
    return make_remote(tmp_path / "remote.git")


@pytest.fixture(scope="session")
def installed_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that holds the package as an installer leaves it; the tests import it from the clone."""
    return lay_out(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="session")
def azure_container() -> Iterator[Containers]:
    """Return the emulated Azure of the session."""
    from helpers.azure_server import serve_containers  # noqa: PLC0415 - as below

    yield from serve_containers()


@pytest.fixture(scope="session")
def s3_bucket() -> Iterator[Buckets]:
    """Return an emulated S3 on loopback."""
    from helpers.s3_server import serve_buckets  # noqa: PLC0415 - as below

    yield from serve_buckets()


@pytest.fixture(scope="session")
def postgres_database() -> Iterator[Database]:
    """Return a database with the tables of books, on a PostgreSQL of this session."""
    # Loaded only where a test needs the server.
    from helpers.postgres_server import NoServerError, start_database  # noqa: PLC0415 - as above

    try:
        with start_database() as database:
            yield database
    except NoServerError as error:
        pytest.skip(str(error))


@pytest.fixture
def _installed(installed_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``init`` write the command line of an installed package."""
    monkeypatch.setattr(tallybook, "__file__", str(installed_in / "tallybook" / "__init__.py"))


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the command line in this process."""

    def run_(*arguments: str, stdin: bytes = b"") -> CommandResult:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        code = run_here(list(arguments))
        return CommandResult(code, *capfd.readouterr())

    return run_


@pytest.fixture
def new_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Return a function that makes another project, for each example of a property, and moves CLAUDE_PROJECT_DIR."""

    def make() -> Path:
        folder = Path(tempfile.mkdtemp(prefix="project-", dir=project))
        (folder / ".claude").mkdir()
        monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(folder))
        return folder

    return make


def _playbook_of(project: Path) -> Path:
    # The project of now, which may be a later one than the test began with.
    return Path(os.environ.get("CLAUDE_PROJECT_DIR", project)) / ".claude" / "playbook.json"


@pytest.fixture
def write_playbook(project: Path) -> Callable[[object], Path]:
    """Return a function that writes a document as JSON, or bytes unchanged, to the project's playbook.json."""

    def write(doc: object) -> Path:
        path = _playbook_of(project)
        path.write_bytes(doc if isinstance(doc, bytes) else json.dumps(doc).encode())
        return path

    return write


@pytest.fixture
def read_playbook(project: Path) -> Callable[[], dict[str, Any]]:
    """Return a function that reads the project's playbook.json from the disk."""

    def read() -> dict[str, Any]:
        doc: dict[str, Any] = json.loads(_playbook_of(project).read_bytes())
        return doc

    return read


@pytest.fixture
def team(request: pytest.FixtureRequest, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Team:
    """Return machines that can share a book, in memory or through the engine of the parameter."""
    return make_team(getattr(request, "param", "memory"), tmp_path, run, monkeypatch)


@pytest.fixture
def duo(team: Team) -> Team:
    """Return two machines that share a book, each with an entry."""
    for machine, text in (("anna", "Run the tests first"), ("ben", "Write short commits")):
        team.run(machine, "add", text)
        team.share(machine)
    team.sync("anna")
    return team


@pytest.fixture
def client(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> ScriptedClient:
    """Return a stand-in for the agent's client, found before any other."""
    made = client_in(tmp_path_factory.mktemp("bin"))
    monkeypatch.setenv("PATH", f"{made.folder}{os.pathsep}{os.environ['PATH']}")
    return made


@pytest.fixture
def diagnostic_mode(project: Path) -> None:
    """Switch the project's diagnostic mode on."""
    (project / ".claude" / "diagnostic_mode").touch()


@pytest.fixture
def diagnostics(project: Path) -> Callable[[str], list[str]]:
    """Return a function that lists the contents of the project's diagnostic files ``*_NAME.txt``, by file name."""

    def read(name: str) -> list[str]:
        found = sorted((project / ".claude" / "diagnostic").glob(f"*_{name}.txt"))
        return [path.read_text(encoding="utf-8") for path in found]

    return read


@pytest.fixture
def log(tmp_path: Path) -> Iterator[JsonlLog]:
    """Return a ledger that holds one acknowledged rating, and whose files stay open."""
    opened = JsonlLog(tmp_path / "ledger")
    with opened.transaction() as tx:
        tx.append([Draft("point.rated", 1, {"name": "first", "rating": "helpful"})], {"rater": "test"})
    yield opened
    opened.close()
