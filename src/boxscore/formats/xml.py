"""XML parsing that refuses document types, and so custom entities."""

from typing import Any
from xml.etree import ElementTree

from boxscore._support.exceptions import InputError


class _Builder(ElementTree.TreeBuilder):
    def doctype(self, name: str, pubid: Any, system: Any) -> None:  # noqa: ARG002
        """Called before anything inside the declaration is read."""
        raise _DoctypeError


class _DoctypeError(Exception):
    pass


def parse(content: bytes, location: str) -> ElementTree.Element:
    """The root element; errors name the location."""
    parser = ElementTree.XMLParser(target=_Builder())
    try:
        parser.feed(content)
        root: ElementTree.Element = parser.close()
    except _DoctypeError:
        raise InputError(f"{location}: must not declare a document type or entities (<!DOCTYPE …>)") from None
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise InputError(f"{location}: not XML: {error}") from None
    return root
