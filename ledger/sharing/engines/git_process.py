"""How git is run: with no prompt, no hook, a time limit, and no variable of another git's."""

from __future__ import annotations

from contextlib import suppress
import os
import re
import shutil
import signal
import subprocess
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from tallybook.ledger.sharing.engines.store import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    # The engine tells a lost race by git's English words.
    "LC_ALL": "C",
    # Older versions of ssh know the first alone.
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
}
_NOISE = ("warning:", "hint:", "to ", "error: failed to push some refs")
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x1f\x7f-\x9f]")
# The line of a refused reference in the porcelain format.
_STATUS = re.compile(r"(?m)^!\t[^\t]*\t(.*)$")
# A password may have any character but a space, an at sign among them.
_LOGIN = re.compile(r"(\w://)\S*@")


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
    def reason(self) -> str:
        """Return why it failed, without passwords: the words of the server, the status of a push, or git's own."""
        lines = [_CONTROL.sub(" ", line).strip() for line in self.errors.decode("utf-8", "replace").split("\n")]
        server = [line.removeprefix("remote:").strip() for line in lines if line.startswith("remote:")]
        status = _STATUS.findall(self.output.decode("utf-8", "replace"))
        own = [line for line in lines if line and not line.lower().startswith(_NOISE)]
        text = " ".join(filter(None, server)) or next(iter([*status, *own]), f"git ended with {self.code}")
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
    """Run git in a folder to its end, whatever its exit code, or end it and all that it started at the limit.

    Args:
        words: Its arguments.
        folder: Where it runs.
        given: Its standard input.
        limit_s: How long it may take.
        variables: Variables besides those that every git gets.

    Raises:
        EngineError: Git is not installed.
        GitTimeoutError: It took longer than that.
        GitFailedError: It could not be started.
    """
    program = shutil.which("git")
    # A relative one would be looked for in the folder, which may be someone else's.
    if program is None or not os.path.isabs(program):
        raise EngineError("git", "is not installed", "install git 2.30 or later")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # Files, not pipes: an ssh that stays connected in the background would hold a pipe open long after git's end.
    with TemporaryFile() as source, TemporaryFile() as output, TemporaryFile() as errors:
        source.write(given)
        source.seek(0)
        try:
            process = subprocess.Popen(  # noqa: S603 - git itself, and no shell reads its words
                [program, *_OPTIONS, *words],
                stdin=source,
                stdout=output,
                stderr=errors,
                cwd=folder,
                env={**environment, **_VARIABLES, **variables},
                # Without a terminal nothing can ask, and what git started ends with it.
                start_new_session=True,
            )
        except OSError as error:
            raise GitFailedError(f"git cannot be run: {error.strerror}") from error
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise GitTimeoutError(f"git did not end within {limit_s:g} s") from None
        finally:
            # After Ctrl-C too: the signal of the terminal does not reach a session of its own.
            if process.returncode is None:
                _end(process)
        output.seek(0)
        errors.seek(0)
        return Done(code, output.read(), errors.read())


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
