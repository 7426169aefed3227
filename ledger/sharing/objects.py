"""A book in an object store, by the library obstore: S3 and compatible stores, Google, Azure, or a local folder.

Run 4711 is the object ``PREFIX/BOOK/runs/000000004711.jsonl``; the store creates it only if there is none.
A folder is for tests and for disks of a single user: obstore flushes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib import import_module
import os
import re
import shlex
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

import obstore
from obstore import exceptions
import obstore.store

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.sharing import engine

INSTANCE: Final = "instance"
"""What ``--profile`` says for the role that the cloud gives this machine."""
_HINT: Final = "use s3://BUCKET/PATH, gs://BUCKET/PATH, az://CONTAINER/PATH?account=NAME or file:///FOLDER"
_CLASSES: Final = {"s3": "S3Store", "gs": "GCSStore", "az": "AzureStore", "file": "LocalStore"}
_OPTIONS: Final = {"s3": {"endpoint": "endpoint", "region": "region"}, "az": {"account": "account_name"}}
_VARIABLES: Final = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
    "gs": ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT"),
    "az": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"),
}
"""Scheme → the variables of which one must be set: without, the library asks the cloud's metadata address."""
_LOOPBACK: Final = ("localhost", "127.0.0.1")
_KEY: Final = re.compile(r"(\d{12})\.jsonl")
_AT_ONCE: Final = 16
# Ten tries in three minutes, which the library makes by default, are too long for a sync.
_RETRIES: Final = 2
_REASON_CHARS: Final = 300


class ObjectStore(engine.Store):
    """Holds the runs of a book as objects.

    Attributes:
        address: As in `Store`.
        segments: The series of segments; None for that series itself.
    """

    def __init__(
        self, address: str, book: str, limit_s: float = 60.0, *, login: str = "", series: str = "runs"
    ) -> None:
        """Connect to nothing yet.

        Args:
            address: ``s3://``, ``gs://`` or ``az://`` with bucket and path, or ``file://`` with a folder.
            book: The book's name.
            limit_s: How many seconds a request may take.
            login: A profile of AWS, or the role of this machine; empty for the usual variables.
            series: The name of the series of numbers.

        Raises:
            BadInputError: The address is not one, or holds a secret, or no login is set.
        """
        self._parts = _check_address(address, login)
        self.address = address
        if series == "runs":
            self.segments = ObjectStore(address, book, limit_s, login=login, series="segments")
        self._login = login
        self._limit_s = limit_s
        path = "" if self._parts.scheme == "file" else self._parts.path.strip("/")
        self._folder = f"{path}/{book}/{series}/".lstrip("/")
        self._client: Any = None

    def list(self, after: int) -> Sequence[engine.StoredRun]:
        """Return the numbers of the objects; other names are passed over."""
        entries = []
        with self._raise_unreachable():
            for rows in obstore.list(self._connect(), prefix=self._folder, offset=self._key(after)):
                for row in rows:
                    match = _KEY.fullmatch(row["path"].removeprefix(self._folder))
                    # A folder lists what is left of a put that was cut short, and in no order.
                    if match and int(match[1]) > after:
                        entries.append(engine.StoredRun(int(match[1]), _tag(row), row["size"]))
        return sorted(entries)

    def get(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return the objects of numbers, several at once."""
        # One after another, 100,000 runs would take most of an hour at 30 ms a request.
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = zip(numbers, pool.map(self._get, numbers), strict=True)
            return {number: data for number, data in found if data is not None}

    def _get(self, number: int) -> bytes | None:
        with self._raise_unreachable(), suppress(FileNotFoundError):
            return bytes(obstore.get(self._connect(), self._key(number)).bytes())
        return None

    def put(self, number: int, data: bytes, mode: Any = "create") -> str | None:
        """Create an object, unless there is one of this number."""
        try:
            result = obstore.put(self._connect(), self._key(number), data, mode=mode)
        except exceptions.AlreadyExistsError:
            # S3 says so as well where two puts meet and none is stored, and the library where its own first try was
            # taken.
            return None
        except exceptions.PermissionDeniedError as error:
            raise engine.ReadOnlyError(self.address, _reason(error)) from error
        except FileNotFoundError as error:
            raise engine.UnreachableError(self.address, _reason(error)) from error
        except exceptions.BaseError:
            # All other failures are one class, an answer that was lost after the store took the object among them.
            return None
        return _tag(result)

    def erase(self, before: int) -> None:
        """Overwrite earlier objects with nothing: after a delete their numbers would be free again."""
        for entry in self.list(0):
            is_there = entry.number < before and entry.size
            if is_there and self.put(entry.number, b"", "overwrite") is None:
                raise engine.UnreachableError(self.address, f"run {entry.number} could not be erased", "run it again")

    def describe_remains(self) -> str:
        """Say that a store with versions keeps them, which obstore cannot delete."""
        if not (entries := self.list(0)) or self._parts.scheme == "file":
            return ""
        with self._raise_unreachable():
            version = obstore.head(self._connect(), self._key(entries[-1].number)).get("version")
        if version is None:
            return ""
        if self._parts.scheme != "s3":
            return f"where versions or soft deletes are on, the store keeps erased objects of {self._folder}"
        endpoint = dict(parse_qsl(self._parts.query)).get("endpoint", "")
        aws = f"aws --endpoint-url {endpoint} s3api" if endpoint else "aws s3api"
        prefix = shlex.quote(self._folder.removesuffix("runs/"))
        return (
            "the bucket keeps versions of erased runs, and an object lock forbids to delete them until it ends; "
            f"its operator runs: {aws} list-object-versions --bucket {self._parts.netloc} --prefix {prefix} "
            "--output text --query 'Versions[?!IsLatest].[Key,VersionId]' | xargs -n 2 sh -c '"
            f'{aws} delete-object --bucket {self._parts.netloc} --key "$0" --version-id "$1" || :\''
        )

    def _key(self, number: int) -> str:
        # A list goes on after a name, and digits of one length keep names in the order of the numbers.
        return f"{self._folder}{number:012d}.jsonl"

    @contextmanager
    def _raise_unreachable(self) -> Iterator[None]:
        """Say of a question that fails that the store cannot be reached."""
        try:
            yield
        except engine.EngineError:
            raise
        except Exception as error:
            raise engine.UnreachableError(self.address, _reason(error)) from error

    def _connect(self) -> Any:
        """Return the library's store, which asks nothing yet."""
        if self._client is None:
            parts, given = self._parts, dict(parse_qsl(self._parts.query))
            scheme, limit = parts.scheme, timedelta(seconds=self._limit_s)
            if scheme == "file" and not os.path.isdir(parts.path):
                hint = f"create the folder (`mkdir -p {shlex.quote(parts.path)}`), and run this again"
                raise engine.UnreachableError(self.address, f"{parts.path} is not a folder", hint)
            options: dict[str, Any] = {_OPTIONS[scheme][name]: value for name, value in given.items()}
            if scheme != "file":
                is_plain = given.get("endpoint", "").startswith("http:")
                options["client_options"] = {"connect_timeout": limit, "timeout": limit, "allow_http": is_plain}
                options["retry_config"] = {"max_retries": _RETRIES, "retry_timeout": limit}
            if scheme == "s3":
                # A bucket with an object lock takes nothing without one.
                options["checksum_algorithm"] = "SHA256"
            # The library reads variables alone, and no profile of ~/.aws.
            if self._login not in {"", INSTANCE}:
                options["credential_provider"] = _profile(self._login)
            self._client = getattr(obstore.store, _CLASSES[scheme])(parts.netloc or parts.path, **options)
        return self._client


def _profile(name: str) -> Any:
    """Return what asks for the keys of a profile of AWS.

    Raises:
        MissingLibraryError: boto3, which reads profiles, is not installed.
    """
    try:
        # Only who names a profile needs it, and it takes a while.
        boto3 = import_module("boto3")
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise engine.MissingLibraryError(f"--profile {name}", "boto3", "run: pip install boto3") from error
    return Boto3CredentialProvider(boto3.Session(profile_name=name))


def _check_address(address: str, login: str) -> SplitResult:
    """Return the parts of an address.

    Raises:
        BadInputError: It is not one, or holds a secret, or no login is set.
    """
    parts = urlsplit(address)
    scheme, options = parts.scheme, dict(parse_qsl(parts.query, keep_blank_values=True))
    endpoint = urlsplit(options.get("endpoint", "https://x"))
    is_place = bool(parts.path.strip("/") and not parts.netloc if scheme == "file" else parts.netloc)
    if scheme not in _CLASSES or not is_place or not address.isprintable():
        raise BadInputError("ADDRESS", "is not that of an object store", _HINT)
    is_secretive = "@" in parts.netloc + endpoint.netloc or parts.fragment or endpoint.query or endpoint.fragment
    if is_secretive or options.keys() - _OPTIONS.get(scheme, {}).keys() or not all(options.values()):
        why = "holds a login or an unknown option; keys are taken from the cloud's usual variables, or --profile NAME"
        raise BadInputError(f"{scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}", why, _HINT)
    if endpoint.scheme != "https" and endpoint.hostname not in _LOOPBACK:
        raise BadInputError(options["endpoint"], "is not protected", "use an endpoint over https")
    if login and scheme != "s3" and login != INSTANCE:
        raise BadInputError(f"--profile {login}", f"{scheme}:// has none", f"set {_VARIABLES.get(scheme, ('',))[0]}")
    if not login and scheme != "file" and not any(map(os.environ.get, _VARIABLES[scheme])):
        hint = f"set {_VARIABLES[scheme][0]}, or give --profile NAME; --profile {INSTANCE} is the role of this machine"
        raise BadInputError(address, "no login is set", hint)
    return parts


def _tag(row: Any) -> str:
    """Return an object's tag, which Azure puts into quotes in the answer to a put and not in a list."""
    return (row["e_tag"] or "").strip('"')


def _reason(error: Exception) -> str:
    """Return the first line of the library's message, without what the server sent and without queries."""
    # What follows in the library's message is a dump over many lines.
    line = str(error).partition("\n")[0].partition(": <")[0]
    return re.sub(r"\?\S*", "", line)[:_REASON_CHARS]
