"""The pictures of the page in its README: ``python tests/page_pictures.py [FOLDER]`` draws them again."""

from __future__ import annotations

from pathlib import Path
import sys
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs

from helpers.browser import Tab, chromium, write_example, write_page
from tallybook.ledger.codec import decode

PICTURES: Final = Path(__file__).parents[1] / "projections" / "surfaces" / "page" / "pictures"


@attrs.frozen
class Picture:
    """A picture: width and height of the window, colour scheme, and the fragment of what it shows."""

    width: int
    height: int
    scheme: str
    fragment: str
    scale: float = 1

    @property
    def name(self) -> str:
        """Return the name of its file."""
        return f"{self.width}-{self.scheme}.png"


def pictures(last: int, middle: int) -> list[Picture]:
    """Return the six pictures: three widths in both schemes, of six views."""
    return [
        Picture(360, 760, "light", f"event={middle}"),
        Picture(360, 760, "dark", f"event={last}&tab=lives"),
        Picture(1280, 800, "light", f"event={middle}&entry=kpt_004"),
        Picture(1280, 800, "dark", f"event={last}&entry=kpt_010&tab=former"),
        Picture(2560, 1200, "light", f"event={last}&entry=kpt_001&tab=scores", 0.5),
        Picture(2560, 1200, "dark", f"event={last}&entry=kpt_004&tab=lives", 0.5),
    ]


def draw(target: Path) -> None:
    """Draw every picture into a folder."""
    with TemporaryDirectory() as scratch, chromium() as browser:
        folder = Path(scratch) / "parser"
        lasts = [batch.last for batch in decode(write_example(folder).read())]
        file = write_page(folder)
        for picture in pictures(lasts[-1], lasts[len(lasts) * 3 // 5]):
            scheme: Any = picture.scheme
            tab = Tab(browser, file, color_scheme=scheme, device_scale_factor=picture.scale)
            tab.page.set_viewport_size({"width": picture.width, "height": picture.height})
            tab.open(picture.fragment)
            (target / picture.name).write_bytes(tab.page.screenshot())
            tab.page.context.close()


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES)
