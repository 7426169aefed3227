"""Which project shares which book: a file for each in the user's own settings, and the engine that it names.

Only the user's own settings turn sharing on. Ledger id, real path, book and address must fit together: a project
that was moved, copied or cloned sends and fetches nothing until the user joins the book again.
"""

from __future__ import annotations

from contextlib import suppress
import hashlib
from importlib import import_module
from importlib.util import find_spec
import json
import os
from pathlib import Path
import re
import shlex
import sys
from typing import Any, Final

import attrs
import msgspec

from tallybook.ledger import clock
from tallybook.ledger.errors import EXIT_NO, BadInputError, CannotWriteError, TallybookError
from tallybook.ledger.line import LOG_NAME
from tallybook.ledger.sharing.engine import Engine, MissingLibraryError, Store
from tallybook.ledger.storage import caches, disk
from tallybook.ledger.storage.head import ledger_id
from tallybook.projections.surfaces.hooks.ledger_access import membership_file
from tallybook.projections.surfaces.workspace.project import Project

LOGINS = {"git": "token_env", "postgres": "password_file", "objects": "profile"}
"""Name of an engine → the option of `share` that says where it finds what it logs in with."""
# Of an address in another form all but the place may be a password or a token.
_PLAIN: Final = re.compile(
    r"/.*|file://.*|service=[\w.-]+|(?!(?!ssh:)\w+://.*#)(?:\w+://)?(?:[^:@/?\s]{1,19}@)?[^@?=\s]*"
    r"(?:\?(?:&?(?:endpoint|region|account|sslmode)=(?:[^@&?%\s]|%(?!3F|23|40))*)*)?",
    re.DOTALL,
)
_LABEL_CHARS = 40
_LEFT = ".left"
_RANDOM_BYTES = 4


class NotSharedError(TallybookError):
    """The project shares no book, or its settings do not fit."""

    exit_code = EXIT_NO


@attrs.frozen
class Membership:
    """One project's part in one book.

    Attributes:
        name: Name of the book.
        engine: Name of the engine: git, objects, postgres.
        address: Address of the engine, without a password.
        writer: Label of this machine in the book.
        ledger: Id of the own ledger.
        path: Real path of the ledger's folder.
        book: Id of the book; empty until the first sync.
        end: Event number and chain value of the replica's end at the last sync.
        unmasked: Digests of own texts that leave as they are, although a secret was found in them.
        before: The same before what was appended to it last, which a sync that was killed may not have done.
        read_only: Whether this machine never publishes.
        login: The name of a variable with git's token, of a file with PostgreSQL's password, or of an object store's
            profile; empty for the usual places of the engine.
    """

    name: str
    engine: str
    address: str
    writer: str
    ledger: str = ""
    path: str = ""
    book: str = ""
    end: tuple[int, str] = (0, "")
    unmasked: tuple[str, ...] = ()
    login: str = ""
    before: tuple[int, str] = (0, "")
    read_only: bool = False

    @property
    def shown_address(self) -> str:
        """Return the address without a password or token, which a person may have written into the settings."""
        return _without_secrets(self.address)


def _without_secrets(address: str) -> str:
    if _PLAIN.fullmatch(address):
        return address
    return re.split(r"[?#\s]", address.rpartition("@")[2])[0]


def digest(text: str) -> str:
    """Return the digest of a text, as the user's private settings hold it."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def new_writer(label: str) -> str:
    """Return the label of a machine in a book: what its user calls it, and random characters that tell copies apart."""
    letters = "".join(char if char.isalnum() or char in "-_." else "-" for char in label)[:_LABEL_CHARS]
    return f"{letters or 'machine'}-{clock.new_secret(_RANDOM_BYTES).hex()}"


def _file(project: Project) -> Path:
    return Path(membership_file(project))


def load(project: Project) -> Membership | None:
    """Return the project's part in a book as the user's settings have it; None where it shares none.

    Settings of another ledger or another place do not count: ``load`` is by the real path, and the id must fit.
    """
    membership = _read(_file(project))
    if membership is None or membership.path != os.path.realpath(project.ledger):
        return None
    own = ledger_id(project.ledger / LOG_NAME)
    return membership if own in {"", membership.ledger} else None


def _read(path: Path) -> Membership | None:
    with suppress(OSError, CannotWriteError, ValueError):
        # Fields that other versions write are passed over. A path that is not UTF-8 has characters that the decoder of
        # msgspec refuses.
        return msgspec.convert(json.loads(disk.read_file(path)), Membership)
    return None


def save(project: Project, membership: Membership) -> None:
    """Store the project's part in a book in the user's settings.

    Raises:
        CannotWriteError: The disk refuses.
    """
    path = _file(project)
    disk.make_folder(path.parent)
    text = json.dumps(attrs.asdict(membership), indent=2)
    # Addresses, and where their passwords are, are for nobody else to read.
    disk.replace_file(path, text.encode() + b"\n", private=True)


def forget(project: Project) -> bool:
    """Turn sharing off: the project's part in a book no longer counts; False where there is none."""
    path = _file(project)
    with suppress(FileNotFoundError):
        # Kept under another name: who shares again goes on under the same label, with the same copy.
        path.replace(path.with_suffix(_LEFT))
        return True
    return False


def last_known(project: Project) -> Membership | None:
    """Return the project's part in a book, or the one that it had until sharing was turned off."""
    former = _read(_file(project).with_suffix(_LEFT))
    is_former = former is not None and former.ledger == ledger_id(project.ledger / LOG_NAME)
    return load(project) or (former if is_former else None)


def find_misfit(project: Project) -> tuple[str, str] | None:
    """Return why settings that share a book do not count here, and the command that shares it; None without such.

    The project was moved or copied, or its ledger was replaced.
    """
    own, here = ledger_id(project.ledger / LOG_NAME), os.path.realpath(project.ledger)
    # The name of a file follows from the place, so a project that was moved has it under the former one.
    paths = [_file(project), *sorted(_file(project).parent.glob("*.json"))] if own else []
    for part in (found for found in map(_read, paths) if found is not None):
        if part.ledger == own and part.path != here:
            return f"{part.path} shares the book {part.name}", command_of(part)
        if part.ledger != own and part.path == here:
            return f"another ledger in this place shared the book {part.name}", command_of(part)
    return None


def command_of(part: Membership) -> str:
    """Return the command by which a machine has its part in a book."""
    return share_command(part.engine, part.address, part.name, part.login, read_only=part.read_only)


def share_command(engine: str, address: str, name: str, login: str = "", *, read_only: bool = False) -> str:
    """Return the command that shares a book."""
    words = ["tallybook", "share", engine, _without_secrets(address), "--book", name]
    if login:
        words += [f"--{LOGINS[engine].replace('_', '-')}", login]
    # Without it, a machine that only read would publish.
    return shlex.join([*words, *["--read-only"] * read_only])


def require(project: Project) -> Membership:
    """Return the project's part in a book.

    Raises:
        NotSharedError: It has none.
    """
    membership = load(project)
    if membership is not None:
        return membership
    misfit = find_misfit(project)
    why = "no book; see `tallybook share --help`" if misfit is None else f"nothing here; {misfit[0]}; run: {misfit[1]}"
    raise NotSharedError(f"{project.root}: shares {why}")


LIMIT_S: Final = 60.0
"""How many seconds an engine may take to answer, unless a shorter limit is given or it has a shorter one of its own."""
_LEAST_LIMIT_S: Final = 2.0
CACHE: Final = "books"
"""Folder in the user's cache folder for what engines keep there."""


def open_store(part: Membership, ledger: Path, limit_s: float) -> Store:
    """Return the store of a book, of a class whose module is loaded only now: its client may not be installed."""
    folder = {"folder": cache_of(part.address, part.name, ledger)} if part.engine == "git" else {}
    store: Any = getattr(import_module(f"tallybook.ledger.sharing.{part.engine}"), ENGINES[part.engine])
    opened: Store = store(part.address, part.name, login=part.login, limit_s=limit_s, **folder)
    return opened


def cache_of(address: str, name: str, ledger: Path) -> str | None:
    """Return git's repository for a book in the user's cache folder; None where there is no such folder that is safe.

    One in the project could be somebody else's, with a configuration that runs a command.
    """
    base = caches.user_folder()
    # A folder that others may write to could bring a configuration as well.
    if not base or caches.find_fault(base, os.path.realpath(ledger)):
        return None
    return str(Path(base, CACHE, caches.path_digest(f"{address}\n{name}")))


ENGINES: Final = {"git": "GitStore", "postgres": "PostgresStore", "objects": "ObjectStore"}
"""Name of an engine, which is also that of its module → the class of its store."""

LIBRARIES: Final = {"postgres": "psycopg[binary]", "objects": "obstore"}
"""Name of an engine → the package that installs its client library."""


def install_command(package: str) -> str:
    """Return the command line that adds a package where this Tallybook is installed.

    It names the package itself: ``tallybook[EXTRA]`` can be resolved only where Tallybook came from an index.
    """
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").is_file():
        return shlex.join(["pipx", "inject", prefix.name, package])
    # As in an environment of uv, or of a tool that it installed.
    if find_spec("pip") is None:
        return shlex.join(["uv", "pip", "install", "--python", sys.executable, package])
    return shlex.join([sys.executable, "-m", "pip", "install", package])


def open_engine(part: Membership, ledger: Path, *, limit_s: float = LIMIT_S) -> Engine:
    """Return the engine of a book for a ledger, with a limit for each of its answers; nothing is asked of it yet.

    Raises:
        BadInputError: There is no such engine, or it does not take the address.
        MissingLibraryError: Its client library is not installed.
    """
    if part.engine not in ENGINES:
        raise BadInputError(part.engine, "is not an engine", f"use {', '.join(ENGINES)}")
    try:
        store = open_store(part, ledger, min(max(limit_s, _LEAST_LIMIT_S), LIMIT_S))
    except ImportError as error:
        package = LIBRARIES[part.engine]
        raise MissingLibraryError(part.engine, package, f"run: {install_command(package)}") from error
    return Engine(store, read_only=part.read_only)
