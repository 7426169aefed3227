"""Where the installed command begins: loads the command line only once it is known to be needed."""

from __future__ import annotations

import sys


def main() -> None:
    """Run ``tallybook`` and leave with its exit code."""
    from projections.surfaces import cli

    sys.exit(cli.run(sys.argv[1:]))
