"""The servers of one address: connected to whichever answers, and asked again while JetStream has no leader."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from tallybook.ledger.sharing.engines.engine import MissingLibraryError, UnreachableError
from tallybook.ledger.sharing.engines.nats_connection import (
    Access,
    ApiError,
    Link,
    LinkError,
    NobodyError,
    RefusedError,
    SilentError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

LATER = {10004, 10008, 10009, 10012}
"""JetStream has no leader for the moment: the same question can be asked again."""
PAUSE_S = 0.2
PATIENCE_S = 5.0
LIMIT_S = 20.0


class Servers:
    """One connection at a time to one of several servers.

    Attributes:
        address: What messages name.
        patience_s: Seconds that one question may take.
        limit_s: A question is given up when it was not answered for so many seconds.
    """

    def __init__(self, address: str, hosts: Sequence[str], access: Access, *, secure: bool, limit_s: float) -> None:
        """Prepare; nothing is connected yet."""
        self.address = address
        self.patience_s = min(PATIENCE_S, limit_s)
        self.limit_s = limit_s
        self._hosts = list(hosts)
        self._access = access
        self._secure = secure
        self._link: Link | None = None
        self._was_connected = False

    async def connect(self) -> Link:
        """Return the connection, a new one where it was closed.

        Raises:
            UnreachableError: No server can be connected to.
        """
        if self._link and not self._link.client.is_closed:
            return self._link
        reasons = []
        access = self._access
        for path in (access.creds, access.ca, access.cert, access.key):
            if path and not os.access(path, os.R_OK):
                hint = "give `tallybook share nats` a file that is there"
                raise UnreachableError(self.address, f"the file {path} cannot be read", hint)
        for host in [*self._hosts]:
            link = Link(min(self.patience_s, self.limit_s / len(self._hosts)))
            try:
                await link.open(host, access, secure=self._secure)
            except ImportError as error:
                raise MissingLibraryError(self.address, "nats-py") from error
            except LinkError as error:
                reasons.append(f"{host}: {error}")
                self._rotate()
            else:
                link.patience_s = self.patience_s
                self._link, self._was_connected = link, True
                return link
        raise UnreachableError(self.address, "; ".join(reasons) or "it names no server")

    def _rotate(self) -> None:
        # The next attempt begins with another server.
        self._hosts.append(self._hosts.pop(0))

    async def drop(self) -> None:
        """Close the connection."""
        link, self._link = self._link, None
        if link:
            await link.close()

    async def connect_anew(self) -> Link:
        """Return a connection that was seen to work just now."""
        if self._link and not await self._link.is_alive():
            await self.drop()
        return await self.connect()

    async def ask(self, what: str, question: dict[str, object] | None = None) -> dict[str, Any]:
        """Ask JetStream what can be asked twice, again and again while it has no leader or a server is gone.

        Raises:
            ApiError: It refuses, with its code.
            RefusedError: This user has no right to ask.
            UnreachableError: It does not answer.
        """
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self.limit_s
        while True:
            try:
                return await (await self.connect()).call(what, question)
            except ApiError as error:
                if error.number not in LATER:
                    raise
                reason = str(error)
            except NobodyError:
                reason = "JetStream is not enabled for this account, or has no leader at present"
            except SilentError as error:
                reason = str(error)
                await self.drop()
                self._rotate()
            except UnreachableError as error:
                # Servers that start anew refuse connections for a moment; an address that never worked is told at once.
                if not self._was_connected:
                    raise
                reason = error.why
            if loop.time() > give_up:
                raise UnreachableError(self.address, reason)
            await asyncio.sleep(PAUSE_S)

    async def read(self, what: str, question: dict[str, object] | None = None) -> dict[str, Any]:
        """Ask as `ask` does, for what every reader may ask.

        Raises:
            ApiError: It refuses, with its code.
            UnreachableError: It does not answer, or does not let this user read.
        """
        try:
            return await self.ask(what, question)
        except RefusedError as error:
            raise UnreachableError(self.address, f"this user may not read: {error}") from error
