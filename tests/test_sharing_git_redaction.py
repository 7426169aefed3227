"""A redacted text leaves a git remote by `share repair` and the documented collection."""

from __future__ import annotations

from pathlib import Path
import subprocess
from typing import TYPE_CHECKING

import pytest

from helpers.documentation import PAGES
from helpers.git_repositories import git
from helpers.sharing_projects import make_team

if TYPE_CHECKING:
    from helpers.command_line import Run


@pytest.mark.parametrize("filters", ["true", "false"])
def test_a_repair_and_the_documented_command_erase_a_text_everywhere(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, filters: str
) -> None:
    """No object of the remote and no file of a machine has the text; all machines go on, a new one too."""
    team = make_team("git", tmp_path, run, monkeypatch)
    remote = Path(team.address)
    git(remote, "config", "uploadpack.allowFilter", filters)
    for machine in ("anna", "ben"):
        team.run(machine, "add", f"Ask Petra Zwiebel, says {machine}")
        team.share(machine)
    team.sync("anna")
    said = team.run("anna", "redact", "--text", "Petra Zwiebel", "--yes", "--expect", "2", "--reason", "a name").out
    assert ["tallybook sync", "tallybook share repair"] == [
        line.partition("; run: ")[2] for line in said.splitlines() if "still holds it" in line
    ]
    team.sync("anna", "ben")
    team.run("anna", "share", "repair", "--yes")
    section = PAGES["ledger/sharing/engines/README.md"].split("### Redaction in git")[1].split("\n### ")[0]
    script = section.split("```sh\n")[1].split("```")[0].replace("REPOSITORY", f"'{remote}'")
    subprocess.run(["sh", "-eu", "-c", script], check=True, capture_output=True)
    every = git(remote, "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)").splitlines()
    blobs = [line.split()[0] for line in every if line.endswith("blob")]
    assert blobs
    assert [] == [id_ for id_ in blobs if "Zwiebel" in git(remote, "cat-file", "blob", id_)]
    team.run("ben", "rate", "kpt_001", "helpful")
    team.sync("ben", "anna")
    team.share("cleo")
    assert team.entries("anna") == team.entries("ben") == team.entries("cleo")
    for machine in ("anna", "ben"):
        files = [path for path in team.root(machine).parent.rglob("*") if path.is_file()]
        assert [] == [path for path in files if b"Zwiebel" in path.read_bytes()]
