"""The HTML file of the page: template, styles, scripts and data, under a policy that allows these alone."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
import zlib

from tallybook.ledger.fast_stdlib import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallybook.projections.surfaces.workspace.project import Project

MARK: Final = b'<meta name="generator" content="tallybook page">'
"""What a page has among its first bytes, and other files have not."""

_HEAD_BYTES: Final = 4096
_BROWSER: Final = Path(__file__).with_name("browser")


@cache
def _parts() -> tuple[str, str, str]:
    """Return the template, the style and the script."""
    template, style, script = (
        "".join(path.read_text(encoding="utf-8") for path in sorted(_BROWSER.glob(pattern)))
        for pattern in ("page.html", "*.css", "*.js")
    )
    return template, style, f'"use strict";\n(() => {{\n{script}}})();\n'


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def security_policy(*, served: bool) -> str:
    """Return the content security policy: nothing but the style and the script of the page, by their hashes."""
    _, style, script = _parts()
    own = "; connect-src 'self'" if served else ""
    sources = f"script-src {_hash(script)}; style-src {_hash(style)}{own}"
    # Browsers apply default-src to neither of the last two.
    return f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"


def assemble(meta: Mapping[str, Any], document: Mapping[str, Any], sections: str = "") -> bytes:
    """Return the file.

    Args:
        meta: What the script knows before it unpacks the document; ``served`` is whether a server sends the page.
        document: The history.
        sections: Markup that needs no script; empty for none.
    """
    template, style, script = _parts()
    policy = f'<meta http-equiv="Content-Security-Policy" content="{security_policy(served=meta["served"])}">'
    parts = {
        "policy": f"{MARK.decode()}\n{policy}",
        "style": f"<style>{style}</style>",
        "sections": sections,
        "data": _data(meta, document),
        "script": f"<script>{script}</script>",
    }
    for name, part in parts.items():
        before, _, after = template.partition(f"<!--{name}-->")
        # Each part is joined to what comes after it, so that nothing in it is taken for a mark.
        parts[name], template = before + part, after
    return ("".join(parts.values()) + template).encode()


def _data(meta: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Return the elements that hold the data; a ``<`` in JSON would be able to end one."""
    text = dumps(meta).replace("<", "\\u003c")
    packed = b64encode(zlib.compress(dumps(document).encode("utf-8", "replace"))).decode("ascii")
    return (
        f'<script type="application/json" id="meta">{text}</script>\n'
        f'<script type="application/octet-stream" id="document">{packed}</script>'
    )


def is_page(path: Path) -> bool:
    """Return whether a file is a page.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return MARK in file.read(_HEAD_BYTES)


MAX_FILES: Final = 50_000
"""Most files whose names are looked at: a search for pages must not take longer than the command that it serves."""


def find_pages(project: Project) -> list[Path]:
    """Return the pages in a project's folder, without hidden folders; in a large project those found first."""
    return sorted(filter(_is_readable_page, _candidates(project)))


def _candidates(project: Project) -> Iterator[Path]:
    seen = 0
    for folder, folders, names in os.walk(project.root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        seen += len(names)
        yield from (Path(folder, name) for name in names if name.lower().endswith((".html", ".htm")))
        if seen > MAX_FILES:
            return


def _is_readable_page(path: Path) -> bool:
    try:
        return path.is_file() and not path.is_symlink() and is_page(path)
    except OSError:
        return False
