"""How scores are shown: pages, boxes, plots, markdown."""
