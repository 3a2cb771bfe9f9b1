"""HTML pages read back, and opened in a browser where there is one."""

import subprocess
from html import escape
from html.parser import HTMLParser

import pytest

from browser import BROWSERS, find_browser

VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "wbr"}
HIDDEN = ("style", "script")


class Reader(HTMLParser):
    """Checks the nesting of tags; collects tags with attributes, and text by the tag it is in."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"an attribute of {tag} is there twice: {names}"
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes another tag: {self.open}"

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def text(self, *, of=None):
        """Texts in the order of the page, directly in tags of one name or all."""
        shown = [text for tag, text in self.texts if (tag == of if of else tag not in HIDDEN)]
        return [" ".join(text.split()) for text in shown if text.strip()]

    def attributes(self, name):
        return [attrs[name] for _, attrs in self.tags if name in attrs]


def dump_dom(path, folder):
    """The document of a file as a browser has it, as text, and what the browser logged.

    Skips the test where no browser is there; ``folder`` takes its profile.
    """
    found = find_browser()
    if found is None:
        pytest.skip(f"no browser on the path: none of {', '.join(BROWSERS)}")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    options += [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000"]
    options += ["--disable-dev-shm-usage", "--dump-dom", path.as_uri()]
    done = subprocess.run([found, *options], capture_output=True, timeout=120, check=True)
    return done.stdout.decode(), done.stderr.decode(errors="replace")


def in_frames(text, widths, script):
    """A page with the given one in frames of several widths, and a script that looks into them.

    The script runs once all are loaded; frames with srcdoc can be read from outside.
    """
    frames = "".join(
        f'<iframe width="{w}" height="900" style="border:0" srcdoc="{escape(text)}"></iframe>'
        for w in widths
    )
    return f"<!DOCTYPE html><body>{frames}<script>onload = () => {{ {script} }};</script></body>"


# Adds a line for each frame: its width, those of the page in it, and how many things are in sight.
MEASURE = """
for (const frame of document.querySelectorAll("iframe")) {
  const inner = frame.contentDocument, root = inner.documentElement;
  const seen = [...inner.querySelectorAll("td, svg, figcaption, p, h2")].filter(
    e => e.getBoundingClientRect().height > 0);
  document.body.insertAdjacentHTML("beforeend", `<p>${frame.width}: ` +
    `${root.scrollWidth} ${inner.body.scrollWidth} ${seen.length}</p>`);
}
"""
