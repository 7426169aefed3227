"""The client libraries of engines: where one is missing, the answer names the package and the command that adds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallybook.projections.surfaces.sharing import engines
from tallybook.projections.surfaces.workspace.installation import install_command

if TYPE_CHECKING:
    from helpers.command_line import Run

ADDRESSES = {"nats": "nats://127.0.0.1:9", "postgres": "postgresql://127.0.0.1:9/tally"}


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("engine", sorted(ADDRESSES))
def test_a_missing_library_is_named_with_its_command(run: Run, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """The command adds the library to this installation; no package of Tallybook's name is fetched from an index."""
    monkeypatch.setattr(engines, "find_spec", lambda _: None)
    package = engines.LIBRARIES[engine][1]
    answer = run("share", engine, ADDRESSES[engine], "--book", "demo")
    assert (2, 1) == (answer.code, answer.err.count("\n"))
    assert f"needs the package {package}; run: {install_command(package)}\n" in answer.err
    assert "tallybook[" not in answer.err
