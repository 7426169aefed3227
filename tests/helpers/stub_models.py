"""Models on loopback that answer by a plan: Anthropic's messages, OpenAI's responses and chat, and Gemini's contents.

Each is asked by the real clients of agents, which find it by their own switches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
import json
import threading
from typing import Any, NamedTuple
from urllib.parse import urlsplit

_NUMBERS = count(1)


class ModelRequest(NamedTuple):
    """What a model was asked: path without a query, headers in lower case, and the body."""

    path: str
    headers: dict[str, str]
    document: dict[str, Any]

    @property
    def text(self) -> str:
        """Return every text of the body, a line each, in order."""
        return "\n".join(_texts(self.document))

    @property
    def tools(self) -> list[str]:
        """Return the names of the tools that the model may call."""
        tools = self.document.get("tools") or []
        # Gemini groups them, and OpenAI's chat wraps each.
        each = [declaration for tool in tools for declaration in tool.get("functionDeclarations", [tool])]
        return [name for tool in each if (name := tool.get("name") or tool.get("function", {}).get("name"))]


class ModelReply(NamedTuple):
    """What a model answers.

    Attributes:
        text: Its message.
        tool: Name and input of a tool that it calls after the message; None without a call.
        tokens: The tokens of the request, as the answer tells them.
    """

    text: str
    tool: tuple[str, dict[str, Any]] | None = None
    tokens: int = 100


class StubModel:
    """A server that answers what a function says, and keeps what it was asked, unknown requests apart."""

    def __init__(self, reply: Callable[[ModelRequest], ModelReply]) -> None:
        """Listen on a free port; nothing is answered before the server runs."""
        self.reply = reply
        self.requests: list[ModelRequest] = []
        self.unknown: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_ModelHandler,), {"model": self}))
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"


@contextmanager
def stub_model(reply: Callable[[ModelRequest], ModelReply]) -> Iterator[StubModel]:
    """Run a model until the end of the block."""
    model = StubModel(reply)
    thread = threading.Thread(target=model.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield model
    finally:
        model.server.shutdown()
        model.server.server_close()
        thread.join()


class _ModelHandler(BaseHTTPRequestHandler):
    model: StubModel
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path.endswith("/models"):
            self._send_json({"object": "list", "data": []})
        else:
            self._refuse(path)

    def do_POST(self) -> None:
        address = urlsplit(self.path)
        body = self._body()
        for ending, answer in _ANSWERS:
            if address.path.endswith(ending):
                request = ModelRequest(address.path, {k.lower(): v for k, v in self.headers.items()}, json.loads(body))
                self.model.requests.append(request)
                # Gemini asks for a stream by the address, the others by a field.
                streams = request.document.get("stream", ending == ":streamGenerateContent")
                data, kind = answer(self.model.reply(request), streams)
                self._send(data, kind)
                return
        if address.path.endswith("count_tokens"):
            self._send_json({"input_tokens": 100})
        elif address.path.endswith(":countTokens"):
            self._send_json({"totalTokens": 100})
        else:
            self._refuse(address.path)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _refuse(self, path: str) -> None:
        self.model.unknown.append(f"{self.command} {path}")
        self._send_json({"error": {"message": "not found"}}, 404)

    def _send_json(self, document: object, code: int = 200) -> None:
        self._send(json.dumps(document).encode(), "application/json", code)

    def _send(self, data: bytes, kind: str, code: int = 200) -> None:
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _texts(child)


def _new_id(kind: str) -> str:
    """Return an id that no other answer has: a client that meets one twice takes two answers for one."""
    return f"{kind}_stub{next(_NUMBERS)}"


def _json(document: object) -> tuple[bytes, str]:
    return json.dumps(document).encode(), "application/json"


def _stream(events: list[dict[str, Any]], *, end: str = "") -> tuple[bytes, str]:
    """Return server-sent events; each is named where it has a type."""
    names = [f"event: {event['type']}\n" if "type" in event else "" for event in events]
    lines = [f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(names, events, strict=True)]
    return ("".join(lines) + end).encode(), "text/event-stream"


def _anthropic(reply: ModelReply, streams: bool) -> tuple[bytes, str]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": reply.text}]
    if reply.tool:
        blocks.append({"type": "tool_use", "id": _new_id("toolu"), "name": reply.tool[0], "input": reply.tool[1]})
    stop = {"stop_reason": "tool_use" if reply.tool else "end_turn", "stop_sequence": None}
    usage = {"input_tokens": reply.tokens, "output_tokens": 10}
    message = {"id": _new_id("msg"), "type": "message", "role": "assistant", "model": "stub", "usage": usage}
    if not streams:
        return _json({**message, **stop, "content": blocks})
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**message, "content": []}}]
    for index, block in enumerate(blocks):
        empty: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": reply.text}
        if "input" in block:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    events += [{"type": "message_delta", "delta": stop, "usage": usage}, {"type": "message_stop"}]
    return _stream(events)


def _responses(reply: ModelReply, streams: bool) -> tuple[bytes, str]:
    content = [{"type": "output_text", "text": reply.text, "annotations": []}]
    items: list[dict[str, Any]] = [
        {"type": "message", "id": _new_id("msg"), "role": "assistant", "status": "completed", "content": content}
    ]
    if reply.tool:
        name, arguments = reply.tool
        items.append(
            {"type": "function_call", "call_id": _new_id("call"), "name": name, "arguments": json.dumps(arguments)}
        )
    total = reply.tokens + 10
    usage = {"input_tokens": reply.tokens, "output_tokens": 10, "total_tokens": total}
    response = {"id": _new_id("resp"), "object": "response", "model": "stub", "usage": usage}
    done = {**response, "status": "completed", "output": items}
    if not streams:
        return _json(done)
    begun = {"type": "response.created", "response": {**response, "status": "in_progress", "output": [], "usage": None}}
    each = [{"type": "response.output_item.done", "output_index": n, "item": item} for n, item in enumerate(items)]
    return _stream([begun, *each, {"type": "response.completed", "response": done}])


def _chat(reply: ModelReply, streams: bool) -> tuple[bytes, str]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.tool:
        function = {"name": reply.tool[0], "arguments": json.dumps(reply.tool[1])}
        message["tool_calls"] = [{"index": 0, "id": _new_id("call"), "type": "function", "function": function}]
    usage = {"prompt_tokens": reply.tokens, "completion_tokens": 10, "total_tokens": reply.tokens + 10}
    choice = {"index": 0, "finish_reason": "tool_calls" if reply.tool else "stop"}
    answer = {"id": _new_id("chat"), "object": "chat.completion", "model": "stub", "usage": usage}
    if not streams:
        return _json({**answer, "choices": [{**choice, "message": message}]})
    return _stream(
        [{**answer, "object": "chat.completion.chunk", "choices": [{**choice, "delta": message}]}],
        end="data: [DONE]\n\n",
    )


def _gemini(reply: ModelReply, streams: bool) -> tuple[bytes, str]:
    parts: list[dict[str, Any]] = [{"text": reply.text}]
    if reply.tool:
        parts.append({"functionCall": {"name": reply.tool[0], "args": reply.tool[1]}})
    usage = {"promptTokenCount": reply.tokens, "candidatesTokenCount": 10, "totalTokenCount": reply.tokens + 10}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stub"}
    return _stream([answer]) if streams else _json(answer)


_ANSWERS = (
    ("/messages", _anthropic),
    ("/responses", _responses),
    ("/chat/completions", _chat),
    (":generateContent", _gemini),
    (":streamGenerateContent", _gemini),
)
"""End of an address → what writes an answer in its format."""
