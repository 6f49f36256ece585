"""The trace-format slot: from a file or folder to raw columns of fixes."""

import re
from abc import abstractmethod
from typing import ClassVar

from netsim.part import Part
from netsim.traces.table import FixBuilder
from netsim.units import Texts


class TraceFormat(Part):
    """Hands the rows of a file to a `FixBuilder`, which checks times, places and names, and counts
    what it leaves out.

    Class attributes
    ----------------
    endings : of names of files, in small letters, without .gz.
    content : pattern that the beginning of a file matches; empty: files are known by their endings.
    folder : pattern of the names of its files in a folder; empty: only single files are read.
    """

    kind: str = ""
    endings: ClassVar[Texts] = ()
    content: ClassVar[str] = ""
    folder: ClassVar[str] = ""

    @classmethod
    def title(cls) -> str:
        """What the format is, in a line."""
        return (cls.__doc__ or "").partition(".\n")[0].strip().rstrip(".")

    @classmethod
    def fits(cls, head: str) -> bool:
        """Whether a file that begins so is of this format."""
        return bool(cls.content and re.search(cls.content, head))

    @abstractmethod
    def read(self, fixes: FixBuilder) -> None:
        """Read ``fixes.path``: add the rows of each file to `fixes`. Raises `BadInput` with one
        line.
        """
