"""Running git, its addresses, a remote of the user's repository, and names of books."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
import os
import re
import shutil
import signal
import subprocess
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import NamedTuple
import unicodedata
from urllib.parse import unquote, urlsplit

from tallybook.ledger.errors import EXIT_NOT_WRITTEN, BadInputError, TallybookError
from tallybook.ledger.line import digest

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


class GitFailedError(TallybookError):
    """Git is missing, refused, or could not do what was asked; the text is its reason, in one line."""

    exit_code = EXIT_NOT_WRITTEN


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
        GitFailedError: It is not installed, took longer than that, or could not be started.
    """
    program = shutil.which("git")
    # A relative one would be looked for in the folder, which may be someone else's.
    if program is None or not os.path.isabs(program):
        raise GitFailedError("git is not installed; install git 2.30 or later")
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
            raise GitFailedError(f"git did not end within {limit_s:g} s") from None
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


DEFAULT_REMOTE = "origin"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
# Two colons would name a helper of git, which can run any command.
_SCP = re.compile(r"(?:[\w.+~][\w.+~-]*@)?(?:[\w.][\w.-]*|\[[\w.:]+\]):[^-:].*", re.DOTALL)
_BOOK = re.compile(r"(?!.*\.\.)(?!.*\.lock\Z)[A-Za-z0-9_+=-](?:[A-Za-z0-9_.+=-]*[A-Za-z0-9_+=-])?", re.DOTALL)
_BOOK_CHARS = 150
_TOKEN_CHARS = 20
# Git asks the helper alone, and only for the address's own server; it never stores what the helper returns.
_HELPER = '!f() { test "$1" = get && printf "username=%s\\npassword=%%s\\n" "$%s"; }; f'


def check_address(text: str, folder: str = "") -> str:
    """Return an address as git may be given it.

    Args:
        text: The address as typed or configured.
        folder: Where a relative path begins; empty for the working directory.

    Raises:
        BadInputError: It is not an address over https, ssh or the file system, or it holds a password or a token,
            which the message does not show.
    """
    scheme = _SCHEME.match(text)
    is_path = scheme is None and (os.path.isabs(text) or ":" not in text.partition("/")[0])
    if text.isprintable() and text and not text.startswith("-"):
        if is_path:
            return os.path.abspath(os.path.join(folder, text))
        # USER:PASSWORD@HOST:PATH would be a path on the host USER.
        is_scp = _SCP.fullmatch(text) and "@" not in text.partition(":")[2]
        if _is_url(text, scheme[1].lower()) if scheme else is_scp:
            return text
    hint = "use https://…, ssh://…, user@host:path, file:///… or a path"
    raise BadInputError(repr(_describe(text)), "is not the address of a git remote", hint)


def _is_url(text: str, scheme: str) -> bool:
    """Return whether git is used over a URL.

    Raises:
        BadInputError: It holds a password or a token.
    """
    if scheme == "file":
        return text[len("file://") :].startswith("/")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "-", parts.port
    except ValueError:
        return False
    user = parts.username or ""
    # A token often stands in a user's place.
    is_token = len(user) >= _TOKEN_CHARS and any(map(str.isdigit, user)) and "@" not in unquote(user)
    if parts.password is not None or is_token or parts.query or (parts.fragment and scheme == "https"):
        hint = "leave it out: git asks your credential helper; in CI, give --token-env NAME, a variable with the token"
        raise BadInputError(_describe(text), "its address holds a password or token", hint)
    # Git or ssh would read a host that begins so as an option.
    return scheme in {"https", "ssh"} and not parts.netloc.startswith("-") and not host.startswith("-")


def _describe(text: str) -> str:
    """Return an address without what may be a password or a token."""
    scheme, _, place = text.rpartition("://")
    return re.split("[?#]", f"{scheme}://{place.rpartition('@')[2]}".removeprefix("://"))[0]


def token_options(address: str, variable: str) -> list[str]:
    """Return the options by which git takes a token from a variable, for the server of an address alone.

    Raises:
        BadInputError: The variable is not set, or the address is not one over https.
    """
    if not variable:
        return []
    parts = urlsplit(address)
    user = parts.username or "x-access-token"
    # The shell reads both.
    if parts.scheme != "https" or not _WORD.fullmatch(variable) or not _WORD.fullmatch(user):
        raise BadInputError("--token-env", "is the name of a variable, for an address over https", "leave it out")
    if not os.environ.get(variable):
        # Who gives the token itself must not see it here.
        raise BadInputError("--token-env", "names a variable that is not set", "set it to the token")
    place = f"credential.https://{parts.netloc.rpartition('@')[2]}.helper="
    # An empty helper drops those of the user, which would be asked first, and given the token to store.
    return ["-c", place, "-c", place + _HELPER % (user, variable)]


def read_remote(folder: str, name: str = DEFAULT_REMOTE) -> str:
    """Return the address of a remote of the user's repository, which is read once and never changed.

    Nothing that the repository configures runs. An address in a form that only the user's own ``url.*.insteadOf``
    explains is returned as that explains it.

    Args:
        folder: A folder in the repository.
        name: The remote.

    Raises:
        BadInputError: The folder is in no repository, has no such remote, or the address is not usable.
    """
    top = _ask(folder, "--show-toplevel", "give an address of a git remote")
    done = run_git(["config", "--null", "--get-all", f"remote.{name}.url"], folder=folder)
    text = os.fsdecode(done.output.partition(b"\0")[0])
    if done.code or not text:
        raise BadInputError(f"remote {name}", f"{top} has none of this name", "give an address")
    with suppress(BadInputError):
        return check_address(text, top)
    # Outside of the repository, so that only the user's configuration counts.
    resolved = run_git(["ls-remote", "--get-url", "--", text], folder=os.path.abspath(os.sep))
    return check_address(os.fsdecode(resolved.output).removesuffix("\n"), top)


def default_book(folder: str, remote: str = DEFAULT_REMOTE) -> str:
    """Return the name of the book of a project by default: its remote's owner and repository, and its path below.

    A clone over https and one over ssh have the same name; two projects never have.

    Raises:
        BadInputError: The folder is in no repository, or this has no such remote.
    """
    address = read_remote(folder, remote)
    if _SCHEME.match(address):
        parts = urlsplit(address)
        place, is_folder = unquote(parts.path), parts.scheme == "file"
    else:
        is_folder = os.path.isabs(address)
        place = address if is_folder else re.sub(r"^(?:[^:\[]*|[^\[]*\[[^\]]*\]):", "", address)
    place = place.strip("/~").removesuffix(".git")
    # Machines may see a folder under different paths; services take capitals for small letters.
    place = place.rpartition("/")[2] if is_folder else place.lower()
    path = _ask(folder, "--show-prefix", "name the book with --book NAME").rstrip("/")
    # File systems differ in how they compose letters.
    path = unicodedata.normalize("NFC", f"{place}/{path}").strip("/")
    name = "".join(map(_safe, path))
    if len(name) > _BOOK_CHARS:
        # The digest contains no `=`, so it is not mistaken for a path.
        name = f"{name[: _BOOK_CHARS - 34]}=-{digest(path.encode('utf-8', 'surrogateescape'))}"
    return name


def _safe(char: str) -> str:
    """Return a character of a path as a book's name has it: ``/`` as ``+``, odd ones as ``=XX`` for each byte."""
    if char == "/":
        return "+"
    if char.isascii() and (char.isalnum() or char in "_-"):
        return char
    return "".join(f"={byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))


def check_book(name: str) -> None:
    """Refuse a name that no branch could have.

    Raises:
        BadInputError: It is not valid.
    """
    if not _BOOK.fullmatch(name) or len(name) > _BOOK_CHARS:
        hint = f"use at most {_BOOK_CHARS} letters, digits, and the characters _ - + = and single dots inside"
        raise BadInputError(f"book {name!a}", "is not a name for a branch", hint)


def _ask(folder: str, question: str, hint: str) -> str:
    """Return what git says of a folder of the user's repository.

    Raises:
        BadInputError: It is in no repository; the message ends with the hint.
    """
    done = run_git(["rev-parse", question], folder=folder)
    if done.code:
        raise BadInputError(folder, done.reason.partition(" (or any")[0], hint)
    return os.fsdecode(done.output).removesuffix("\n")
