"""The cache of scores with several processes: killed in the middle, on a full disk, all at once."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.cache_places import caches_of
from helpers.long_ledgers import make_long
from helpers.repository import ROOT
from helpers.score_states import CONFIG, folded, project_in, record_events, shown
from helpers.sweep import slice_of
from tallybook.ledger.events import MetricsRecorded, Numbers
from tallybook.projections.surfaces.scores.answers import state_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallybook.projections.surfaces.workspace.project import Project

resource = pytest.importorskip("resource", reason="this system sets no limits to a process")

ASK = """
import json, resource, signal, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/tests"]
from pathlib import Path
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.scores.answers import state_of
from helpers.score_states import shown
from tallybook.projections.surfaces.history import cache_files, reading
cache_files.TAIL_BYTES, reading._TAIL_PART = 0, 1 << 40
project, limit, times = Project(Path(sys.argv[2])), int(sys.argv[3]), int(sys.argv[5])
signal.signal(signal.SIGXFSZ, signal.SIG_DFL if sys.argv[4] == "kill" else signal.SIG_IGN)
if limit >= 0:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
for _ in range(times):
    sys.stdout.write(json.dumps(shown(state_of(project, configuration.load(project)))) + "\\n")
"""
"""Asks for a project's scores; whoever writes behind ``limit`` bytes of a file is killed, or told there is no room."""

LIMITS = (0, 511, 4_095, 9_000, 2_000, 100, 513, 4_097, 7_000, 8_000)[: slice_of(10, 3)]


def process(project: Project, limit: int = -1, end: str = "full", times: int = 1) -> subprocess.Popen[str]:
    """Start a process that reads the scores."""
    words = [sys.executable, "-c", ASK, str(ROOT), str(project.root), str(limit), end, str(times)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answers(asking: subprocess.Popen[str]) -> list[list[str]]:
    """Return the answers of a process that ended well."""
    out, err = asking.communicate()
    assert (0, "") == (asking.returncode, err)
    return [json.loads(line) for line in out.splitlines()]


def measure(project: Project, number: int) -> None:
    """Record something of a session."""
    record_events(
        project, f"s{number}", [MetricsRecorded("ac02", Numbers({"completed": number % 10, "total": 10}), "")]
    )


@pytest.fixture(scope="module", autouse=True)
def _store_always() -> Iterator[None]:
    """Store the scores of a ledger however short it is."""
    with pytest.MonkeyPatch.context() as patch:
        make_long(patch)
        yield


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project with a cache, and events after it."""
    project = project_in(tmp_path_factory.mktemp("template"))
    for number in range(60):
        if number == 40:
            state_of(project, CONFIG)
        measure(project, number)
    return project


@pytest.fixture(params=["behind", "none"])
def project(template: Project, tmp_path: Path, request: pytest.FixtureRequest) -> Project:
    """Return a copy of it, with the cache or without one."""
    copy = type(template)(tmp_path / "copy")
    shutil.copytree(template.root, copy.root)
    if request.param == "behind":
        shutil.copytree(caches_of(template.ledger), caches_of(copy.ledger))
    return copy


@pytest.mark.parametrize("limit", LIMITS)
def test_a_process_killed_while_storing_changes_no_answer(project: Project, limit: int) -> None:
    """The next answer is right, and the stored state is the old or the new one."""
    killed = process(project, limit, "kill")
    assert ("", "") == killed.communicate()
    assert -signal.SIGXFSZ == killed.returncode
    expected = shown(folded(project))
    assert expected == shown(state_of(project, CONFIG))
    measure(project, 99)
    assert shown(folded(project)) == shown(state_of(project, CONFIG))


def test_several_processes_get_consistent_answers(project: Project) -> None:
    """Each answer is that of one moment, never half of two, while others read and write."""
    asking = [process(project, times=6) for _ in range(3)]
    for number in range(100, 112):
        measure(project, number)
    found = [answer for one in asking for answer in answers(one)]
    moments = {seq: shown(folded(project, until=int(seq)))[1] for seq, _ in found}
    assert [(seq, moments[seq]) for seq, _ in found] == [(seq, text) for seq, text in found]
    assert shown(folded(project)) == shown(state_of(project, CONFIG))
