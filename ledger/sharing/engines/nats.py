"""The engine over NATS JetStream: a stream for each book, a message for each run, appended one at a time.

The stream of a book has one subject, which ends in characters drawn when the stream was made: an append for a stream
that was deleted or replaced meanwhile reaches no stream at all. `nats-py` is loaded when an engine first connects.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from tallybook.ledger import clock
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.sharing.engines.engine import (
    NOTHING,
    Appended,
    Contents,
    End,
    Outcome,
    ReadOnlyError,
    UnreachableError,
)
from tallybook.ledger.sharing.engines.nats_connection import (
    Access,
    ApiError,
    LinkError,
    NobodyError,
    RefusedError,
    SilentError,
    read_answer,
)
from tallybook.ledger.sharing.engines.nats_messages import NEXT, TOP, Token, find_end, join_pieces, make_messages
from tallybook.ledger.sharing.engines.nats_servers import LIMIT_S, PAUSE_S, Servers
from tallybook.ledger.sharing.engines.nats_stream import (
    COPIES,
    PREFIX,
    Stream,
    describe,
    find_stream,
    list_streams,
    read_from,
    read_pieces,
    search,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from tallybook.ledger.sharing.engines.engine import Run

    T = TypeVar("T")

SCHEMES = ("nats", "tls")
RUN_BYTES = 256 * 1024
"""A message has at most so many bytes of a run."""
HEADER_BYTES = 4096
"""So much room is left for the headers of a message where servers take only smaller messages."""
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
WRONG_LAST = {10071, 10164}
NAME_IN_USE, TOO_FEW_SERVERS, NO_CLUSTER = 10058, 10005, 10074
CANNOT_TELL = {0, 10004, 10008}
"""With these JetStream does not say whether it stored the message."""


class NatsEngine:
    """Holds runs in a stream.

    Attributes:
        address: As in `Engine`.
        run_bytes: As in `Engine`.
        notes: What is unusual about the stream, for people: fewer than three copies, a limit that drops messages.
    """

    def __init__(
        self,
        address: str,
        book: str,
        access: Access | None = None,
        *,
        new_id: Callable[[], str] = clock.new_salt,
        limit_s: float = LIMIT_S,
    ) -> None:
        """Prepare; nothing is connected yet.

        Args:
            address: ``nats://host:port[,host:port]``, or ``tls://`` to accept no connection without TLS.
            book: The book's name.
            access: The user's credentials.
            new_id: Draws the characters that tell the streams of a book apart.
            limit_s: After how many seconds without an answer a question is given up, at most `LIMIT_S`.

        Raises:
            BadInputError: The address is not one, or holds a password.
        """
        scheme, hosts = check_address(address)
        access = access or Access()
        servers = hosts.split(",")
        self.address = f"{scheme}://{hosts}"
        self.run_bytes = RUN_BYTES
        self.notes: tuple[str, ...] = ()
        secure = scheme == "tls" or bool(access.ca or access.cert)
        self.servers = Servers(self.address, servers, access, secure=secure, limit_s=min(limit_s, LIMIT_S))
        # Names of streams and subjects take no dot; `quote` leaves it.
        self._book = quote(book, safe="").replace(".", "%2E")
        self._name = self._book
        self._new_id = new_id
        self._runner: asyncio.Runner | None = None
        # The last known place with its number; and the number with which a stream begins.
        self._hint: Token | None = None
        self._first: tuple[str, int, int] | None = None

    def read(self, after: int, limit: int | None = None) -> Contents:
        """Return what the stream holds after an event number, as its leader says."""
        return self._run(self._read(after, limit))

    def append(self, expected: End, runs: Sequence[Run]) -> Appended:
        """Store runs, if the stream still ends where that was expected."""
        return self._run(self._append(expected, runs))

    def replace(self, expected: End, runs: Sequence[Run]) -> Appended:
        """Store runs in a new stream, and let the last message of the old one name it.

        That message is appended as a run is, so nobody else can append between; the old stream stays until an
        operator deletes it.
        """
        return self._run(self._replace(expected, runs))

    def delete_others(self) -> list[str]:
        """Delete every stream of the book but the one that holds it, and return their names; an operator may.

        Raises:
            ReadOnlyError: This user may not delete streams.
            UnreachableError: The servers do not answer, or the book has no stream.
        """
        return self._run(self._delete_others())

    def close(self) -> None:
        """Close the connection."""
        if self._runner:
            with self._runner as runner:
                runner.run(self.servers.drop())
            self._runner = None

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._runner is None:
            self._runner = asyncio.Runner()
        results: list[T] = []

        async def keep() -> None:
            # Not returned: in CPython the runner's signal handler writes down the result's whole text, book and all.
            results.append(await work)

        self._runner.run(keep())
        return results[0]

    async def _find(self) -> Stream | None:
        stream = await find_stream(self.servers, self._book, self._name)
        self._name, self.notes = (stream.name, describe(stream)) if stream else (self._book, ())
        return stream

    async def _read(self, after: int, limit: int | None) -> Contents:
        stream = await self._find()
        if stream is None or stream.last is None:
            return Contents((), 0, NOTHING)
        first = await self._first_number(stream)
        if stream.last.run is None:
            # Another program's message does not say where the book ends.
            pieces = await read_pieces(self.servers, stream, stream.state["first_seq"])
            end = find_end(pieces, stream.generation)
        else:
            end = find_end([stream.last], stream.generation)
            pieces = [stream.last]
            if stream.last.top > after:
                start = await search(self.servers, stream, after, self._hint)
                pieces = pieces if start == stream.last.seq else await read_pieces(self.servers, stream, start, limit)
        more = bool(pieces) and pieces[-1].seq < stream.last.seq
        self._hint = Token.parse(find_end(pieces, stream.generation).token if more else end.token)
        runs = join_pieces(pieces, stream.name, after)
        return Contents(tuple(run for run in runs if run.last > after), first, end, more)

    async def _first_number(self, stream: Stream) -> int:
        seq = stream.state["first_seq"]
        if self._first is None or self._first[:2] != (stream.generation, seq):
            piece = await read_from(self.servers, stream, seq)
            self._first = (stream.generation, seq, piece.run.first if piece and piece.run else 0)
        return self._first[2]

    async def _append(self, expected: End, runs: Sequence[Run]) -> Appended:
        token = Token.parse(expected.token)
        if expected == NOTHING:
            stream = await self._find() or await self._make()
            if stream is None or stream.last:
                return Appended(Outcome.MOVED)
            token = Token(stream.generation, 0, 0)
        return await self._publish(token, runs) if token else Appended(Outcome.MOVED)

    async def _publish(self, token: Token, runs: Sequence[Run]) -> Appended:
        """Append runs after a message, one at a time."""
        link = await self.servers.connect_anew()
        size = min(RUN_BYTES, link.client.max_payload - HEADER_BYTES)
        end = End(0, "", str(token))
        for run in runs:
            for headers, data in make_messages(run, token.top, size):
                seq = await self._send(token, headers, data)
                if isinstance(seq, Outcome):
                    return Appended(seq)
                token = token._replace(seq=seq)
            token = token._replace(top=max(token.top, run.last))
            end = End(run.last, run.after, str(token))
        self._hint = token
        return Appended(Outcome.DONE, end)

    async def _send(self, token: Token, headers: dict[str, str], data: bytes) -> int | Outcome:
        """Return the sequence of a message that was stored, or why it was not."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self.servers.limit_s
        subject = f"{PREFIX}.{self._book}.{token.generation}"
        while True:
            link = await self.servers.connect()
            try:
                answer = await link.ask(subject, data, {**headers, EXPECTED: str(token.seq)})
                return int(read_answer(answer.data)["seq"])
            except RefusedError as error:
                raise ReadOnlyError(self.address, str(error)) from error
            except ApiError as error:
                if error.number in WRONG_LAST:
                    return Outcome.MOVED
                if error.number in CANNOT_TELL:
                    return Outcome.UNKNOWN
                raise ReadOnlyError(self.address, str(error)) from error
            except SilentError:
                await self.servers.drop()
                return Outcome.UNKNOWN
            except NobodyError:
                # The message went nowhere: the stream is gone, or has no leader for the moment.
                streams = await self.servers.read("STREAM.NAMES", {"subject": subject})
                if not streams.get("streams"):
                    return Outcome.MOVED
                if loop.time() > give_up:
                    return Outcome.UNKNOWN
            await asyncio.sleep(PAUSE_S)

    async def _make(self) -> Stream | None:
        try:
            return await self._create(self._book, self._new_id())
        except RefusedError as error:
            why = f"there is no stream {self._book}, and this user may not make it: {error}"
            raise UnreachableError(self.address, why, "let its owner run `tallybook share nats` first") from error

    async def _create(self, name: str, generation: str) -> Stream | None:
        """Make a stream with three copies, or as many as there are servers; None where that name is taken."""
        for copies in range(COPIES, 0, -1):
            config: dict[str, object] = {
                "name": name,
                "subjects": [f"{PREFIX}.{self._book}.{generation}"],
                "description": "A shared book of Tallybook. Its messages are never changed.",
                "retention": "limits",
                "storage": "file",
                "discard": "new",
                "num_replicas": copies,
                "max_age": 0,
                "max_msgs": -1,
                "max_bytes": -1,
                "max_msgs_per_subject": -1,
                "deny_purge": True,
                "allow_direct": False,
            }
            try:
                info = await self.servers.ask(f"STREAM.CREATE.{name}", config)
            except ApiError as error:
                if error.number == NAME_IN_USE:
                    return None
                too_few = error.number == NO_CLUSTER or (error.number == TOO_FEW_SERVERS and is_small(str(error)))
                if not too_few or copies == 1:
                    raise UnreachableError(self.address, f"the stream {name} cannot be made: {error}") from error
            else:
                stream = Stream(name, generation, info["config"], info["state"], None)
                self.notes = describe(stream)
                return stream
        return None

    async def _replace(self, expected: End, runs: Sequence[Run]) -> Appended:
        stream = await self._find()
        if stream is None:
            return await self._append(expected, runs)
        last = find_end([stream.last], stream.generation) if stream.last else NOTHING
        token = Token.parse(last.token) or Token(stream.generation, 0, 0)
        if (Token.parse(expected.token) or Token(stream.generation, 0, 0))[:2] != token[:2]:
            return Appended(Outcome.MOVED)
        generation = self._new_id()
        try:
            fresh = await self._create(f"{self._book}@{generation}", generation)
        except RefusedError as error:
            raise ReadOnlyError(self.address, str(error)) from error
        answer = await self._publish(Token(generation, 0, 0), runs)
        if fresh is None or answer.outcome is not Outcome.DONE:
            return Appended(Outcome.UNKNOWN)
        # From here on the book is in the new stream, or nothing has happened.
        told = await self._send(token, {NEXT: fresh.name, TOP: str(token.top)}, b"")
        if told is Outcome.MOVED:
            # Only who may delete streams can tidy up; the stream is named nowhere and harms nobody.
            with suppress(LinkError, UnreachableError):
                await self.servers.ask(f"STREAM.DELETE.{fresh.name}")
        return Appended(told) if isinstance(told, Outcome) else answer

    async def _delete_others(self) -> list[str]:
        stream = await self._find()
        if stream is None:
            raise UnreachableError(self.address, "there is no such book")
        names = await list_streams(self.servers, self._book)
        try:
            for name in (others := [name for name in names if name != stream.name]):
                await self.servers.ask(f"STREAM.DELETE.{name}")
        except (ApiError, RefusedError) as error:
            raise ReadOnlyError(self.address, str(error)) from error
        return others


def check_address(address: str) -> tuple[str, str]:
    """Return scheme and hosts of an address.

    Raises:
        BadInputError: It is not one, or holds a password: addresses are stored and shown.
    """
    scheme, _, hosts = address.rstrip("/").partition("://")
    if "@" in hosts:
        raise BadInputError("address", "holds a user or a password", "leave it out and put it into your own settings")
    if scheme not in SCHEMES or not hosts or any(map(str.isspace, hosts)):
        hint = "use nats://HOST:PORT or tls://HOST:PORT, with more hosts after commas"
        raise BadInputError("address", "is not an address of NATS", hint)
    return scheme, hosts


def is_small(reason: str) -> bool:
    """Return whether too few servers can hold a stream because there are no more, not because some are down."""
    return "offline" not in reason
