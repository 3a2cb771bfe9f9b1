"""The built site without what no reader needs: maps of the theme's scripts, and spare colours."""

from pathlib import Path

from PIL import Image


def shrink(app, exception):
    """Remove the maps, and give pictures that have not changed their own palette."""
    if exception is not None:
        return
    site = Path(app.outdir)
    for path in (site / "_static").rglob("*.map"):
        path.unlink()
    for path in (site / "_images").glob("*.png"):
        picture = Image.open(path)
        if picture.mode != "P":
            picture.convert("RGB").quantize(256).save(path, optimize=True)


def setup(app):
    app.connect("build-finished", shrink)
    return {"version": "1", "parallel_read_safe": True}
