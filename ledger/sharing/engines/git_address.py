"""Where a book is in git: addresses of remotes, a remote of the user's repository, and the names of books."""

from __future__ import annotations

import os
import re
from typing import NamedTuple
import unicodedata
from urllib.parse import SplitResult, unquote, urlsplit

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.line import digest
from tallybook.ledger.sharing.engines import git_process

TOP = "main"
"""The book of a project at the top of its repository."""
DEFAULT_REMOTE = "origin"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HELPER = re.compile(r"[A-Za-z0-9+.-]*::")
_SCP = re.compile(r"(?:[\w.+~][\w.+~-]*@)?(?:[\w.][\w.-]*|\[[\w.:]+\]):[^-].*", re.DOTALL)
_BOOK = re.compile(r"(?!.*\.\.)(?!.*\.lock\Z)[A-Za-z0-9_+=-](?:[A-Za-z0-9_.+=-]*[A-Za-z0-9_+=-])?", re.DOTALL)
_BOOK_CHARS = 150
_HINT = "use https://…, ssh://…, user@host:path, file:///… or a path"
# Git asks the helper alone, and only for the address's own server; it never stores what the helper returns.
_HELPER_COMMAND = (
    '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n"'
    ' "$TALLYBOOK_SHARE_USER" "$TALLYBOOK_SHARE_PASSWORD"; }; f'
)


class Address(NamedTuple):
    """The address of a remote.

    Attributes:
        url: What git is given. It never holds a password, because every user sees the arguments of a process.
        shown: What messages show.
        options: Options of git that pass on the password of the address.
        variables: Variables in which git's processes find the password.
    """

    url: str
    shown: str
    options: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()


def parse_address(text: str, folder: str = "") -> Address:
    """Return an address that git may be given.

    Args:
        text: The address as typed or configured.
        folder: Where a relative path begins; empty for the working directory.

    Raises:
        BadInputError: It is not an address over https, ssh or the file system. The message shows no password.
    """
    shown = re.sub(r"//[^/]*@", "//", text)
    scheme = _SCHEME.match(text)
    if not text.isprintable() or not text or text.startswith("-"):
        raise BadInputError(f"{shown!a}", "is not the address of a git remote", _HINT)
    if scheme:
        return _parse_url(text, scheme[1].lower(), shown)
    if _HELPER.match(text):
        raise BadInputError(shown, "names a remote helper of git, which could run any command", _HINT)
    if os.path.isabs(text) or ":" not in text.partition("/")[0]:
        path = os.path.abspath(os.path.join(folder, text))
        return Address(path, path)
    if not _SCP.fullmatch(text):
        raise BadInputError(shown, "is not the address of a git remote", _HINT)
    return Address(text, text)


def _parse_url(text: str, scheme: str, shown: str) -> Address:
    """Return the address that a URL names."""
    if scheme == "file" and text[len("file://") :].startswith("/"):
        return Address(text, text)
    if scheme not in {"https", "ssh"}:
        raise BadInputError(shown, f"git is not used over {scheme}:// here", _HINT)
    try:
        parts = urlsplit(text)
        valid = bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid or parts.netloc.startswith("-") or (parts.hostname or "").startswith("-"):
        raise BadInputError(shown, "names no server", _HINT)
    if scheme == "ssh":
        if parts.password is not None:
            raise BadInputError(shown, "ssh takes no password from an address", "use a key")
        return Address(text, text)
    return _https(parts)


def _https(parts: SplitResult) -> Address:
    """Return an address over https; a password in it is passed on in the environment."""
    host = parts.netloc.rpartition("@")[2]
    bare = parts._replace(netloc=host).geturl()
    if parts.password is None:
        # The name alone may choose among the user's own credentials.
        return Address(parts.geturl(), bare)
    user, password = unquote(parts.username or ""), unquote(parts.password)
    if not (user + password).isprintable():
        raise BadInputError(bare, "its password has control characters", "use a token")
    options = []
    for helper in ("", _HELPER_COMMAND):
        options += ["-c", f"credential.https://{host}.helper={helper}"]
    variables = (("TALLYBOOK_SHARE_USER", user), ("TALLYBOOK_SHARE_PASSWORD", password))
    return Address(bare, bare, tuple(options), variables)


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
    done = git_process.run_git(["config", "--null", "--get-all", f"remote.{name}.url"], folder=folder)
    text = os.fsdecode(done.output.partition(b"\0")[0])
    if done.code or not text:
        raise BadInputError(f"remote {name}", f"{top} has none of this name", "give an address")
    try:
        address = parse_address(text, top)
    except BadInputError:
        # Outside of the repository, so that only the user's configuration counts.
        resolved = git_process.run_git(["ls-remote", "--get-url", "--", text], folder=os.path.abspath(os.sep))
        text = os.fsdecode(resolved.output).removesuffix("\n")
        address = parse_address(text, top)
    return address.url if os.path.isabs(address.url) else text


def default_book(folder: str) -> str:
    """Return the name of the book of a project by default: its path below the top of its repository.

    Two paths never have the same name, and the same path has the same name on every machine.

    Raises:
        BadInputError: The folder is in no repository.
    """
    path = _ask(folder, "--show-prefix", "name the book with --book NAME").rstrip("/")
    if not path:
        return TOP
    # File systems differ in how they compose letters.
    path = unicodedata.normalize("NFC", path)
    name = "".join(map(_safe, path))
    if name == TOP:
        # Not the name of the top folder's book.
        name = f"={ord(name[0]):02X}{name[1:]}"
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
    done = git_process.run_git(["rev-parse", question], folder=folder)
    if done.code:
        raise BadInputError(folder, done.reason.partition(" (or any")[0], hint)
    return os.fsdecode(done.output).removesuffix("\n")
