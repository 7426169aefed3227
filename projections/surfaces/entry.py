"""Where the installed command begins: Click is loaded only once it is known to be needed."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run ``tallybook`` and leave with its exit code."""
    try:
        if _is_hook(sys.argv[1:]):
            from tallybook import hook

            hook.main(sys.argv[2:])
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        # While a module was loaded; `answers` catches what comes after that.
        if _is_hook(sys.argv[1:]):
            _leave(0)
        from tallybook.ledger.errors import EXIT_INTERRUPTED

        sys.stderr.write("tallybook: interrupted\n")
        code = EXIT_INTERRUPTED
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process with a code, once all that it printed is out.

    Python would first take apart what it loaded, piece by piece, which takes as long as loading a good part of it.
    """
    import os

    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # Whose answer this was has been told by the code.
            continue
    os._exit(code)


def _is_hook(arguments: list[str]) -> bool:
    return arguments[:1] == ["hook"] and not {"-h", "--help"}.intersection(arguments)


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    if _is_hook(arguments):
        from tallybook.projections.surfaces.hooks import handler

        return handler.run(arguments[1:])
    # What is called again and again pays for no command line library.
    from tallybook.projections.surfaces.cli import plain

    said = plain.read(arguments)
    if said is not None:
        return plain.run(said)
    from tallybook.projections.surfaces.cli import main as cli

    return cli.run(arguments)
