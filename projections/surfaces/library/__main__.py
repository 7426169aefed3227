"""``python -m tallybook``: the installed command."""

from tallybook.projections.surfaces.entry_point import main

main()
