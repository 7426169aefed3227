"""The entry point of the installed command: a hook runs without Click, every other verb with it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run ``tallybook`` and leave with its exit code."""
    # The help is Click's.
    is_hook = sys.argv[1:2] == ["hook"] and not {"-h", "--help"}.intersection(sys.argv)
    try:
        if is_hook:
            from tallybook.hook import main as run_hook

            run_hook(sys.argv[2:])
        from tallybook.projections.surfaces.cli.main import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        # Only while a module is imported; later interrupts end in `output.run_guarded`.
        if is_hook:
            _leave(0)
        from tallybook.ledger.errors import EXIT_INTERRUPTED

        sys.stderr.write("tallybook: interrupted\n")
        code = EXIT_INTERRUPTED
    _leave(code)


def _leave(code: int) -> NoReturn:
    """Flush the standard streams and end the process at once.

    Python would free every loaded module first, which takes a good part of the time of loading them.
    """
    import os

    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # The exit code already says whether the answer was written.
            continue
    os._exit(code)


if __name__ == "__main__":
    main()
