"""The verb `check`, and the GitHub Action and the hook of pre-commit that run it, as their programs run them."""

from __future__ import annotations

import os
from pathlib import Path
import re
import shlex
import shutil
import subprocess
import sys
from typing import Any, NamedTuple

import pytest
import yaml

from helpers.commands import ROOT
from helpers.documentation import FILES, chapter
from helpers.events import HUMAN
from helpers.git_repositories import git
from tallybook.projections.surfaces.scores.answers import ScorePage, Table, markdown
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands


def test_markdown_takes_no_markup_from_texts() -> None:
    """A ledger from a pull request adds no row, link, picture or heading to the summary of a job."""
    rows = (("gate", "bad", "a|b <img src=x> [x](y) `c`\n# d", ""),)
    *_, row = markdown(ScorePage("Tallybook: failed", tables=(Table("", ("Check",) * 4, rows),))).splitlines()
    assert r"| gate | bad | a\|b \<img src=x\> \[x\](y) \`c\`\\n\# d |  |" == row


ACTION = Path(".github", "actions", "check")
HOOKS = ".pre-commit-hooks.yaml"
SCRIPT = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m tallybook "$@"\n'
BASH = ("bash", "--noprofile", "--norc", "-e", "-o", "pipefail")
NO_LEDGER = "no ledger in this checkout: track it"


def load(path: Path) -> Any:
    """Return a YAML file of the repository."""
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


@pytest.fixture
def in_git(project: Path) -> Project:
    """Return a project in git, with an entry and no measurements."""
    git(project, "init")
    in_git = Project(project)
    commands.add(in_git, "Use type hints", HUMAN)
    return in_git


def read_documented(language: str) -> list[str]:
    """Return the blocks of a language in the chapter about CI."""
    return re.findall(rf"^```{language}\n(.*?)^```$", chapter(FILES, "CI and git hooks"), re.DOTALL | re.MULTILINE)


def clone(in_git: Project, *, track: bool = True) -> Project:
    """Commit a project, and return a clone of it; with ``track``, after the documented commands that track a ledger."""
    if track:
        (commands_,) = read_documented("sh")
        git(in_git.root, "add", ".claude/playbook.json", *(".claude/metrics" for _ in in_git.claude.glob("metrics")))
        done = subprocess.run(
            [*BASH, "-c", commands_.replace("git commit", "git -c user.name=a -c user.email=a@example.org commit")],
            cwd=in_git.root,
            check=False,
            capture_output=True,
        )
        assert 0 == done.returncode, done.stderr
    else:
        git(in_git.root, "add", "--all")
        git(in_git.root, "commit", "-m", "without its ledger")
    folder = in_git.root.parent / f"{in_git.root.name}-clone"
    git(in_git.root, "clone", str(in_git.root), str(folder))
    return Project(folder)


class Job(NamedTuple):
    """The result of a job: the exit code of its last step, its log, and its summary."""

    code: int
    log: str
    summary: str


def run_step(step: dict[str, Any], inputs: dict[str, str], folder: Path, runner: Path, action: Path) -> Job:
    """Run one step of the action in a workspace, as a runner does."""
    assert "bash" == step["shell"]
    env = {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: inputs[found[1]], value)
        for name, value in step.get("env", {}).items()
    }
    summary = runner / "summary.md"
    summary.touch()
    runner_env = {"GITHUB_WORKSPACE": folder, "GITHUB_ACTION_PATH": action, "RUNNER_TEMP": runner}
    env |= {name: str(value) for name, value in runner_env.items()} | {"GITHUB_STEP_SUMMARY": str(summary)}
    script = runner / "step.sh"
    script.write_text(step["run"], encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if name != "CLAUDE_PROJECT_DIR"}
    done = subprocess.run(
        [*BASH, str(script)], cwd=folder, env=inherited | env, capture_output=True, text=True, check=False
    )
    return Job(done.returncode, done.stdout + done.stderr, summary.read_text(encoding="utf-8"))


def check(folder: Path, runner: Path, **given: str) -> Job:
    """Run the action's last step with inputs, where its first one has installed Tallybook."""
    action = load(ACTION / "action.yml")
    inputs = {name: about["default"] for name, about in action["inputs"].items()} | given
    assert set(inputs) == set(action["inputs"])
    return run_step(action["runs"]["steps"][-1], inputs, folder, runner, ROOT / ACTION)


@pytest.fixture
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the temporary folder of a runner; the command in it is the one under test."""
    folder = tmp_path_factory.mktemp("runner")
    (folder / "tallybook" / "bin").mkdir(parents=True)
    command = folder / "tallybook" / "bin" / "tallybook"
    command.write_text(SCRIPT, encoding="utf-8")
    command.chmod(0o755)
    return folder


def test_a_tracked_ledger_passes(in_git: Project, runner: Path) -> None:
    """A clone with a ledger exits with 0; log and summary are the same page, also with scores."""
    job = check(clone(in_git).root, runner)
    assert 0 == job.code, job.log
    assert job.summary.startswith("# Tallybook: ok\n\n| Check | Result | Finding | Fix |\n")
    assert job.summary == job.log
    assert "| gate | note | nothing was measured, so there is no score to judge |" in job.summary


def test_a_default_clone_fails_and_says_what_to_do(in_git: Project, runner: Path) -> None:
    """The ledger ignores itself for git, so a clone has none: exit code 1, and the summary names the command."""
    made = clone(in_git, track=False)
    assert (False, True) == (made.ledger.exists(), made.playbook.exists())
    job = check(made.root, runner)
    assert 1 == job.code
    assert NO_LEDGER in job.summary
    assert "git add -f .claude/ledger/events.jsonl .claude/ledger/head" in job.summary


def test_inputs_are_data(in_git: Project, runner: Path) -> None:
    """Neither input is run or expanded by the shell: a substitution is a wrong option and a wrong folder."""
    made = clone(in_git)
    for given in ({"options": "$(touch pwned) `touch pwned` ; touch pwned"}, {"project": "$(touch pwned)"}):
        assert 2 == check(made.root, runner, **given).code
    assert "extra argument (*)" in check(made.root, runner, options="*").log
    assert not list(made.root.rglob("pwned"))


@pytest.fixture
def offered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository whose commit has the files that users of the action and the hook get."""
    folder = tmp_path_factory.mktemp("offered")
    for name in ("ledger", "projections", "prompts", ".github"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", HOOKS):
        shutil.copy(ROOT / name, folder)
    git(folder, "init")
    git(folder, "add", "--all")
    git(folder, "commit", "-m", "offered")
    return folder


def test_the_action_installs_the_tallybook_of_its_own_commit(offered: Path, in_git: Project, runner: Path) -> None:
    """The first step installs from the folder that the action lies in; the second uses what it installed."""
    made = clone(in_git)
    shutil.rmtree(runner / "tallybook")
    action = load(ACTION / "action.yml")
    install, last = action["runs"]["steps"]
    done = run_step(install, {}, made.root, runner, offered / ACTION)
    if "Could not find a version" in done.log or "connection" in done.log.lower():
        pytest.skip("pip cannot get the libraries here")
    assert 0 == done.code, done.log
    job = run_step(last, {"project": ".", "options": ""}, made.root, runner, offered / ACTION)
    assert (0, True) == (job.code, job.summary.startswith("# Tallybook: ok\n")), job.log


def test_precommit_runs_the_hook(offered: Path, in_git: Project, runner: Path) -> None:
    """The documented configuration passes on a default clone, which has no ledger, and fails where a file differs."""
    pytest.importorskip("pre_commit", reason="pre-commit, of the group test, is not installed")
    env = os.environ | {"PRE_COMMIT_HOME": str(runner / "cache"), "GIT_CONFIG_GLOBAL": os.devnull}
    env.pop("CLAUDE_PROJECT_DIR")
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=offered, capture_output=True, text=True, check=True)
    config = read_documented("yaml")[1].replace("https://github.com/OWNER/tallybook", str(offered))
    config = config.replace("rev: v0.1.0", f"rev: {revision.stdout.strip()}")
    (in_git.root / ".pre-commit-config.yaml").write_text(config, encoding="utf-8")
    git(in_git.root, "add", ".pre-commit-config.yaml")
    git(in_git.root, "commit", "-m", "configuration")

    def run(folder: Path) -> tuple[int, str]:
        command = [sys.executable, "-m", "pre_commit", "run", "--all-files", "--verbose"]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    made = clone(in_git, track=False)
    code, log = run(made.root)
    if "Could not find a version" in log:
        pytest.skip("pip cannot get the libraries here")
    assert (False, 0, True) == (made.ledger.exists(), code, "no ledger here" in log), log
    shutil.rmtree(made.root)
    made = clone(in_git)
    code, log = run(made.root)
    assert (0, True) == (code, "Passed" in log), log
    made.playbook.write_bytes(made.playbook.read_bytes().replace(b"type hints", b"types"))
    code, log = run(made.root)
    assert (1, True) == (code, "has a manual edit that is not recorded yet" in log), log


def test_the_documented_workflow_uses_the_action_as_it_is(in_git: Project, runner: Path) -> None:
    """It checks the code out, names the action by its folder, and passes inputs that there are; run, it passes."""
    workflow = yaml.safe_load(read_documented("yaml")[0])
    (job,) = workflow["jobs"].values()
    checkout, use = job["steps"]
    assert checkout["uses"].startswith("actions/checkout@")
    assert f"OWNER/tallybook/{ACTION}@v0.1.0" == use["uses"]
    assert 0 == check(clone(in_git).root, runner, **use["with"]).code


def test_attributes_keep_git_from_changing_the_ledger(in_git: Project, runner: Path) -> None:
    """Where git writes CRLF, the documented line of .gitattributes leaves ledger and playbook.json as they are."""
    attributes = re.findall(r"`(\S+ -text)` in `\.gitattributes`", chapter(FILES, "CI and git hooks"))
    assert 1 == len(attributes)
    folder = clone(in_git).root
    for line, code in (("", 3), (attributes[0], 0)):
        (folder / ".gitattributes").write_text(line, encoding="utf-8")
        git(folder, "add", ".gitattributes")
        git(folder, "commit", "--allow-empty", "-m", "attributes")
        other = folder.parent / f"crlf-{code}"
        git(folder, "-c", "core.autocrlf=true", "clone", "--config", "core.autocrlf=true", str(folder), str(other))
        assert code == check(other, runner).code
