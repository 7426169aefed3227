"""The stream that holds a book: which one it is, and its messages from an event number on."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any, NamedTuple

from tallybook.ledger.sharing.engines.engine import UnreachableError
from tallybook.ledger.sharing.engines.nats_connection import ApiError, RefusedError, parse_headers, sequence_of
from tallybook.ledger.sharing.engines.nats_messages import Piece, Token, read_piece

if TYPE_CHECKING:
    from tallybook.ledger.sharing.engines.nats_servers import Servers

PREFIX = "tallybook"
NO_STREAM, NO_MESSAGE = 10059, 10037
PULL_BYTES = 8 * 1024 * 1024
"""So much is asked for at once, by the average size of the stream's messages."""
NEAR = 4
"""So many messages are read rather than searched."""
MAX_STREAMS = 100
"""So many replacements are followed."""
COPIES = 3
UNLIMITED = {"max_age": 0, "max_msgs": -1, "max_msgs_per_subject": -1}


class Stream(NamedTuple):
    """A stream that holds a book, as the servers describe it.

    Attributes:
        name: Its name.
        generation: The last token of its subject, drawn when it was made.
        config: Its configuration.
        state: How many messages it has, and where they begin.
        last: Its last message, None where it has none.
    """

    name: str
    generation: str
    config: dict[str, Any]
    state: dict[str, Any]
    last: Piece | None

    @property
    def subject(self) -> str:
        """Its only subject."""
        return str(self.config["subjects"][0])


def describe(stream: Stream) -> tuple[str, ...]:
    """Return what an operator should know about a stream that is not as Tallybook makes it."""
    config = stream.config
    notes = []
    if config["num_replicas"] < COPIES:
        notes.append(f"the stream {stream.name} has {config['num_replicas']} of {COPIES} copies")
    notes += [
        f"the stream {stream.name} loses messages by its {name} of {config[name]}"
        for name, unlimited in UNLIMITED.items()
        if config.get(name, unlimited) != unlimited
    ]
    if config.get("retention") != "limits" or config.get("storage") != "file":
        notes.append(f"the stream {stream.name} does not keep its messages in files")
    if not config.get("deny_purge"):
        notes.append(f"the stream {stream.name} can be purged")
    return tuple(notes)


async def find_stream(servers: Servers, book: str, known: str) -> Stream | None:
    """Return the stream that holds a book now, None where there is none.

    Args:
        servers: Where it is.
        book: The book's name, as a stream may be named.
        known: The name of the stream that held it last, or the book's name.
    """
    name, before = known, ""
    for _ in range(MAX_STREAMS):
        try:
            stream = await _read_stream(servers, book, name)
        except ApiError as error:
            if error.number != NO_STREAM:
                raise UnreachableError(servers.address, str(error)) from error
            if before:
                why = f"the stream {name}, which took the place of {before}, is missing"
                raise UnreachableError(servers.address, why, f"let an operator delete {before} as well") from error
            name = book if name != book else await _find_successor(servers, book)
            if not name:
                return None
            continue
        if not (stream.last and stream.last.next):
            return stream
        name, before = stream.last.next, name
    raise UnreachableError(servers.address, f"more than {MAX_STREAMS} streams name each other as successors")


async def _read_stream(servers: Servers, book: str, name: str) -> Stream:
    info = await servers.read(f"STREAM.INFO.{name}")
    config, state = info["config"], info["state"]
    prefix, _, generation = (config.get("subjects") or [""])[0].rpartition(".")
    if prefix != f"{PREFIX}.{book}" or len(config["subjects"]) > 1:
        hint = "let an operator rename it, or choose another name for the book"
        raise UnreachableError(servers.address, f"the stream {name} was not made by Tallybook", hint)
    stream = Stream(name, generation, config, state, None)
    if not state["messages"]:
        return stream
    return stream._replace(last=await read_message(servers, name, {"last_by_subj": stream.subject}))


async def _find_successor(servers: Servers, book: str) -> str:
    """Return the name of a book's stream where the one of the book's own name was deleted; empty for none."""
    names = await list_streams(servers, book)
    if len(names) > 1:
        hint = "let an operator delete those that do not hold the book"
        raise UnreachableError(servers.address, f"several streams could hold the book: {', '.join(names)}", hint)
    return names[0] if names else ""


async def list_streams(servers: Servers, book: str) -> list[str]:
    """Return the names of all streams that hold a book, held it, or were to."""
    answer = await servers.read("STREAM.NAMES", {"subject": f"{PREFIX}.{book}.*"})
    return sorted(answer.get("streams") or [])


async def read_message(servers: Servers, name: str, which: dict[str, object]) -> Piece | None:
    """Return one message as the stream's leader has it, None where there is none."""
    try:
        answer = await servers.read(f"STREAM.MSG.GET.{name}", which)
    except ApiError as error:
        if error.number in {NO_MESSAGE, NO_STREAM}:
            return None
        raise UnreachableError(servers.address, str(error)) from error
    message = answer["message"]
    headers = parse_headers(base64.b64decode(message.get("hdrs", "")))
    return read_piece(name, message["seq"], headers, base64.b64decode(message.get("data", "")))


async def read_from(servers: Servers, stream: Stream, seq: int) -> Piece | None:
    """Return the first message from a sequence on."""
    return await read_message(servers, stream.name, {"seq": seq, "next_by_subj": stream.subject})


async def search(servers: Servers, stream: Stream, after: int, hint: Token | None) -> int:
    """Return a sequence before which no message states an event number above ``after``.

    Args:
        servers: Where the stream is.
        stream: A stream with a last message.
        after: An event number.
        hint: A place of which the largest event number is known, None for none.
    """
    low: int = stream.state["first_seq"] - 1
    high = stream.last.seq if stream.last else 0
    if hint and hint.generation == stream.generation and hint.top <= after:
        low = max(low, min(hint.seq, high - 1))
    # From the end in growing steps, as most readers lack little; once a lower bound is known, by halves.
    step, halving = 1, False
    while high - low > NEAR or (step == 1 and high - low > 1):
        probe = (low + high) // 2 if halving else max(high - step, low + 1)
        piece = await read_from(servers, stream, probe)
        if piece is None or piece.run is None:
            # Another program's message states nothing: read from the last place that is sure.
            break
        if piece.top > after:
            high, step = probe, step * 4
        else:
            low, step, halving = piece.seq, NEAR, True
    return low + 1


async def read_pieces(servers: Servers, stream: Stream, start: int, limit: int | None = None) -> list[Piece]:
    """Return the messages from a sequence on, by a consumer that the servers forget soon.

    Args:
        servers: Where the stream is.
        stream: The stream.
        start: The sequence.
        limit: About how many bytes to return, of whole runs; None for all up to the stream's last message.
    """
    until = stream.last.seq if stream.last else 0
    average = max(1, stream.state["bytes"] // max(1, stream.state["messages"]))
    loop = asyncio.get_running_loop()
    give_up = loop.time() + servers.limit_s
    pieces: list[Piece] = []
    consumer, size = "", 0
    while start <= until and not (limit is not None and size >= limit and _is_whole(pieces[-1])):
        consumer = consumer or await _make_consumer(servers, stream.name, start)
        link = await servers.connect()
        count = min(until - start + 1, max(NEAR, min(PULL_BYTES, limit or PULL_BYTES) // average))
        try:
            got = await link.pull(f"{stream.name}.{consumer}", count, until)
        except RefusedError as error:
            raise UnreachableError(servers.address, f"this user may not read: {error}") from error
        pieces += [
            read_piece(stream.name, sequence_of(message), message.headers or {}, message.data) for message in got
        ]
        if got:
            start, give_up = pieces[-1].seq + 1, loop.time() + servers.limit_s
            size += sum(len(message.data) for message in got)
        elif loop.time() > give_up:
            raise UnreachableError(servers.address, f"message {start} of the stream {stream.name} does not come")
        else:
            # The server that had the consumer is gone, or the last message was deleted meanwhile.
            last = await read_message(servers, stream.name, {"last_by_subj": stream.subject})
            until, consumer = min(until, last.seq if last else 0), ""
    return pieces


def _is_whole(last: Piece) -> bool:
    """Return whether a run does not go on after a message."""
    return last.part == last.parts


async def _make_consumer(servers: Servers, name: str, start: int) -> str:
    config = {
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": start,
        "ack_policy": "none",
        "replay_policy": "instant",
        "inactive_threshold": int(servers.patience_s * 2e9),
        "mem_storage": True,
        "num_replicas": 1,
    }
    try:
        made = await servers.read(f"CONSUMER.CREATE.{name}", {"stream_name": name, "config": config})
    except ApiError as error:
        raise UnreachableError(servers.address, str(error)) from error
    return str(made["name"])
