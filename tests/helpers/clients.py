"""Helpers of tests: the real clients of agents, where they are installed."""

from __future__ import annotations

import os
from pathlib import Path
import shutil
from typing import Final

import pytest

from helpers.commands import ROOT

OFFLINE: Final = {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1", "GEMINI_CLI_NO_RELAUNCH": "true"}
"""Variables by which a client reaches the model on loopback and no other server, and Gemini is one process."""


def find_client(name: str) -> Path:
    """Return the path of a client's command; where it is not installed, the test is skipped.

    It is looked for in the folder that TALLYBOOK_CLIENTS names, in that of `.ci/test`, and on PATH.
    """
    folders = [os.environ.get("TALLYBOOK_CLIENTS"), str(ROOT / ".venv/clients/node_modules/.bin"), os.environ["PATH"]]
    path = shutil.which(name, path=os.pathsep.join(filter(None, folders)))
    if path is None:
        pytest.skip(f"{name} is not installed; .ci/test does it where npm is, or TALLYBOOK_CLIENTS names its folder")
    return Path(path).absolute()
