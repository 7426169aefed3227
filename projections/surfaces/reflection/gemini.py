"""Gemini's headless client as a rater, with every tool that it has turned off."""

from __future__ import annotations

from contextlib import suppress
import json
import os
from pathlib import Path
import tempfile
from typing import TYPE_CHECKING, Any, Final

from tallybook.projections.surfaces.reflection.clients import FOLDER_PREFIX, failure, run_client
from tallybook.projections.surfaces.reflection.replies import (
    SYSTEM,
    UNUSABLE,
    Question,
    RaterError,
    Reply,
    accept_reply,
    count_tokens,
)
from tallybook.projections.surfaces.reflection.transcript import load_object

if TYPE_CHECKING:
    from collections.abc import Mapping
    import subprocess

GEMINI_BYTES: Final = 800
"""What Gemini sends with the prompt: the system prompt, the date, the system, and the fields of the request."""

_USERS_FILES: Final = (
    *("settings.json", "oauth_creds.json", "gemini-credentials.json", "google_accounts.json", "installation_id"),
    ".env",
)
"""The user's files that say whom Gemini asks, and as whom: neither extensions, nor instructions, nor hooks."""
_SETTINGS: Final = {
    "tools": {"core": [], "discoveryCommand": "", "callCommand": "", "sandbox": False},
    "mcp": {"allowed": ["none"], "serverCommand": ""},
    "ide": {"enabled": False},
    "hooksConfig": {"enabled": False},
    "skills": {"enabled": False},
    "context": {"fileName": ["none"], "includeDirectoryTree": False},
    "general": {"enableAutoUpdate": False},
}
"""Settings of the folder, which go over the user's."""
_DENY: Final = '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 999\n'


def ask_gemini(question: Question) -> Reply:
    """Ask through Gemini's headless client: the prompt alone, no tools, no hooks, and no saved session."""
    with tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX, ignore_cleanup_errors=True) as name:
        home, work = Path(name), Path(name, "work")
        _link_users_files(home)
        (work / ".gemini").mkdir(parents=True)
        (work / ".gemini" / "settings.json").write_text(json.dumps(_SETTINGS), encoding="utf-8")
        (home / "deny.toml").write_text(_DENY, encoding="utf-8")
        (home / "system.md").write_text(SYSTEM, encoding="utf-8")
        variables = {
            # What a session leaves goes with this folder, and is not found by the user's next one.
            "GEMINI_CLI_HOME": name,
            # The settings of a folder that is not trusted do not count.
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_SANDBOX": "false",
            "GEMINI_SYSTEM_MD": str(home / "system.md"),
        }
        command = ["gemini", "-p", "", "--output-format", "json", "--model", question.model or "flash"]
        command += ["--admin-policy", str(home / "deny.toml")]
        done = run_client(question, command, str(work), variables, question.prompt)
    return _read_output(question, done)


def _link_users_files(home: Path) -> None:
    """Link the user's files into a home folder of their own, so that a login that is renewed stays the user's."""
    users = Path(os.environ.get("GEMINI_CLI_HOME") or Path.home())
    (home / ".gemini").mkdir()
    for file in [*(Path(".gemini", one) for one in _USERS_FILES), Path(".env")]:
        if (users / file).is_file():
            (home / file).symlink_to((users / file).absolute())
    # The search for variables ends here: it would go on in the folders above, which others may write to.
    with suppress(FileExistsError):
        (home / ".env").touch(exist_ok=False)


def _read_output(question: Question, done: subprocess.CompletedProcess[bytes]) -> Reply:
    """Return the answer that Gemini printed: one JSON object with ``response`` and ``stats``."""
    fields = load_object(done.stdout)
    text, error, stats = fields.get("response"), fields.get("error"), _object(fields, "stats")
    model, spent = _costs(question, _object(stats, "models"))
    if done.returncode or error or not isinstance(text, str):
        what = str(error.get("message")) if isinstance(error, dict) else ""
        raise failure(done, what, model)
    if _object(stats, "tools").get("totalSuccess"):
        raise RaterError(UNUSABLE, "gemini ran a tool, although it has none", *spent, model=model)
    return accept_reply(question, text, None, model, spent)


def _object(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def _costs(question: Question, models: Mapping[str, Any]) -> tuple[str, tuple[int, int]]:
    """Return the model that answered and what all of them cost: others may have chosen it."""
    tokens = {name: _object(one, "tokens") for name, one in models.items() if isinstance(one, dict)}
    spent = [count_tokens(one, ("prompt",), ("candidates", "thoughts")) for one in tokens.values()]
    return next(reversed(tokens), question.model), (sum(one[0] for one in spent), sum(one[1] for one in spent))
