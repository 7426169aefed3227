"""A connection to NATS that asks one thing at a time and says in plain words why it got no answer.

``nats-py`` tells a missing right only to a callback and lets the request run into its time limit; here the request
ends with the server's reason.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
import json
import logging
import socket
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nats.aio.client import Client
    from nats.aio.msg import Msg

API = "$JS.API."
CLOSE_S = 0.3


REASONS: dict[type[BaseException], str] = {
    TimeoutError: "it does not answer",
    ConnectionRefusedError: "nothing listens there",
    socket.gaierror: "this name is not known",
}
"""What an error of a connection means."""


class Access(NamedTuple):
    """How this user connects. Nothing of it is ever shown.

    Attributes:
        user: Name of the user; empty where the server asks for none.
        password: The user's password.
        creds: Path of a credentials file, as `nsc` writes it; empty for none.
        ca: Path of the certificates that sign the servers' ones; empty for those of the system.
        cert: Path of this client's own certificate; empty for none.
        key: Path of its key.
    """

    user: str = ""
    password: str = ""
    creds: str = ""
    ca: str = ""
    cert: str = ""
    key: str = ""

    def __repr__(self) -> str:
        """Show nothing, in no traceback either."""
        return "Access(…)"


class LinkError(Exception):
    """No answer came. Its text is the reason, in plain words."""


class RefusedError(LinkError):
    """This user has no right to ask that, as the server says."""


class NobodyError(LinkError):
    """Nobody answers to that subject, so the message went nowhere."""


class SilentError(LinkError):
    """No answer came in time, or the connection broke: what was sent may have arrived."""


class ApiError(LinkError):
    """JetStream's own refusal.

    Attributes:
        number: Its error code, such as 10071.
    """

    def __init__(self, number: int, reason: str) -> None:
        """Keep code and description."""
        self.number = number
        super().__init__(reason)


class Link:
    """One connection. It is not made again: who finds it closed opens another one.

    Attributes:
        client: The library's client.
        patience_s: Seconds that one question may take.
    """

    def __init__(self, patience_s: float) -> None:
        """Begin without a connection."""
        self.client: Client
        self.patience_s = patience_s
        self._errors: list[Exception] = []
        self._trouble: asyncio.Future[LinkError] | None = None

    async def _take_error(self, error: Exception) -> None:
        reason = str(error).removeprefix("nats: ") or type(error).__name__
        self._errors.append(error)
        if "permissions violation" in reason.lower():
            self._end_question(RefusedError(reason))

    async def _take_close(self) -> None:
        self._end_question(SilentError("the connection broke"))

    def _end_question(self, error: LinkError) -> None:
        if self._trouble and not self._trouble.done():
            self._trouble.set_result(error)

    async def open(self, server: str, access: Access, *, secure: bool) -> None:
        """Connect to one server, given as ``host:port``.

        Raises:
            LinkError: It cannot be done.
        """
        from nats.aio.client import Client

        logging.getLogger("asyncio").addFilter(_is_worth_telling)

        class Encrypted(Client):
            """A client that notes when it encrypts."""

            encrypts = False

            @property
            def ssl_context(self) -> ssl.SSLContext:
                self.encrypts = True
                return super().ssl_context

        client = Encrypted()

        def check() -> None:
            if secure and not client.encrypts:
                raise LinkError("it offers no TLS, and the address or a CA asks for it")

        def user() -> str:
            # The library would send the password in the clear to a server that offers no TLS.
            check()
            return access.user

        options: dict[str, Any] = {"user": user, "password": access.password} if access.user else {}
        if access.creds:
            options["user_credentials"] = access.creds
        try:
            if secure:
                options["tls"] = _make_context(access)
            await client.connect(
                f"nats://{server}",
                error_cb=self._take_error,
                closed_cb=self._take_close,
                allow_reconnect=False,
                connect_timeout=max(1, int(self.patience_s)),
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                pending_size=0,
                **options,
            )
            check()
        except (ImportError, LinkError):
            await _close(client)
            raise
        except Exception as error:
            await _close(client)
            raise LinkError(explain(error, self._errors)) from error
        self.client = client

    async def ask(self, subject: str, data: bytes = b"", headers: dict[str, str] | None = None) -> Msg:
        """Send a message and return its answer.

        Raises:
            LinkError: None came.
        """
        import nats.errors

        self._trouble = asyncio.get_running_loop().create_future()
        request: asyncio.Future[Any] = asyncio.ensure_future(
            self.client.request(subject, data, self.patience_s, headers=headers)
        )
        try:
            await asyncio.wait([request, self._trouble], return_when=asyncio.FIRST_COMPLETED)
            if self._trouble.done():
                error = self._trouble.result()
                # The library gives the server's reason in small letters.
                raise type(error)(str(error).replace(subject.lower(), subject))
            answer: Msg = request.result()
        except nats.errors.NoRespondersError as error:
            raise NobodyError(f"nobody answers to {subject}") from error
        except nats.errors.TimeoutError as error:
            raise SilentError(f"no answer within {self.patience_s:g} s") from error
        except (nats.errors.Error, OSError) as error:
            raise SilentError(explain(error, self._errors)) from error
        finally:
            self._trouble = None
            if not request.done():
                request.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await request
        return answer

    async def call(self, what: str, question: dict[str, object] | None = None) -> dict[str, Any]:
        """Ask JetStream's interface.

        Raises:
            ApiError: It refuses, with its code.
            LinkError: No answer came.
        """
        answer = await self.ask(API + what, json.dumps(question).encode() if question else b"")
        return read_answer(answer.data)

    async def pull(self, consumer: str, count: int, until: int) -> list[Msg]:
        """Return the next messages of a consumer, as many as asked for or up to a sequence.

        Fewer come where the server has no more for the moment, or the connection broke.

        Raises:
            RefusedError: This user may not do that.
        """
        got: list[Msg] = []
        inbox = self.client.new_inbox()
        loop = asyncio.get_running_loop()
        trouble: asyncio.Future[Any] = loop.create_future()
        end: asyncio.Future[Any] = loop.create_future()
        self._trouble = trouble
        arrived = 0

        async def take(message: Msg) -> None:
            nonlocal arrived
            arrived += 1
            # A message with a status says that no more will come.
            if (message.headers or {}).get("Status"):
                last = True
            else:
                got.append(message)
                last = len(got) == count or sequence_of(message) >= until
            if last and not end.done():
                end.set_result(None)

        subscription = await self.client.subscribe(inbox, cb=take, pending_msgs_limit=0, pending_bytes_limit=0)
        wanted = {"batch": count, "expires": int(self.patience_s * 0.8e9)}
        await self.client.publish(f"{API}CONSUMER.MSG.NEXT.{consumer}", json.dumps(wanted).encode(), reply=inbox)
        before = -1
        while not (end.done() or trouble.done()) and before != arrived:
            before = arrived
            await asyncio.wait([end, trouble], timeout=self.patience_s, return_when=asyncio.FIRST_COMPLETED)
        self._trouble = None
        if not self.client.is_closed:
            await subscription.unsubscribe()
        if trouble.done() and isinstance(trouble.result(), RefusedError):
            raise trouble.result()
        return got

    async def is_alive(self) -> bool:
        """Return whether the server still answers."""
        import nats.errors

        if self.client.is_closed:
            return False
        try:
            await self.client.flush(max(1, int(self.patience_s)))
        except (nats.errors.Error, OSError):
            return False
        return not self.client.is_closed

    async def close(self) -> None:
        """Close the connection."""
        await _close(self.client)


def sequence_of(message: Msg) -> int:
    """Return the sequence of a message in its stream, which its reply subject says."""
    # $JS.ACK.STREAM.CONSUMER.delivered.sequence.…; with a domain and an account there are two more in front.
    tokens = message.reply.split(".")
    return int(tokens[5] if len(tokens) == 9 else tokens[7])  # noqa: PLR2004 - explained above


def read_answer(data: bytes) -> dict[str, Any]:
    """Return JetStream's answer.

    Raises:
        ApiError: It is a refusal.
        SilentError: It cannot be read.
    """
    try:
        answer: dict[str, Any] = json.loads(data)
        error = answer.get("error")
    except (ValueError, AttributeError) as problem:
        raise SilentError("the answer is not JSON") from problem
    if error:
        raise ApiError(error.get("err_code", 0), error.get("description", "no reason given"))
    return answer


def parse_headers(data: bytes) -> dict[str, str]:
    """Return the headers of a message as the server stores them."""
    pairs = [line.partition(":") for line in data.decode(errors="replace").split("\r\n")[1:]]
    return {name: value.strip() for name, _, value in pairs if name}


def _is_worth_telling(record: logging.LogRecord) -> bool:
    # Each encrypted connection of nats-py that ends writes this line to the terminal, and nothing can be done about it.
    return "eof_received() has no effect" not in record.getMessage()


async def _close(client: Client) -> None:
    # It is being thrown away and may be broken in any way; where TLS failed, the library would wait for ever.
    with suppress(Exception):
        async with asyncio.timeout(CLOSE_S):
            await client.close()
    # A server that says nothing more does not end TLS either, and the client has no public way to leave it.
    transport = getattr(client, "_transport", None)
    for name in ("_io_writer", "_bare_io_writer"):
        writer = getattr(transport, name, None)
        if writer:
            writer.transport.abort()
    await asyncio.sleep(0)


def _make_context(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=access.ca or None)
    if access.cert:
        context.load_cert_chain(access.cert, access.key or None)
    return context


def explain(error: BaseException, earlier: Sequence[BaseException] = ()) -> str:
    """Say in plain words why a connection failed; the client tells a failure to connect to its callback before."""
    text = str(error).removeprefix("nats: ").strip("' \r\n")
    if "no servers available" in text and earlier:
        return explain(earlier[-1])
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if "authorization violation" in text.lower():
        return "it refuses the user, the password or the credentials (Authorization Violation)"
    return next((reason for kind, reason in REASONS.items() if isinstance(error, kind)), text or type(error).__name__)
