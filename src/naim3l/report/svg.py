"""Figures embedded in an HTML page."""

import re
from collections.abc import Mapping
from xml.etree import ElementTree

REFERENCE = re.compile(r"url\(\s*(['\"]?)#")


def inline_svg(text: str, anchor: str, label: str, names: Mapping[str, str] | None = None) -> str:
    """An SVG file as an element of an HTML page.

    Parameters
    ----------
    text : str
        Content of the file.
    anchor : str
        The new id of the figure, and the prefix of every id in it, because figures share ids.
    label : str
        Alternative text.
    names : mapping of str to str, optional
        Texts to put in place of those in the groups with these ids.

    Returns
    -------
    str
        The element without prolog, comments, metadata and namespaces; its styles apply only to it.
    """
    root = ElementTree.fromstring(text)
    for element in list(root.iter()):
        element.tag = _local(element.tag)
        name = (names or {}).get(element.attrib.get("id", ""))
        if name is not None:
            element[-1].text = name
        for child in list(element):
            if _local(child.tag) in ("metadata", "script"):
                element.remove(child)
        attributes = {_local(name): value for name, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib.update(
            {name: _rename(name, value, f"{anchor}-") for name, value in attributes.items()}
        )
        if element.tag == "style" and element.text:
            element.text = f"#{anchor} {{{element.text}}}"
    root.attrib |= {"id": anchor, "role": "img", "aria-label": label}
    title = ElementTree.Element("title")
    title.text = label
    root.insert(0, title)
    return ElementTree.tostring(root, encoding="unicode").strip()


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _rename(attribute: str, value: str, prefix: str) -> str:
    """The value of an attribute, with a prefix before the id that it is or refers to, if any."""
    if attribute == "id":
        return prefix + value
    if attribute == "href" and value.startswith("#"):
        return f"#{prefix}{value[1:]}"
    return REFERENCE.sub(rf"url(\1#{prefix}", value)
