"""Stand-ins for slow standard modules, for processes that must start fast: hooks. Standard library only.

Where an interpreter lacks the private C module, the public module is loaded.
"""

from __future__ import annotations

import os
import sys

__all__ = ["NamedTuple", "dumps", "import_lazily", "loads", "sha256"]

_BLANKS = " \t\n\r"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from hashlib import sha256
    from typing import Any, NamedTuple

    StrPath = str | os.PathLike[str]
    """A path: hooks have strings, because importing ``pathlib`` costs them 12 ms; other callers use ``pathlib``."""
else:
    from collections import namedtuple

    try:
        # hashlib would load all of OpenSSL for it.
        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256
    except ImportError:
        from hashlib import sha256

    class _NamedTupleType(type):
        def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, space)
            fields = list(space["__annotations__"])
            defaults = [space.pop(field) for field in fields if field in space]
            row = namedtuple(name, fields, defaults=defaults)  # noqa: PYI024 - this is the typed way
            return type(name, (row,), {"__slots__": ()} | space)

    class NamedTuple(metaclass=_NamedTupleType):
        """``typing.NamedTuple``: importing ``typing`` costs a hook 12 ms, most of its run."""


class _LazyModule:
    """A module that is loaded when an attribute of it is first used."""

    def __init__(self, module: str) -> None:
        self._name = module

    def __getattr__(self, name: str) -> Any:
        __import__(self._name)
        return getattr(sys.modules[self._name], name)


def import_lazily(*modules: str) -> list[Any]:
    """Return a stand-in for each module, which is loaded when an attribute of it is first used."""
    return [_LazyModule(module) for module in modules]


def _unencodable(value: object) -> Any:
    raise TypeError(f"cannot encode {type(value).__name__} as JSON")


def _make_dumps() -> Callable[[object], str]:
    try:
        from _json import encode_basestring, make_encoder  # noqa: PLC0415 - it may be missing
    except ImportError:
        import json  # noqa: PLC0415 - slow to load

        return json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    # Made once, where json makes one at every call.
    encode = make_encoder(None, _unencodable, encode_basestring, None, ":", ",", False, False, False)  # noqa: FBT003
    return lambda value: "".join(encode(value, 0))


dumps = _make_dumps()
"""Writes a value as canonical JSON: no white space, UTF-8 unescaped, no NaN, keys in the order given."""


class _Context:
    """How JSON is read: as the ``json`` module does."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float, parse_int = float, int
    parse_constant = staticmethod(float)


def loads(text: str) -> Any:
    """Return a JSON value; of a key that an object repeats, the last counts.

    Raises:
        ValueError: The text is not JSON.
        RecursionError: It is nested too deeply.
    """
    try:
        from _json import make_scanner  # noqa: PLC0415 - it may be missing
    except ImportError:
        import json  # noqa: PLC0415 - slow to load

        return json.loads(text)
    begin = len(text) - len(text.lstrip(_BLANKS))
    try:
        value, end = make_scanner(_Context)(text, begin)  # type: ignore[arg-type]
    except (StopIteration, ValueError, SystemError) as error:
        # The scanner raises json's own error class only if json is loaded: here the error is always the same.
        raise ValueError("not JSON") from error
    if text[end:].strip(_BLANKS):
        raise ValueError("more text follows the JSON value")
    return value
