"""Parse XML, refusing document types and so custom entities; validate and escape text for XML."""

import re
from typing import Any
from xml.etree import ElementTree

from boxscore._support.exceptions import InputError


class _Builder(ElementTree.TreeBuilder):
    def doctype(self, name: str, pubid: Any, system: Any) -> None:  # noqa: ARG002
        """Refuse the declaration; called before anything inside it is read."""
        raise _DoctypeError


class _DoctypeError(Exception):
    pass


def parse(content: bytes, location: str) -> ElementTree.Element:
    """Parse the root element; errors name the location."""
    parser = ElementTree.XMLParser(target=_Builder())
    try:
        parser.feed(content)
        root: ElementTree.Element = parser.close()
    except _DoctypeError:
        raise InputError(f"{location}: must not declare a document type or entities (<!DOCTYPE …>)") from None
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise InputError(f"{location}: not XML: {error}") from None
    return root


_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def is_text(text: str) -> bool:
    r"""Whether XML can hold a text, which must not have most control characters.

    >>> is_text("a & b"), is_text("a\x07")
    (True, False)
    """
    return _INVALID.search(text) is None


def escaped(text: str) -> str:
    """Escape a text as the content of an element."""
    from xml.sax.saxutils import escape  # it imports HTTP and TLS, and only writers need it

    return escape(text, {"\r": "&#13;"})


def quoted(text: str) -> str:
    r"""Escape a text as the value of an attribute, with quotes.

    >>> quoted('a "b"\n')
    '\'a "b"&#10;\''
    """
    from xml.sax.saxutils import quoteattr

    return quoteattr(text)
