"""Where a book is in git: addresses of remotes, a remote of the user's repository, and the names of books."""

from __future__ import annotations

from contextlib import suppress
import os
import re
import unicodedata
from urllib.parse import unquote, urlsplit

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.line import digest
from tallybook.ledger.sharing.engines import git_process

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
    if parts.password is not None or is_token or parts.query:
        hint = "leave it out: git asks your credential helper; in CI, give --token-env NAME, a variable with the token"
        raise BadInputError(_describe(text), "its address holds a password or token", hint)
    # Git or ssh would read a host that begins so as an option.
    return scheme in {"https", "ssh"} and not parts.netloc.startswith("-") and not host.startswith("-")


def _describe(text: str) -> str:
    """Return an address without what may be a password or a token."""
    scheme, _, place = text.rpartition("://")
    return f"{scheme}://{place.rpartition('@')[2]}".removeprefix("://").partition("?")[0]


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
    done = git_process.run_git(["config", "--null", "--get-all", f"remote.{name}.url"], folder=folder)
    text = os.fsdecode(done.output.partition(b"\0")[0])
    if done.code or not text:
        raise BadInputError(f"remote {name}", f"{top} has none of this name", "give an address")
    with suppress(BadInputError):
        return check_address(text, top)
    # Outside of the repository, so that only the user's configuration counts.
    resolved = git_process.run_git(["ls-remote", "--get-url", "--", text], folder=os.path.abspath(os.sep))
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
    done = git_process.run_git(["rev-parse", question], folder=folder)
    if done.code:
        raise BadInputError(folder, done.reason.partition(" (or any")[0], hint)
    return os.fsdecode(done.output).removesuffix("\n")
