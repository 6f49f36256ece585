"""XML as a stream of elements, without entities, document type or outside files."""

from __future__ import annotations

from typing import Any, NoReturn
from xml.sax import SAXParseException
from xml.sax.handler import ContentHandler

from netsim.errors import BadInput
from netsim.traces.source import MAX_LINE_BYTES, Source
from netsim.traces.values import shown

MAX_DEPTH = 64


class Elements(ContentHandler):
    """Receives the beginnings of elements; subclasses interpret them."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.place: Any = None  # the parser, which knows the line
        self.depth = 0

    def begin(self, name: str, attributes: Any) -> None:
        """An element begins; its name is without a prefix."""

    def refuse(self, problem: str) -> NoReturn:
        """Stop with the line that is being read."""
        raise BadInput(f"{self.path}: line {self.place.getLineNumber()}: {problem}")

    def startElement(self, name: str, attrs: Any) -> None:  # noqa: N802 - named by SAX
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse(f"elements nested more than {MAX_DEPTH} deep; no trace needs more")
        self.begin(name.rpartition(":")[2] if ":" in name else name, attrs)

    def endElement(self, name: str) -> None:  # noqa: N802 - named by SAX
        self.depth -= 1


def stream(source: Source, elements: Elements) -> None:
    """Feed a file to `elements`. Raises `BadInput` with one line."""
    import defusedxml.sax  # type: ignore[import-untyped]
    from defusedxml.common import DefusedXmlException  # type: ignore[import-untyped]

    parser = defusedxml.sax.make_parser()
    parser.forbid_dtd = True  # no trace needs a DOCTYPE, and without one there are no entities
    parser.setContentHandler(elements)
    # expat's own dictionaries of attributes go straight to `elements`: an object around each costs more than the rest
    parser.start_element, parser.end_element = elements.startElement, elements.endElement
    elements.place = parser
    rest = b""
    try:
        for chunk in source.chunks():
            tags, end, rest = (rest + chunk).rpartition(b">")
            parser.feed(tags + end)
            if len(rest) > MAX_LINE_BYTES:  # the parser would hold all of a tag that never ends
                parser.feed(rest)
                elements.refuse(f"a tag or a text longer than 1 MiB; give a {source.wanted} file")
        parser.feed(rest)
        parser.close()
    except SAXParseException as error:
        problem = f"line {error.getLineNumber()}: not XML ({error.getMessage()})"
        raise BadInput(f"{source.path}: {problem}; correct it, or copy the file again if it is cut short") from None
    except BadInput:
        raise
    except DefusedXmlException:
        problem = "declares a document type (DOCTYPE), which can hide entity bombs and outside files"
        raise BadInput(f"{source.path}: line {parser.getLineNumber()}: {problem}; remove the DOCTYPE") from None
    except (LookupError, ValueError) as error:  # an encoding that the parser does not know, or one of several bytes
        problem = f"not XML in UTF-8 ({shown(str(error), quote=False)})"
        raise BadInput(f"{source.path}: line {parser.getLineNumber()}: {problem}; save the file as UTF-8") from None
