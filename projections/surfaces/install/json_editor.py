"""An editor for JSON text: it inserts, removes or replaces one value, and leaves every other character as it is.

People keep settings in their own layout, which json.dumps would lose. Texts are valid JSON without a byte order mark;
a value is found by its path, keys of objects and indices of arrays.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Path = Sequence[str | int]

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_LINE_END = re.compile(r"\r\n|\n|\r")
_CLOSING = frozenset("}]")
_INDENT = "  "


@attrs.frozen
class Node:
    """A value, by its place in the text.

    Attributes:
        start: Offset of its first character.
        end: Offset after its last one.
        items: The members of an object, or the elements of an array.
    """

    start: int
    end: int
    items: tuple[Item, ...] = ()


@attrs.frozen
class Item:
    """A member of an object, or an element of an array.

    Attributes:
        key: None in an array.
        start: Offset of the key, or of the element.
        key_end: Offset after the key; in an array as ``start``.
        value: The value.
    """

    key: str | None
    start: int
    key_end: int
    value: Node


@attrs.frozen
class Style:
    """The layout of a text.

    Attributes:
        newline: The end of a line.
        indent: The indentation of one level; may be empty.
        colon: The characters between a key and its value on one line.
    """

    newline: str
    indent: str
    colon: str

    @property
    def comma(self) -> str:
        """Return the characters between two items on one line."""
        return ", " if self.colon.endswith(" ") else ","


def insert(text: str, path: Path, key: str | None, value: Any) -> str:
    """Append an item to the object or array at a path, in the layout of the items before it.

    Args:
        text: Valid JSON.
        path: Path of the object or array; empty for the whole text.
        key: Key of the new member, None for an element.
        value: A JSON value.
    """
    root = _parse(text)
    style = _style(text, root)
    node, base = _find(text, root, path)
    if node.items:
        last = node.items[-1]
        gap = _gap(text, node, style)
        at, until, closing = last.value.end, last.value.end, ""
        base = _indentation(text, last.start)
    else:
        closing = "" if base is None else style.newline + base
        base = None if base is None else base + style.indent
        gap = "" if base is None else style.newline + base
        at, until = node.start + 1, node.end - 1
    label = "" if key is None else json.dumps(key, ensure_ascii=False) + style.colon
    return text[:at] + gap + label + _laid_out(value, style, base) + closing + text[until:]


def replace(text: str, path: Path, value: str) -> str:
    """Replace the string at a path."""
    node, _ = _find(text, _parse(text), path)
    return text[: node.start] + json.dumps(value, ensure_ascii=False) + text[node.end :]


def remove(text: str, path: Path) -> str:
    """Remove the item at a path, and a comma with it."""
    root = _parse(text)
    node, _ = _find(text, root, path[:-1])
    index = _index(node, path[-1])
    if len(node.items) == 1:
        start, end = node.start + 1, node.end - 1
    elif index + 1 < len(node.items):
        start, end = node.items[index].start, node.items[index + 1].start
    else:
        start, end = node.items[index - 1].value.end, node.items[index].value.end
    return text[:start] + text[end:]


def _parse(text: str) -> Node:
    tokens = _TOKEN.finditer(text)
    return _node(next(tokens), tokens)


def _node(opening: re.Match[str], tokens: Iterator[re.Match[str]]) -> Node:
    """Return the value that begins with a token, and read the rest of its tokens."""
    if opening[0] not in {"{", "["}:
        return Node(opening.start(), opening.end())
    items = []
    while (token := next(tokens))[0] not in _CLOSING:
        if token[0] == ",":
            continue
        if opening[0] == "[":
            items.append(Item(None, token.start(), token.start(), _node(token, tokens)))
        else:
            next(tokens)  # The colon.
            items.append(Item(json.loads(token[0]), token.start(), token.end(), _node(next(tokens), tokens)))
    return Node(opening.start(), token.end(), tuple(items))


def _find(text: str, root: Node, path: Path) -> tuple[Node, str | None]:
    """Return the value at a path, and the indentation of its line; None where it does not begin a line.

    The items of a value that does not begin a line are laid out on one line.
    """
    node = root
    base: str | None = ""
    for step in path:
        item = node.items[_index(node, step)]
        node, base = item.value, _indentation(text, item.start)
    return node, base


def _index(node: Node, step: str | int) -> int:
    return step if isinstance(step, int) else [item.key for item in node.items].index(step)


def _indentation(text: str, offset: int) -> str | None:
    """Return the white space before an item that begins a line, None for one that does not."""
    before = text[:offset].rstrip(" \t")
    # Some layouts begin a line with the comma.
    line = before.removesuffix(",").rstrip(" \t")
    if not line.endswith(("\n", "\r")):
        return None
    return text[len(line) : offset].partition(",")[0]


def _gap(text: str, node: Node, style: Style) -> str:
    """Return the characters between the last two items, or the white space before the only one, with a comma."""
    if len(node.items) > 1:
        return text[node.items[-2].value.end : node.items[-1].start]
    space = text[node.start + 1 : node.items[0].start]
    return f",{space}" if space else style.comma


def _style(text: str, root: Node) -> Style:
    """Return the layout of a text, with the usual layout where the text shows none."""
    end = _LINE_END.search(text)
    newline = end[0] if end is not None else "\n"
    if not root.items:
        return Style(newline, _INDENT, ": ")
    first = root.items[0]
    indent = _indentation(text, first.start)
    colon = text[first.key_end : first.value.start]
    return Style(newline, _INDENT if indent is None else indent, ": " if _LINE_END.search(colon) else colon)


def _laid_out(value: Any, style: Style, base: str | None) -> str:
    """Return a value as text: on lines with the indentation ``base``, or on one line where that is None."""
    if base is None:
        return json.dumps(value, ensure_ascii=False, separators=(style.comma, style.colon))
    text = json.dumps(value, ensure_ascii=False, separators=(",", style.colon), indent=style.indent)
    return text.replace("\n", style.newline + base)
