"""The settings of reflection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def choose(**values: Any) -> None:
    """Write the user's settings of reflection."""
    path = Path.home() / ".claude" / "config" / "tallybook.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    path.write_text("\n".join(["[reflection]", *lines, ""]), encoding="utf-8")
