"""From a path to a `TraceTable`, whatever the format."""

from collections.abc import Mapping
from datetime import tzinfo
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import AfterValidator, Field, ValidationError

from netsim.errors import BadInput
from netsim.part import FILE_NAME, Part
from netsim.safe import what_is
from netsim.traces.formats import TRACE_FORMATS
from netsim.traces.formats.base import TraceFormat
from netsim.traces.source import Source, files_in
from netsim.traces.table import AUTO, FixBuilder, TraceTable, check_crs
from netsim.traces.trace import named_zone
from netsim.traces.values import shown


def formats() -> Mapping[str, type[TraceFormat]]:
    """All formats of traces by their kinds."""
    return cast(Mapping[str, type[TraceFormat]], TRACE_FORMATS.parts)


def _known(format: str) -> str:
    if format not in ("auto", *formats()):
        raise ValueError(f"{format!r} is none of auto, {', '.join(formats())}; use one of these")
    return format


class TraceFile(Part):
    """A file of a trace, or a folder of them, and how it is read."""

    trace: Annotated[str, FILE_NAME] = Field(min_length=1)
    """path of the trace: a file, or a folder of PLT, GPX or Cabspotting files"""
    format: Annotated[str, AfterValidator(_known)] = "auto"
    """format of the file; auto: detected from its content"""
    crs: str = AUTO
    """coordinate system of x and y: local (metres), EPSG:4326 (degrees), or one in metres such as EPSG:25832; auto:
    that of the format"""
    columns: dict[str, str] = Field(default_factory=dict)
    """column name: header in the file, for headers that differ from the column names"""
    timezone: str = "auto"
    """IANA name of the time zone, also used for times in the file without a zone; auto: an offset derived from the
    longitude, or UTC for local metres"""
    sample_s: float = Field(default=1.0, gt=0)
    """sampling interval of an ns-2 file, which contains movements instead of rows, s"""

    @property
    def zone(self) -> tzinfo | None:
        """The time zone that is named."""
        return None if self.timezone == "auto" else named_zone(self.timezone)

    def table(self) -> TraceTable:
        """The checked fixes. Raises `BadInput` with one line: file, place, value, bound, remedy."""
        check_crs(self.trace, self.crs)
        kind = detect(self.trace) if self.format == "auto" else self.format
        part, settings = formats()[kind], self.model_dump(include={"columns", "sample_s"})
        if self.columns and "columns" not in part.model_fields:
            problem = f"only a CSV has headers, and this is read as {kind}; leave columns out"
            raise BadInput(f"{self.trace}: columns: {problem}")
        format = part(**{name: value for name, value in settings.items() if name in part.model_fields})
        fixes = FixBuilder(self.trace, self.crs, self.zone)
        format.read(fixes)
        return fixes.table(kind)


def trace_file(path: str | Path, columns: Mapping[str, str] | None = None, **settings: Any) -> TraceFile:
    """A file and how it is read, as a user names them. Raises `BadInput` with one line."""
    try:
        return TraceFile(trace=str(path), columns=dict(columns or {}), **settings)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise BadInput(f"{path}: {wrong['loc'][0]}: {wrong['msg'].removeprefix('Value error, ')}") from None


def read_table(path: str | Path, columns: Mapping[str, str] | None = None, **settings: Any) -> TraceTable:
    """The checked fixes of a file or folder; settings : of a `TraceFile`."""
    return trace_file(path, columns, **settings).table()


def detect(path: str) -> str:
    """The format of a file or a folder, by what it holds and then by its name; a CSV holds nothing that tells it.

    Raises `BadInput` with one line that lists the formats.
    """
    parts = formats()
    if what_is(path) == "folder":
        fits = [kind for kind, part in parts.items() if part.folder and files_in(path, part.folder)]
        if len(fits) > 1:
            raise BadInput(f"{path}: the folder holds files of {' and '.join(fits)}; say which to read with --format")
        patterns = ", ".join(part.folder for part in parts.values() if part.folder)
        problem = f"cannot be read (a folder without files such as {patterns})"
    else:
        head = Source(path).head()
        name = path.lower().removesuffix(".gz")
        holds = [kind for kind, part in parts.items() if part.fits(head)]
        named = [kind for kind, part in parts.items() if name.endswith(part.endings)]
        fits = [*(kind for kind in holds if kind != "csv"), *named, *holds]
        problem = f"its format is not recognised (begins with {shown(head.partition(chr(10))[0])})"
    if fits:
        return fits[0]
    known = "; ".join(f"{kind}: {part.title()}" for kind, part in parts.items())
    raise BadInput(f"{path}: {problem}; name its format if it is one of {known}")
