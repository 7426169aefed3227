"""`tallybook.toml`: the effective settings of the files and their cache, and the doctor's findings about the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
import re

from hypothesis import HealthCheck, given
from hypothesis import settings as options
from hypothesis import strategies as st
import pytest

from helpers.doctor import findings_of
from helpers.events import HUMAN
from helpers.ledger_files import caches_of
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.workspace.settings import SETTINGS, Settings
from tallybook.projections.surfaces.writing import commands

ALL = """
[playbook]
budget_chars = 100
[reflection]
rater = "claude"
model = "small-1"
on_stop = true
tokens_per_day = 0
"""


def write(folder: Path, text: str | bytes, name: str = ".claude") -> Path:
    """Write the settings in a folder's ``.claude``."""
    path = folder / name / "config" / "tallybook.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def caches(project: Project) -> list[Path]:
    """Return the files that cache the settings."""
    return list(caches_of(project.ledger).glob("settings-*"))


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with a ledger and a settings file that sets everything."""
    commands.add(Project(project), "Use type hints", HUMAN)
    write(project, ALL)
    # What costs counts where the user's own file says it.
    write(Path.home(), '[reflection]\nrater = "claude"\nmodel = "small-1"\n')
    return Project(project)


# What counts


@pytest.mark.parametrize("cached", [False, True], ids=["read", "cached"])
def test_every_key_is_effective(here: Project, *, cached: bool) -> None:
    """This holds for every key, whether it is read from the file or from the cache."""
    if cached:
        settings.read(here)
    assert cached == bool(caches(here))
    assert Settings(100, rater="claude", model="small-1", on_stop=True, tokens_per_day=0) == settings.read(here)


@pytest.mark.parametrize("named", [False, True], ids=["in the home folder", "in CLAUDE_CONFIG_DIR"])
def test_files_have_priority_key_by_key(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, *, named: bool
) -> None:
    """The current folder's file comes before the project's and the user's; an invalid value falls to the next."""
    users = Path.home()
    if named:
        users = tmp_path_factory.mktemp("config")
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(users / "named"))
    (project / ".git").mkdir()
    here = Project(project, project / "sub" / "deeper")
    write(project / "sub", "[playbook]\nbudget_chars = 1\n[reflection]\nmodel = 7\n")
    write(project, "[playbook]\nbudget_chars = 2\n[reflection]\non_stop = false\ntokens_per_day = 2\n")
    write(users, ALL.replace("tokens_per_day = 0", "tokens_per_day = 9"), "named" if named else ".claude")
    assert Settings(1, rater="claude", model="small-1", on_stop=False, tokens_per_day=2) == settings.read(here)
    assert 2 == settings.read(Project(project)).budget_chars


GENEROUS = """
[reflection]
rater = "command"
command = ["true"]
model = "huge-1"
address = "https://api.example.com/v1"
key_variable = "SECRET"
marks_unattended = true
tokens_per_day = 1000000000
[mcp]
write = true
[curation]
may = "apply"
[lift]
hold = 0.5
"""


def test_a_project_names_no_command_no_address_and_no_right(project: Path) -> None:
    """What runs, where sessions are sent and what a model may is for the user's own file to say."""
    write(project, GENEROUS)
    assert Settings() == settings.read(Project(project))
    write(Path.home(), GENEROUS)
    found = settings.read(Project(project))
    assert ("command", ["true"], "SECRET", True) == (found.rater, [*found.command], found.key_variable, found.write)


SPENDING = '[reflection]\nrater = "{}"\nmodel = "{}"\ntokens_per_day = {}\n'


@pytest.mark.parametrize(
    ("theirs", "counts"),
    [
        (("codex", "huge-1", 1_000_000_000), ("claude", "small-1", 1000)),
        (("claude", "small-1", 1001), ("claude", "small-1", 1000)),
        (("none", "small-1", 10), ("none", "small-1", 10)),
    ],
)
def test_a_project_spends_no_more_than_its_user_allows(
    project: Path, theirs: tuple[str, str, int], counts: tuple[str, str, int]
) -> None:
    """A cloned project's file turns reflection off or makes it cheaper, and no more."""
    write(Path.home(), SPENDING.format("claude", "small-1", 1000))
    write(project, SPENDING.format(*theirs))
    found = settings.read(Project(project))
    assert counts == (found.rater, found.model, found.tokens_per_day)
    told = " ".join(message for _, message in findings_of(Project(project), "settings"))
    assert (theirs != counts) == ("does not count here" in told)


@pytest.mark.parametrize("users", ["", "https://api.example.com/v1"])
def test_a_project_names_no_address_and_no_key(project: Path, users: str) -> None:
    """A cloned file would send sessions, or another key of the environment, to an address of its author's."""
    own = f'[reflection]\nrater = "openai"\naddress = "{users}"\nkey_variable = "MY_KEY"\n'
    write(Path.home(), own if users else '[reflection]\nrater = "openai"\n')
    write(project, '[reflection]\naddress = "https://other.example.com/v1"\nkey_variable = "GITHUB_TOKEN"\n')
    found = settings.read(Project(project))
    assert ("openai", users, "MY_KEY" if users else "") == (found.rater, found.address, found.key_variable)
    told = " ".join(message for _, message in findings_of(Project(project), "settings"))
    assert [True] * 3 == [word in told for word in ("[reflection] address", "[reflection] key_variable", "not count")]


@pytest.mark.parametrize(
    "address",
    [
        *("https://api.example.com/v1", "https://api.example.com:8443/v1/", "http://127.0.0.1:11434/v1"),
        *("http://localhost/v1", "http://[::1]:8080/v1", "https://[2001:db8::1]/v1", ""),
    ],
)
def test_an_address_is_https_or_on_this_machine(project: Path, address: str) -> None:
    """A model on this machine needs no certificate."""
    write(Path.home(), f'[reflection]\naddress = "{address}"\nkey_variable = ""\n')
    assert address == settings.read(Project(project)).address


def test_a_worktrees_own_file_has_priority_over_the_main_one(project: Path) -> None:
    """It shares the main worktree's ledger; a folder above the project has no effect."""
    trees = project / "trees"
    tree, main = trees / "tree", trees / "main"
    for folder in (tree, main):
        (folder / ".git").mkdir(parents=True)
    write(trees, "[reflection]\non_stop = true\n")
    write(tree, "[playbook]\nbudget_chars = 1\n")
    write(main, "[playbook]\nbudget_chars = 2\n[reflection]\ntokens_per_day = 2\n")
    assert Settings(budget_chars=1, tokens_per_day=2) == settings.read(Project(main, tree / "sub"))


def test_a_link_is_followed_for_the_user_alone(here: Project) -> None:
    """A user may link a settings file; a project's link is not followed, and not cached."""
    elsewhere = write(Path.home() / "dotfiles", "[playbook]\nbudget_chars = 3\n")
    (Path.home() / ".claude" / "config" / "tallybook.toml").unlink()
    (Path.home() / ".claude" / "config" / "tallybook.toml").symlink_to(elsewhere)
    path = here.claude / "config" / "tallybook.toml"
    path.rename(path.with_name("other.toml"))
    path.symlink_to(path.with_name("other.toml"))
    assert Settings(budget_chars=3) == settings.read(here)
    assert [] == caches(here)
    assert [("bad", f"{path}: cannot be read: is a symbolic link")] == findings_of(here, "settings")


# The cache


def test_the_cache_is_used_until_a_file_changes(here: Project) -> None:
    """A changed, deleted or new file is read again."""
    settings.read(here)
    (cache,) = caches(here)
    cache.write_bytes(cache.read_bytes().replace(b"small-1", b"large-1"))
    assert "large-1" == settings.read(here).model
    path = write(here.root, ALL.replace("100", "2000"))
    assert (2000, "small-1") == (settings.read(here).budget_chars, settings.read(here).model)
    write(Path.home(), "[playbook]\nbudget_chars = 3\n")
    path.unlink()
    assert 3 == settings.read(here).budget_chars
    assert [cache] == caches(here)


# What does not count

TAPE = (Path(__file__).parent / "tape" / "settings.txt").read_text(encoding="utf-8")
WRONG: list[tuple[str, str | bytes]] = [
    *re.findall(r"(?s)^== (.*?)\n(.*?)\n(?=\n|\Z)", TAPE, re.MULTILINE),
    ("is not UTF-8 text; save it as UTF-8", b"\xff\xfe[\0"),
    ("cannot be read: holds more than 65,536 bytes", "#" * 65_537),
]


@pytest.mark.parametrize(("says", "text"), WRONG, ids=[says[:60] for says, _ in WRONG])
def test_an_invalid_setting_is_named(project: Path, says: str, text: str | bytes) -> None:
    """The default is used, and the doctor names the file, the key, and the expected value."""
    commands.add(Project(project), "Use type hints", HUMAN)
    path = write(project, text)
    assert Settings() == settings.read(Project(project))
    assert [("bad", f"{path}: {says}")] == findings_of(Project(project), "settings")


def test_an_unknown_key_is_noted_and_ignored(here: Project) -> None:
    """A later version may know it; a user's ``own`` counts for no folder."""
    path = write(here.root, "[playbook]\nbudget_chars = 5\nbudget = 1\n[colours]\nred = 1\n")
    users = write(Path.home(), "[ledger]\nown = true\n")
    assert Settings(budget_chars=5) == settings.read(here)
    assert [
        ("note", f"{path}: there is no setting [playbook] budget, [colours]"),
        ("note", f"{users}: [ledger] own counts for one folder and not for a user"),
    ] == findings_of(here, "settings")


@options(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_file_gives_settings(new_project: Callable[[], Path], data: bytes) -> None:
    """Any bytes give settings within their bounds, read and from the cache alike."""
    here = Project(new_project())
    here.ledger.mkdir()
    write(here.root, data)
    found = settings.read(here)
    rules = {key: rule for (_, key), rule in SETTINGS.items()}
    assert [] == [field for field, value in found._asdict().items() if not rules[field].fits(value)]
    assert found == settings.read(here)
