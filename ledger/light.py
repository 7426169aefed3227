"""What spares a hook's process the slow modules: named tuples, paths, digests and JSON from what is loaded anyway.

``typing``, ``pathlib``, ``json`` and ``hashlib`` each take a short process about as long to load as its own work takes.
What stands here does what the ledger needs of them; where an interpreter lacks a C part, the module itself is loaded.
Standard library only.
"""

from __future__ import annotations

from collections import namedtuple
import os

__all__ = ["NamedTuple", "Place", "encoder", "loads", "sha256", "suppress"]

_BLANKS = " \t\n\r"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import suppress
    from hashlib import sha256
    from pathlib import Path as Place
    from typing import Any, NamedTuple
else:
    try:
        # hashlib would load all of OpenSSL for it.
        from _sha2 import sha256
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:
            from hashlib import sha256

    # What a class has beside its fields and methods.
    _OWN = ("__module__", "__qualname__", "__annotations__", "__firstlineno__", "__static_attributes__")

    class _Fields(type):
        def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, space)
            fields = list(space["__annotations__"])
            defaults = [space.pop(field) for field in fields if field in space]
            made = namedtuple(name, fields, defaults=defaults, module=space["__module__"])  # noqa: PYI024 - see above
            for key, value in space.items():
                if key not in _OWN:
                    setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Fields):
        """As ``typing.NamedTuple``: the annotated fields of a class, in their order, with its methods and defaults."""

    class Place(str):
        """As ``pathlib.Path``, as far as the ledger asks: what is joined by ``/``, its name, and its folder."""

        __slots__ = ()

        def __truediv__(self, name: str) -> Place:
            """Return what stands in this folder under a name."""
            return Place(os.path.join(self, name))

        @property
        def name(self) -> str:
            """Return its own name."""
            return os.path.basename(self)

        @property
        def parent(self) -> Place:
            """Return the folder that it stands in."""
            return Place(os.path.dirname(self) or os.curdir)

    class suppress:  # noqa: N801 - its name where it comes from
        """As ``contextlib.suppress``: ends a block quietly where one of these errors ends it."""

        def __init__(self, *errors: type[BaseException]) -> None:
            """Remember which errors are meant."""
            self._errors = errors

        def __enter__(self) -> None:
            """Begin the block."""

        def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
            """Say whether the block's error is one of them."""
            return kind is not None and issubclass(kind, self._errors)


def _unencodable(value: object) -> Any:
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def encoder() -> Callable[[object], str]:
    """Return what writes canonical JSON: no white space, UTF-8 unescaped, no NaN, keys as given."""
    try:
        from _json import encode_basestring, make_encoder  # noqa: PLC0415 - it may be missing
    except ImportError:
        import json  # noqa: PLC0415 - slow to load

        return json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    # Made once, where json makes one at every call.
    encode = make_encoder(None, _unencodable, encode_basestring, None, ":", ",", False, False, False)  # noqa: FBT003
    return lambda value: "".join(encode(value, 0))


class _Context:
    """How JSON is read: as the ``json`` module does."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float, parse_int = float, int
    parse_constant = staticmethod(float)


def loads(text: str) -> Any:
    """Return a JSON value; of a key that stands twice in one object the last counts.

    Raises:
        ValueError: It is no JSON.
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
        # Its own error stands in json.decoder, and where that was not loaded there is none to raise: always the same.
        raise ValueError("no JSON") from error
    if text[end:].strip(_BLANKS):
        raise ValueError("something stands behind the JSON")
    return value
