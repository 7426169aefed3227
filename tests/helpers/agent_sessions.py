"""Sessions of Codex, Gemini and Copilot as their clients wrote them, put where each client keeps its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import attrs

from helpers.transcripts import RECORDED
from tallybook.projections.surfaces.agents import table

FOLDER: Final = "/home/me/shop"
"""The folder that the recorded sessions began in; long texts of the programs were cut."""
LAST: Final = "Done; [kpt_001] helped. Überraschung 🎉"
"""The agent's last message in nearly all of them."""


@attrs.frozen
class RecordedSession:
    """A recorded session.

    Attributes:
        agent: Its agent, a key of AGENTS.
        session: Its id.
        path: Its own transcript, below RECORDED.
        subagent: The transcript of its subagent, empty where it has no file.
        cited: How many messages name an entry, the same text of the same author counted once.
    """

    agent: str
    session: str
    path: str
    subagent: str
    cited: int

    @property
    def turns(self) -> dict[str, list[str]]:
        """Return its turns as a model reads them, by the names of its transcripts; read and checked by a person."""
        turns: dict[str, list[str]] = json.loads((RECORDED / "turns.json").read_text(encoding="utf-8"))[self.path]
        return turns

    def put(self, folder: Path, home: Path | None = None) -> Path:
        """Copy it to where its client keeps it, as a session in a folder; return its own transcript."""
        home = home or Path(table.transcripts_folder(self.agent))
        root = [f"{self.agent}/shop/.project_root"] if self.agent == "gemini" else []
        for name in filter(None, (self.path, self.subagent, *root)):
            path = home / Path(name).relative_to(self.agent)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((RECORDED / name).read_bytes().replace(FOLDER.encode(), str(folder).encode()))
        return home / Path(self.path).relative_to(self.agent)


_CODEX: Final = "codex/2026/11/23/rollout-2026-11-23T12-"
CODEX: Final = RecordedSession(
    "codex",
    "01a20862-9d07-7093-9de0-df4853284a71",
    f"{_CODEX}30-10-01a20862-9d07-7093-9de0-df4853284a71.jsonl",
    f"{_CODEX}30-10-01a20862-9f37-7c22-9330-b6917a9a98e7.jsonl",
    4,
)
COMPACTED: Final = RecordedSession(
    "codex", "01a20860-9906-7132-9c39-bdcfa47bed07", f"{_CODEX}27-58-01a20860-9906-7132-9c39-bdcfa47bed07.jsonl", "", 1
)
_CHATS: Final = "gemini/shop/chats"
GEMINI: Final = RecordedSession(
    "gemini",
    "f21fa47d-88a9-41e7-bfca-20ae743b9250",
    f"{_CHATS}/session-2026-11-23T12-46-f21fa47d.jsonl",
    f"{_CHATS}/f21fa47d-88a9-41e7-bfca-20ae743b9250/25b91a94-33d3-4620-b66d-e624643d8b09.jsonl",
    4,
)
COPILOT: Final = RecordedSession(
    "copilot",
    "93d68719-ab13-49a1-b012-82850a1a4f90",
    "copilot/93d68719-ab13-49a1-b012-82850a1a4f90/events.jsonl",
    "",
    3,
)
SESSIONS: Final = {"Codex": CODEX, "Codex, compacted": COMPACTED, "Gemini": GEMINI, "Copilot": COPILOT}
