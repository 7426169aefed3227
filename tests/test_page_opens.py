"""`tallybook page --open` with a real browser command, and `--at git:REV` with a real repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from time import monotonic, sleep
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.film_reader import play, read_page
from helpers.git_repositories import commit, git, keep
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.page.film import STATUSES
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

WAIT_S = 20
COMMAND = [sys.executable, "-m", "tallybook", "page"]


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with one entry, events 1 to 3."""
    made = Project(project)
    commands.add(made, "one", HUMAN)
    return made


@pytest.fixture
def browser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a command that writes its argument to a file next to it, as a browser would open it."""
    if os.name == "nt":
        pytest.skip("Windows opens its own browser, not that of BROWSER")
    command = tmp_path_factory.mktemp("browser") / "browser"
    command.write_text('#!/bin/sh\nprintf %s "$1" > "$0.part" && mv "$0.part" "$0.opened"\n')
    command.chmod(0o755)
    return command


def opened_by(browser: Path) -> str:
    """Return what a browser was given, as soon as it was."""
    file, deadline = browser.with_name("browser.opened"), monotonic() + WAIT_S
    while not file.exists():
        assert monotonic() < deadline
        sleep(0.02)
    return file.read_text(encoding="utf-8")


def test_open_gives_the_file_to_the_browser(here: Project, browser: Path) -> None:
    """--open starts the browser of the person with the address of the file; a space in its name is escaped."""
    done = subprocess.run(
        [*COMMAND, "-o", "my page.html", "--open"],
        cwd=here.root,
        env=os.environ | {"BROWSER": f"{browser} %s"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (here.root / "my page.html").resolve().as_uri() == opened_by(browser)
    assert (True, "") == (done.stdout.startswith("my page.html written: "), done.stderr)


def test_open_gives_the_address_of_the_server_to_the_browser(here: Project, browser: Path) -> None:
    """With --serve the browser gets the address that is printed, token included."""
    environment = os.environ | {"BROWSER": f"{browser} %s"}
    words = [*COMMAND, "--serve", "--open"]
    with subprocess.Popen(words, cwd=here.root, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"serving until Ctrl-C: {opened_by(browser)}\n"
        process.kill()


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def texts_at(path: Path, event: int) -> list[str]:
    """Return the texts of the playbook that a page shows at an event."""
    film = read_page(path.read_text(encoding="utf-8"))[1]["film"]
    rows = {last: {**rows} for last, rows in play(film)}[event]
    return [row["text"] for row in rows.values() if STATUSES[row["status"]] == "kept"]


@needs_git
def test_at_a_commit_with_another_history_the_page_has_that_history(here: Project, run: Run) -> None:
    """If git tracks the ledger and the commit's went another way, the page shows the one of the commit."""
    git(here.root, "init", "--quiet")
    (here.ledger / ".gitignore").unlink()
    put_back = keep(here)
    commands.add(here, "theirs", HUMAN)
    name = commit(here)
    put_back()
    commands.add(here, "ours", HUMAN)
    out = here.root / "a.html"
    done = run("page", "--at", f"git:{name[:9]}", "-o", str(out))
    assert (0, True) == (done.code, "which has another history than this one" in done.err)
    assert ["one", "theirs"] == texts_at(out, 5)
    meta, _ = read_page(out.read_text(encoding="utf-8"))
    # `show --at 5` would print the project's own history.
    assert (False, {""}) == (meta["commands"], {policy["command"] for policy in meta["policies"]})
    assert 0 == run("page", "-o", str(out)).code
    assert ["one", "ours"] == texts_at(out, 5)
