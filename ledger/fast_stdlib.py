"""What spares a hook's process the slow modules: named tuples, paths, digests and JSON from what is loaded anyway.

``typing``, ``pathlib``, ``json`` and ``hashlib`` each take a short process about as long to load as its own work takes.
What stands here does what the ledger needs of them; where an interpreter lacks a C part, the module itself is loaded.
Standard library only.
"""

from __future__ import annotations

import sys

__all__ = ["NamedTuple", "Place", "encoder", "later", "loads", "os", "read_up_to", "sha256", "stat", "suppress"]

_BLANKS = " \t\n\r"
_ANY_BYTES = 1 << 62
# Room for so much is set aside before it is known how much there is.
_PIECE_BYTES = 64 * 1024

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import suppress
    from hashlib import sha256
    import os
    from pathlib import Path as Place
    import stat
    from typing import Any, NamedTuple
else:
    import os
    import stat

    try:
        # hashlib would load all of OpenSSL for it.
        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256
    except ImportError:
        from hashlib import sha256

    try:
        # Its module loads five others, and compiles what it makes.
        from _collections import _tuplegetter
    except ImportError:

        def _tuplegetter(place: int, doc: str) -> property:
            return property(lambda row: tuple.__getitem__(row, place), doc=doc)

    _new = tuple.__new__
    # What makes a row of so many fields; for each class with its fields' names, but not compiled again.
    _MAKERS = (
        lambda _cls: _new(_cls, ()),
        lambda _cls, a: _new(_cls, (a,)),
        lambda _cls, a, b: _new(_cls, (a, b)),
        lambda _cls, a, b, c: _new(_cls, (a, b, c)),
        lambda _cls, a, b, c, d: _new(_cls, (a, b, c, d)),
        lambda _cls, a, b, c, d, e: _new(_cls, (a, b, c, d, e)),
        lambda _cls, a, b, c, d, e, f: _new(_cls, (a, b, c, d, e, f)),
        lambda _cls, a, b, c, d, e, f, g: _new(_cls, (a, b, c, d, e, f, g)),
        lambda _cls, a, b, c, d, e, f, g, h: _new(_cls, (a, b, c, d, e, f, g, h)),
        lambda _cls, a, b, c, d, e, f, g, h, i: _new(_cls, (a, b, c, d, e, f, g, h, i)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j: _new(_cls, (a, b, c, d, e, f, g, h, i, j)),
    )

    @classmethod
    def _make(cls: Any, values: Iterable[Any]) -> Any:
        """Return a row of so many values."""
        row = _new(cls, values)
        if len(row) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(row)}")
        return row

    def _replace(self: Any, /, **changed: Any) -> Any:
        """Return a row with other values in these fields."""
        row = self._make(map(changed.pop, self._fields, self))
        if changed:
            raise ValueError(f"Got unexpected field names: {list(changed)!r}")
        return row

    def _asdict(self: Any) -> dict[str, Any]:
        """Return the values by field."""
        return dict(zip(self._fields, self, strict=True))

    def _values(self: Any) -> tuple[Any, ...]:
        """Return what a copy is made of."""
        return tuple(self)

    def _repr(self: Any) -> str:
        """Render as ``Class(field=value, …)``."""
        return f"{type(self).__name__}({', '.join(f'{field}={value!r}' for field, value in self._asdict().items())})"

    # Not in a class of their own: each class that stands above another is searched for all that Python knows of.
    _METHODS = {
        "__slots__": (),
        "__getnewargs__": _values,
        "__replace__": _replace,
        "__repr__": _repr,
        "_asdict": _asdict,
        "_make": _make,
        "_replace": _replace,
    }

    def _maker(name: str, fields: Sequence[str], defaults: Sequence[Any]) -> Any:
        template = _MAKERS[len(fields)]
        code = template.__code__.replace(co_name="__new__", co_varnames=("_cls", *fields))
        made = type(template)(code, globals(), "__new__", tuple(defaults))
        made.__qualname__ = f"{name}.__new__"
        return made

    class _Fields(type):
        def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, space)
            fields = tuple(space["__annotations__"])
            defaults = {field: space[field] for field in fields if field in space}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(f"{name}: a field without a default stands behind one that has one")
            said = {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
            getters = {field: _tuplegetter(place, "") for place, field in enumerate(fields)}
            made = {"__new__": _maker(name, fields, defaults.values())}
            return type(name, (tuple,), _METHODS | space | getters | said | made)

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


class _Later:
    """A module that is loaded once something of it is asked for."""

    def __init__(self, module: str) -> None:
        object.__setattr__(self, "_name", module)

    def _load(self) -> Any:
        __import__(self._name)
        return sys.modules[self._name]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._load(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._load(), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._load(), name)


def later(module: str) -> Any:
    """Return what stands for a module, and loads it once something of it is asked for."""
    return _Later(module)


def read_up_to(fd: int, limit: int = _ANY_BYTES) -> bytes:
    """Return what is left of an open file, up to so many bytes; a file object would take several calls more.

    Raises:
        OSError: It cannot be read.
    """
    pieces = []
    while limit > 0 and (piece := os.read(fd, min(limit, _PIECE_BYTES))):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)


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
