"""The replacements of slow standard modules behave like the originals, also without C accelerators."""

from __future__ import annotations

import importlib.util
import json
import pickle
import sys
import typing

from hypothesis import given
from hypothesis import strategies as st
import pytest

from tallybook.ledger import fast_stdlib
from tallybook.ledger.fast_stdlib import NamedTuple

if typing.TYPE_CHECKING:
    from types import ModuleType

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
C_PARTS = ("_json", "_sha2", "_sha256")


class Pair(NamedTuple):
    """A pair of values."""

    one: int
    two: str = "b"

    @property
    def both(self) -> str:
        """Return both values as a text."""
        return f"{self.one}{self.two}"


class Twin(typing.NamedTuple):
    """The same pair, by typing."""

    one: int
    two: str = "b"


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module as loaded by an interpreter without the C parts."""
    for name in C_PARTS:
        monkeypatch.setitem(sys.modules, name, None)
    spec = importlib.util.find_spec("tallybook.ledger.fast_stdlib")
    if spec is None or spec.loader is None:
        raise AssertionError("the module is there: it was imported above")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_a_named_tuple_equals_that_of_typing() -> None:
    """Fields, defaults, order, methods, module, text and pickles are those of ``typing.NamedTuple``."""
    assert (Twin._fields, Twin._field_defaults) == (Pair._fields, Pair._field_defaults)
    assert (1, "b", "1b", (1, "x")) == (*Pair(1), Pair(1).both, Pair(1)._replace(two="x"))
    assert repr(Twin(1, "x")).replace("Twin", "Pair") == repr(Pair(1, "x"))
    assert Pair(1) == pickle.loads(pickle.dumps(Pair(1)))  # noqa: S301 - made in this line
    assert (__name__, True) == (Pair.__module__, (Pair.__doc__ or "").startswith("A pair of values"))
    with pytest.raises(TypeError, match="one"):
        Pair()  # type: ignore[call-arg]


@pytest.mark.parametrize("lacking", [False, True], ids=["as it is", "without C"])
def test_json_is_written_like_by_the_standard_library(lacking: bool, request: pytest.FixtureRequest) -> None:
    """The shared encoder writes the same text as ``json.dumps``, without a C encoder too."""
    encoded = (request.getfixturevalue("without") if lacking else fast_stdlib).dumps

    @given(JSON)
    def agree(value: object) -> None:
        assert json.dumps(value, ensure_ascii=False, separators=(",", ":")) == encoded(value)

    agree()
    # Long enough to be put together from several pieces.
    many = [7] * 300_000
    assert json.dumps(many, separators=(",", ":")) == encoded(many)
    for number in (float("nan"), float("inf"), float("-inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            encoded([number])
    for value in ([b"x"], {b"x": 1}):
        with pytest.raises(TypeError, match=r"cannot encode bytes|bytes is not JSON|keys must be str.* not bytes"):
            encoded(value)


@given(JSON, st.sampled_from(["", " ", "\n\t"]))
def test_json_is_read_like_by_the_standard_library(value: object, blanks: str) -> None:
    """This holds for any JSON, with blanks around it or without; a repeated key has its last value."""
    text = json.dumps(value)
    assert value == fast_stdlib.loads(blanks + text + blanks)
    assert {"a": 2} == fast_stdlib.loads('{"a":1,"a":2}')


NO_JSON = ["", " ", "{", "{} x", "[1,]", '"\n"', '{"a"}', "nul", "é", "7\xa0"]


@pytest.mark.parametrize("bad", NO_JSON)
def test_text_that_is_not_json_is_refused(bad: str) -> None:
    """The error says whether there is no value, or something after it; only JSON's own blanks count as blanks."""
    behind = bad in {"{} x", "7\xa0"}
    with pytest.raises(ValueError, match="^more text follows the JSON value$" if behind else "^not JSON$"):
        fast_stdlib.loads(bad)


def test_a_lazy_module_is_loaded_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the attributes of the module."""
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    [stands] = fast_stdlib.import_lazily("colorsys")
    assert "colorsys" not in sys.modules
    assert (0.0, 0.0, 1.0) == stands.rgb_to_hsv(1, 1, 1)
    with pytest.raises(AttributeError, match="nothing"):
        stands.nothing()
