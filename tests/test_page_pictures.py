"""The pictures in the page's README, and what makes them small."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from helpers.browser import chromium
from helpers.png import with_palette
from page_pictures import PICTURES, draw, pictures

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 120_000


def size_of(png: bytes) -> tuple[int, int]:
    """Return width and height of a picture."""
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


def test_the_readme_shows_three_widths_in_both_schemes() -> None:
    """Each picture is there, as large as its window on its scale, small as a file, and shown."""
    shown = re.findall(r"!\[[^]]+\]\(pictures/([^)]+)\)", (PICTURES.parent / "README.md").read_text(encoding="utf-8"))
    rows = pictures(2, 1)
    assert {row.name for row in rows} == {*shown} == {path.name for path in PICTURES.iterdir()}
    assert {(width, scheme) for width in (360, 1280, 2560) for scheme in ("light", "dark")} == {
        (row.width, row.scheme) for row in rows
    }
    for row in rows:
        data = (PICTURES / row.name).read_bytes()
        assert (row.width * row.scale, row.height * row.scale) == size_of(data)
        assert len(data) < MAX_BYTES


def test_one_command_draws_them(tmp_path: Path) -> None:
    """The command writes the same six files, each with more than one colour."""
    draw(tmp_path)
    assert {path.name for path in PICTURES.iterdir()} == {path.name for path in tmp_path.iterdir()}
    for path in tmp_path.iterdir():
        assert size_of((PICTURES / path.name).read_bytes()) == size_of(path.read_bytes())
        assert len(path.read_bytes()) > MAX_BYTES / 12


@pytest.mark.parametrize("colours", [3, 200])
def test_a_palette_keeps_the_picture(colours: int) -> None:
    """A browser shows the same pixels of a picture of up to 256 colours."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": colours, "height": 20})
        page.set_content(f"<body style='margin:0'><canvas width={colours} height=20></canvas>")
        page.evaluate(STRIPES, colours)
        before = page.screenshot()
        after = with_palette(before)
        difference = page.evaluate(DIFFERENCE, [[*before], [*after]])
        page.close()
    assert 0 == difference


STRIPES = """(colours) => {
  const pen = document.querySelector("canvas").getContext("2d");
  for (let x = 0; x < colours; x++) {
    pen.fillStyle = `rgb(${(x * 255) / colours} ${255 - (x * 255) / colours} ${x % 2})`;
    pen.fillRect(x, 0, 1, 20);
  }
}"""
DIFFERENCE = """async (files) => {
  const read = async (bytes) => {
    const image = await createImageBitmap(new Blob([new Uint8Array(bytes)])), { width, height } = image;
    const pen = new OffscreenCanvas(width, height).getContext("2d");
    pen.drawImage(image, 0, 0);
    return pen.getImageData(0, 0, width, height).data;
  };
  const [one, other] = await Promise.all(files.map(read));
  return Math.max(...one.map((value, i) => Math.abs(value - other[i])));
}"""
