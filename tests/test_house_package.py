"""What is installed: one package, whose list of folders agrees with the tree and with the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING
import zipfile

import pytest

from installed import ROOT, package_folders

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
MINE = "print('my own')\n"
FOLDERS = ("ledger", "projections", "prompts")


def in_tree() -> dict[str, Path]:
    """Return the installed name of every file of the package → its path in the repository."""
    files: dict[str, Path] = {}
    # The longest package first: the library lies in a folder of another package.
    for package, folder in sorted(package_folders().items(), key=lambda row: -len(row[1].parts)):
        for path in folder.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path not in files.values():
                files["/".join([*package.split("."), *path.relative_to(folder).parts])] = path
    return files


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel, built in a copy so that the clone gets no folders of a build."""
    copy = tmp_path_factory.mktemp("clone")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(copy / "dist"), str(copy)]
    subprocess.run(command, check=True, capture_output=True)
    [built] = (copy / "dist").glob("*.whl")
    return built


def test_every_folder_of_modules_is_listed() -> None:
    """Setuptools ships the packages that pyproject.toml names and no others."""
    packages = {name.rpartition("/")[0].replace("/", ".") for name in in_tree() if name.endswith("/__init__.py")}
    assert sorted(packages) == sorted(SETTINGS["packages"])


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """Each file of the tree is there under its installed name, and no file beside the package."""
    names = zipfile.ZipFile(wheel).namelist()
    shipped = {name for name in names if ".dist-info/" not in name}
    assert {name for name in in_tree() if not name.endswith("README.md")} == shipped


def test_folders_of_a_project_with_the_same_names_do_not_collide(tmp_path: Path, wheel: Path) -> None:
    """A project with its own ledger/, projections/ and prompts/ on PYTHONPATH runs every verb, and imports both."""
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    project = tmp_path / "project"
    (project / ".claude").mkdir(parents=True)
    for name in FOLDERS:
        (project / name).mkdir()
        (project / name / "__init__.py").write_text(MINE)
    environment = os.environ | {"PYTHONPATH": f".{os.pathsep}{site}", "CLAUDE_PROJECT_DIR": str(project)}

    def python(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=project,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    for words, stdin in (
        (["add", "Write tests"], ""),
        (["rate", "kpt_001", "helpful"], ""),
        (["record", "-"], '{"new_key_points": ["Commit small steps"], "evaluations": []}'),
        (["show"], ""),
        (["why", "kpt_001"], ""),
        (["log"], ""),
        (["verify"], ""),
        (["replay", "--check"], ""),
        (["hook"], '{"hook_event_name": "SessionStart", "session_id": "s1"}'),
        (["hook"], '{"hook_event_name": "Stop", "session_id": "s1", "last_assistant_message": "[kpt_001]"}'),
        (["score"], ""),
        (["doctor"], ""),
    ):
        done = python("-m", "tallybook", *words, stdin=stdin)
        assert (0, False) == (done.returncode, "my own" in done.stdout), (words, done)
    both = python(
        "-c", "import ledger, tallybook.ledger.events as e, projections, prompts; print(e.PointRated.__name__)"
    )
    assert (0, "my own\nmy own\nmy own\nPointRated\n") == (both.returncode, both.stdout), both.stderr
    prompt = python("-c", "from tallybook import compat; print(compat.format_playbook(compat.load_playbook()))")
    assert "Write tests" in prompt.stdout, prompt.stderr
