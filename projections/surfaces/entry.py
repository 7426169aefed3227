"""Where the installed command begins: Click is loaded only once it is known to be needed."""

from __future__ import annotations

import sys


def main() -> None:
    """Run ``tallybook`` and leave with its exit code."""
    if _is_hook(sys.argv[1:]):
        from projections.surfaces import hook_start

        hook_start.main(sys.argv[2:])
    sys.exit(run(sys.argv[1:]))


def _is_hook(arguments: list[str]) -> bool:
    return arguments[:1] == ["hook"] and not {"-h", "--help"}.intersection(arguments)


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    if _is_hook(arguments):
        from projections.surfaces import hook

        return hook.run(arguments[1:])
    # A script that records in a pipe pays for no command line library.
    if "record" in arguments[:3]:
        from projections.surfaces import plain

        options = plain.read(arguments)
        if options is not None:
            return plain.record(options)
    from projections.surfaces import cli

    return cli.run(arguments)
