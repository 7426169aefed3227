"""Help: the screen by groups, and shell completion."""

from __future__ import annotations

import os
from pathlib import Path
import re
import shutil
import subprocess
import sys

import pytest

from helpers.command_line import Run
from tallybook.projections.surfaces.cli.main import VERBS

COLUMNS = 80


def test_the_first_screen_fits_forty_lines_and_names_every_verb(run: Run) -> None:
    """The screen has at most 40 lines of 80 columns, begins with `init`, and ends with what programs run."""
    lines = run("--help").out.splitlines()
    assert [] == [line for line in lines if len(line) > COLUMNS]
    assert len(lines) <= 40
    assert lines[lines.index("Every day:") + 1].startswith("  init ")
    names = re.findall(r"[\w-]+", " ".join(line.partition("  ")[2] for line in lines))
    assert set() == {verb for verb in VERBS if " " not in verb} - set(names)
    assert 39 >= sum(" " not in verb for verb in VERBS)
    assert "  For programs  hook, mcp, record, completion" in lines


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("wh", "what-if why"),
        ("help rev", "review"),
        ("score g", "gate"),
        ("rate --rea", "--reason"),
        ("completion f", "fish"),
    ],
)
def test_bash_completes_verbs_options_and_choices(words: str, expected: str, tmp_path: Path) -> None:
    """With the printed script loaded, bash completes what the command line accepts."""
    program = tmp_path / "tallybook"
    code = "from tallybook.projections.surfaces.entry_point import main; main()"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n", encoding="utf-8")
    program.chmod(0o755)
    script = (
        f'eval "$(tallybook completion bash)"; COMP_WORDS=(tallybook {words}); COMP_CWORD={len(words.split())}; '
        "_tallybook_completion tallybook; echo ${COMPREPLY[@]}"
    )
    env = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env=env)
    assert (expected, "") == (" ".join(sorted(done.stdout.split())), done.stderr)
