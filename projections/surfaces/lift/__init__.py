"""Questions about lift: asked, drawn again, and answered."""
