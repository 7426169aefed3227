"""The module that the settings of an agent start for each hook. Standard library only.

`init` writes the name of this module into people's settings, where it stays over upgrades: neither the name nor
``main`` may ever change.
"""

from __future__ import annotations

import gc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def main(arguments: Sequence[str] = ()) -> NoReturn:
    """Handle the payload on standard input and end the process with 0.

    Args:
        arguments: The words after ``hook`` on the command line.
    """
    # A process this short leaves no garbage worth collecting.
    gc.disable()
    from tallybook.projections.surfaces.hooks import handler

    handler.main(arguments)
