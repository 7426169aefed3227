"""``python -m tallybook``: the installed command."""

from tallybook.projections.surfaces.entry import main

main()
