"""A project for one run: a home folder, a git project with two entries, and a command that keeps every payload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
import json
import os
from pathlib import Path
import subprocess
import sys
import tempfile

import attrs

from agents.clients import Installed
from helpers.transcripts import ScriptedClient as StandIn
from helpers.transcripts import answer, client_in
from tallybook.ledger.codec import decode
from tallybook.ledger.records import EventRecord
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.workspace.project import Project

COMMAND = (sys.executable, "-P", "-m", "tallybook")
ENTRIES = ("Use type hints", "Write tests first")
LINE = f":: {ENTRIES[0]}"
"""What the model's request holds as often as the playbook."""
ASKED = "name it in square brackets"
"""Words of the template by which an agent is asked to name the entries that it uses."""
CITED = "As [kpt_001] says, done."
RUN_S = 180
"""Seconds after which a client is ended."""
VARIABLES = ("CLAUDE", "CODEX", "COPILOT", "CURSOR", "GEMINI")
"""Beginnings of the variables that can tell who calls."""

_WRAPPER = """\
#!{python}
import json, os, subprocess, sys, time
if sys.argv[1:2] != ["hook"]:
    os.execv({python!r}, [*{command!r}, *sys.argv[1:]])
at = time.time_ns()
payload = sys.stdin.buffer.read()
done = subprocess.run([*{command!r}, *sys.argv[1:]], input=payload, capture_output=True)
environment = {{name: value for name, value in os.environ.items() if name.startswith({variables!r})}}
call = {{"payload": payload.decode(), "environment": environment, "answer": done.stdout.decode(),
         "errors": done.stderr.decode(), "code": done.returncode}}
with open(os.path.join({folder!r}, "%d-%d.json" % (at, os.getpid())), "w") as file:
    json.dump(call, file)
sys.stdout.buffer.write(done.stdout)
sys.stderr.buffer.write(done.stderr)
sys.exit(done.returncode)
"""
"""The command of that name on the client's PATH: it keeps what each hook was given and answered."""


@attrs.frozen
class ClientHookCall:
    """One call of the hook, with the variables that can tell who calls."""

    payload: str
    environment: dict[str, str]
    answer: str
    errors: str
    code: int


@attrs.frozen
class ClientFolders:
    """Where a client runs: the folder of all of it, and the stand-in for the model that rates."""

    folder: Path
    rater: StandIn

    @property
    def home(self) -> Path:
        """Return the home folder."""
        return self.folder / "home"

    @property
    def project(self) -> Path:
        """Return the project's folder."""
        return self.folder / "shop"

    def environment(self) -> dict[str, str]:
        """Return what every process gets."""
        path = os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]])
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
        return {**kept, "PATH": path, "HOME": str(self.home), "TMPDIR": str(self.folder / "tmp"), "TZ": "UTC"}

    def tallybook(self, *words: str) -> str:
        """Run the command in the project, and return what it prints."""
        return self._run([*COMMAND, *words], {})

    def ask(self, installed: Installed, environment: dict[str, str], options: Sequence[str]) -> str:
        """Run the client once, and return what it prints."""
        return self._run([str(installed.path), *options], environment)

    def _run(self, command: Sequence[str], environment: dict[str, str]) -> str:
        done = subprocess.run(
            command,
            cwd=self.project,
            env=self.environment() | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_S,
        )
        if done.returncode:
            message = f"{' '.join(command)} ends with {done.returncode}: {(done.stderr or done.stdout)[-500:]}"
            raise RuntimeError(message)
        return done.stdout

    def calls(self) -> list[ClientHookCall]:
        """Return the calls of the hook, in order."""
        paths = sorted((self.folder / "calls").iterdir(), key=lambda path: path.name)
        return [ClientHookCall(**json.loads(path.read_text(encoding="utf-8"))) for path in paths]

    def records(self) -> list[EventRecord]:
        """Return the events of the ledger, in order."""
        return [record for batch in decode(open_log(Project(self.project)).read()) for record in batch.records]

    def tree(self) -> dict[str, bytes | None]:
        """Return the files of the project and their bytes, None for a folder, without the ledger and git's own."""
        ours = {".git", "ledger", "playbook.json"}
        files = {path.relative_to(self.project): path for path in self.project.rglob("*")}
        left = {name: path for name, path in files.items() if not ours.intersection(name.parts)}
        return {str(name): path.read_bytes() if path.is_file() else None for name, path in left.items()}


@contextmanager
def new_place() -> Iterator[ClientFolders]:
    """Make a place, and remove it at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="tallybook-agents-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        for below in ("home/.claude/config", "shop", "bin", "calls", "tmp"):
            (folder / below).mkdir(parents=True)
        rater = client_in(folder / "bin")
        rater.plans(answer(kpt_001="helpful"))
        place = ClientFolders(folder, rater)
        text = _WRAPPER.format(
            python=sys.executable, command=COMMAND, folder=str(folder / "calls"), variables=VARIABLES
        )
        _write_program(folder / "bin" / "tallybook", text)
        (place.home / ".claude/config/tallybook.toml").write_text('[reflection]\nrater = "claude"\n', encoding="utf-8")
        subprocess.run(["git", "init", "--quiet", str(place.project)], check=True)
        (place.project / "README.md").write_text("A shop.\n", encoding="utf-8")
        for entry in ENTRIES:
            place.tallybook("add", entry)
        yield place


def _write_program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
