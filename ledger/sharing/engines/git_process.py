"""How git is run: with no prompt, no hook, a time limit, and no variable of another git's."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
import os
import re
import shutil
import signal
import subprocess
from tempfile import TemporaryFile
from threading import Event, Timer
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from tallybook.ledger.sharing.engines.store import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OLDEST = (2, 30)
"""The oldest git that is used."""
_HINT = "install git {}.{} or later".format(*OLDEST)
_QUESTION_LIMIT_S = 10.0
_END_LIMIT_S = 2.0
_REASON_CHARS = 300
# A repository's configuration may come from someone else: it names commands for these occasions.
_OPTIONS = ("--no-pager", "-c", "core.fsmonitor=", "-c", f"core.hooksPath={os.devnull}")
_VARIABLES = {
    "GCM_INTERACTIVE": "never",
    "GIT_ALLOW_PROTOCOL": "https:ssh:file",
    "GIT_ASKPASS": "",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # The engine tells a lost race and a damaged remote by git's English words.
    "LC_ALL": "C",
    "SSH_ASKPASS_REQUIRE": "never",
}
_NOISE = ("warning:", "hint:", "to ", "error: failed to push some refs")
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x1f\x7f-\x9f]")
# The line of a refused reference in the porcelain format.
_STATUS = re.compile(rb"(?m)^!\t[^\t]*\t(.*)$")
_LOGIN = re.compile(r"(\w://)[^/@\s]*@")


class GitFailedError(Exception):
    """Git refused, or could not do what was asked; the text is its reason, in one line."""


class GitTimeoutError(GitFailedError):
    """Git did not end within the limit, and was ended."""


class Done(NamedTuple):
    """A git process that ended.

    Attributes:
        code: Its exit code.
        output: Its standard output.
        errors: Its standard error.
    """

    code: int
    output: bytes
    errors: bytes

    def require(self) -> Done:
        """Return this where git succeeded, else raise GitFailedError."""
        if self.code:
            raise GitFailedError(self.reason)
        return self

    @property
    def refusal(self) -> str:
        """Return why a push was refused: the words of the server, else its status, else the first line of git's own."""
        status = _STATUS.search(self.output)
        is_silent = b"remote: " not in self.errors
        return status[1].decode("utf-8", "replace") if status and is_silent else self.reason

    @property
    def reason(self) -> str:
        """Return why it failed: the words of the server, or the first line of git's own; without passwords."""
        lines = [_CONTROL.sub(" ", line).strip() for line in self.errors.decode("utf-8", "replace").split("\n")]
        server = [line.removeprefix("remote:").strip() for line in lines if line.startswith("remote:")]
        own = [line for line in lines if line and not line.lower().startswith(_NOISE)]
        text = " ".join(filter(None, server)) or next(iter(own), "") or f"git ended with {self.code}"
        text = _LOGIN.sub(r"\1", text.removeprefix("fatal: ").removeprefix("error: "))
        return text if len(text) <= _REASON_CHARS else f"{text[:_REASON_CHARS]}…"


def run_git(
    words: Sequence[str],
    *,
    folder: str,
    given: bytes = b"",
    limit_s: float = _QUESTION_LIMIT_S,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Done:
    """Run git in a folder to its end, whatever its exit code.

    Args:
        words: Its arguments.
        folder: Where it runs.
        given: Its standard input.
        limit_s: How long it may take.
        variables: Variables besides those that every git gets.

    Raises:
        EngineError: Git is not installed, or too old.
        GitTimeoutError: It took longer than that.
        GitFailedError: It could not be started.
    """
    program = find_git(os.environ.get("PATH", os.defpath))
    return _run([program, *_OPTIONS, *words], folder, given, limit_s, _environment() | dict(variables))


@cache
def find_git(path: str) -> str:
    """Return where git is, once for each value of PATH, after a look at its version.

    Raises:
        EngineError: It is missing or too old.
    """
    program = shutil.which("git", path=path)
    if program is None or not os.path.isabs(program):
        raise EngineError("git", "is not installed", _HINT)
    try:
        done = _run([program, "--version"], os.path.abspath(os.sep), b"", _QUESTION_LIMIT_S, _environment())
    except GitFailedError as error:
        raise EngineError("git", f"cannot be run: {error}", _HINT) from error
    version = re.search(rb"(\d+)\.(\d+)", done.output)
    if version is None or (int(version[1]), int(version[2])) < OLDEST:
        shown = done.output.decode("utf-8", "replace").strip() or done.reason
        raise EngineError("git", f"is too old: {shown!a}", _HINT)
    return program


def ssh_variables(folder: str, limit_s: float) -> dict[str, str]:
    """Return the variables by which git runs ssh without a question, as the user or the system configured ssh.

    Args:
        folder: The folder of a repository of ours, which configures no ssh.
        limit_s: How long git may take.
    """
    done = run_git([f"--git-dir={folder}", "config", "--get", "core.sshCommand"], folder=folder, limit_s=limit_s)
    command = os.fsdecode(done.output).strip() or "ssh"
    if os.path.basename(command.partition(" ")[0]) == "ssh":
        command += " -o BatchMode=yes"
    return {"GIT_SSH_COMMAND": command}


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _VARIABLES


def _run(command: Sequence[str], folder: str, given: bytes, limit_s: float, environment: Mapping[str, str]) -> Done:
    """Run a command to its end, or end it and all that it started at the limit."""
    # Files, not pipes: an ssh that stays connected in the background would hold a pipe open long after git's end.
    with TemporaryFile() as source, TemporaryFile() as output, TemporaryFile() as errors:
        try:
            source.write(given)
            source.seek(0)
            code = _wait(
                subprocess.Popen(  # noqa: S603 - git itself, and no shell reads its words
                    command,
                    stdin=source,
                    stdout=output,
                    stderr=errors,
                    cwd=folder,
                    env=environment,
                    # Without a terminal nothing can ask, and what git started ends with it.
                    start_new_session=True,
                ),
                limit_s,
            )
        except OSError as error:
            raise GitFailedError(f"git cannot be run: {error.strerror}") from error
        output.seek(0)
        errors.seek(0)
        return Done(code, output.read(), errors.read())


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> int:
    """Wait for the end of a process, which a timer ends at the limit; `wait` with a limit would poll, and sleep."""
    is_over = Event()

    def end() -> None:
        is_over.set()
        _end(process)

    timer = Timer(limit_s, end)
    timer.daemon = True
    timer.start()
    try:
        code = process.wait()
    except BaseException:
        # After Ctrl-C too: the signal of the terminal does not reach a session of its own.
        _end(process)
        raise
    finally:
        timer.cancel()
    if is_over.is_set():
        timer.join()
        raise GitTimeoutError(f"git did not end within {limit_s:g} s")
    return code


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started: at first so that it can remove its lock files."""
    # Windows has neither groups nor SIGKILL.
    kill = getattr(os, "killpg", os.kill)
    for sign in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        # Some systems refuse it for a group that has just ended.
        with suppress(OSError):
            kill(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_LIMIT_S)
