"""The installed package: its list of folders agrees with the tree and with the wheel."""

from __future__ import annotations

import json
import os
from pathlib import Path
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile

import click
import pytest

from helpers.commands import ROOT, package_folders
from tallybook.projections.surfaces.cli.main import tallybook as command_line

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
MINE = "print('my own')\n"
FOLDERS = ("ledger", "projections", "prompts")


def list_tree() -> dict[str, Path]:
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
    """Return a wheel, built in a copy so that the clone gets no build folders."""
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
    packages = {name.rpartition("/")[0].replace("/", ".") for name in list_tree() if name.endswith("/__init__.py")}
    assert sorted(packages) == sorted(SETTINGS["packages"])


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """Each file is there under its installed name, and no other; pages, their pictures and plugins are not."""
    names = zipfile.ZipFile(wheel).namelist()
    shipped = {name for name in names if ".dist-info/" not in name}
    not_shipped = ("/page/pictures/", "/prompts/plugin/", "/prompts/extension/")
    in_package = {name for name in list_tree() if not any(part in name for part in not_shipped)}
    assert {name for name in in_package if not name.endswith(".md") or "/prompts/" in name} == shipped


VERBS = """
import sys

import ledger, projections, prompts
from tallybook.projections.surfaces.cli.main import run

for line in sys.stdin:
    print(line.strip(), "->", run(line.split()), file=sys.stderr)
"""
"""Imports the folders of a project, then runs the verb in each line of standard input and prints its exit code."""

LINES = """
init; import legacy.json; add Write-tests; record extraction.json; rate kpt_001 helpful; show; why kpt_001; log;
show --last-change; show --gone; review --list needs-ratings; verify; replay --check; check; bisect count>1; diff 4;
what-if --policy final; sql SELECT+1; page; pin kpt_001; pin --off kpt_001; reword kpt_001 Write-tests-first;
move kpt_001 mistakes; merge kpt_001 kpt_004; review --list duplicates; retire kpt_002; restore kpt_002; undo;
redact --text Old-words --reason typo --yes --expect 1; share git ./remote.git --book demo --yes; sync; proposals;
show --as-agent --for tests; export agents-md; proposals accept --help; proposals reject --help; review; lift;
promote --help; demote --help; score record --session s1 --component ac01 startup_ms=8000; score;
score baseline ac01 --value 50; score gate; reflect; doctor; uninstall; hook --help; mcp --help; completion bash
"""
"""Every verb, for a project that has the files which are named."""

EVENTS = ("SessionStart", "PostToolUse", "Stop", "SessionEnd")


@pytest.fixture
def colliding(tmp_path: Path, wheel: Path) -> tuple[Path, dict[str, str]]:
    """Return a project that has its own folders of the repository's names, and the environment to use it in.

    There the wheel is installed, and PYTHONPATH begins with the project.
    """
    site, project = tmp_path / "site", tmp_path / "project"
    zipfile.ZipFile(wheel).extractall(site)
    (project / ".claude").mkdir(parents=True)
    for name in FOLDERS:
        (project / name).mkdir()
        (project / name / "__init__.py").write_text(MINE)
    paths = {"PYTHONPATH": f".{os.pathsep}{site}", "CLAUDE_PROJECT_DIR": str(project), "HOME": str(tmp_path)}
    return project, os.environ | paths


def python(place: tuple[Path, dict[str, str]], words: list[str], given: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a project, with arguments and standard input."""
    project, environment = place
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=project, env=environment, input=given, capture_output=True, text=True, check=False
    )


def test_every_verb_runs_where_a_project_has_folders_of_the_same_names(colliding: tuple[Path, dict[str, str]]) -> None:
    """One process imports a project's own ledger, projections and prompts, and runs every verb of the wheel."""
    project, _ = colliding
    (project / "legacy.json").write_text('{"key_points": ["Read the logs", "Read all logs", "Old-words"]}')
    (project / "extraction.json").write_text('{"new_key_points": ["Commit small steps"], "evaluations": []}')
    subprocess.run(["git", "init", "--quiet", "--bare", project / "remote.git"], check=True)
    lines = [" ".join(line.split()) for line in LINES.split(";")]
    verbs = command_line.list_commands(click.Context(command_line))
    assert [] == [verb for verb in verbs if not any(f"{line} ".startswith(f"{verb} ") for line in lines)]
    done = python(colliding, ["-c", VERBS], "\n".join(lines))
    assert 3 == done.stdout.count("my own")
    assert [f"{line} -> 0" for line in lines] == re.findall(r"^.* -> .*$", done.stderr, re.MULTILINE)


def test_the_command_and_its_hooks_run_there_as_processes(colliding: tuple[Path, dict[str, str]]) -> None:
    """`python -m tallybook` loads none of a project's own modules, and neither does the hook of any event."""
    rows = [(["add", "Write tests"], ""), (["show"], "")]
    rows += [
        (["hook"], json.dumps({"hook_event_name": event, "session_id": "s1", "last_assistant_message": "[kpt_001]"}))
        for event in EVENTS
    ]
    for words, given in rows:
        done = python(colliding, ["-m", "tallybook", *words], given)
        assert (0, "", False) == (done.returncode, done.stderr, "my own" in done.stdout), (words, done)
    assert not (colliding[0] / ".claude" / "ledger" / "hook-error").exists()
    kinds = python(colliding, ["-m", "tallybook", "log", "--json"], "").stdout
    assert (True, True) == ("playbook.injected" in kinds, "point.cited" in kinds)
    prompt = "import ledger, tallybook.compat as old; print(old.format_playbook(old.load_playbook()))"
    assert "Write tests" in python(colliding, ["-c", prompt], "").stdout


def test_the_examples_of_the_library_satisfy_a_strict_type_checker(tmp_path: Path, wheel: Path) -> None:
    """The page's examples pass `mypy --strict` in an environment that has the wheel; an unknown name does not."""
    venv.create(tmp_path / "venv", with_pip=False)
    interpreter = tmp_path / "venv" / "bin" / "python"
    [site] = (tmp_path / "venv").glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    # attrs, which the types of the records come from, as an installer would have put it there.
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    page = (ROOT / "projections" / "surfaces" / "library" / "README.md").read_text(encoding="utf-8")
    examples = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    (tmp_path / "examples.py").write_text(f"{examples}\ntallybook.nonsense\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-color-output", "--no-error-summary"]
    command += ["--cache-dir", str(tmp_path / "cache"), "--python-executable", str(interpreter), "examples.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    line = examples.count("\n") + 2
    wrong = f'examples.py:{line}: error: Module has no attribute "nonsense"  [attr-defined]\n'
    assert wrong == done.stdout, done.stderr
