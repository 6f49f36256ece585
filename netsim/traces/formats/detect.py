"""Which format a file or a folder has, by what it holds and then by its name."""

from __future__ import annotations

import re

from netsim.errors import BadInput
from netsim.safe import what_is
from netsim.traces.source import Source
from netsim.traces.tracks import fitting
from netsim.traces.values import shown

TITLES = {
    "csv": "CSV with a header (time_s, user, lat, lon or x_m, y_m)",
    "plt": "GeoLife PLT, a file or a folder",
    "gpx": "GPX tracks, a file or a folder",
    "sumo-fcd": "SUMO floating car data, XML",
    "ns2": "ns-2 movement file (setdest)",
    "cabspotting": "Cabspotting text, a file or a folder",
}
_CONTENT = {
    "gpx": re.compile(r"\s*(?=<)(?=.*?<(\w+:)?gpx\b)", re.DOTALL),
    "sumo-fcd": re.compile(r"\s*(?=<)(?=.*?<fcd-export\b)", re.DOTALL),
    "plt": re.compile(r"Geolife trajectory|OziExplorer Track Point File", re.IGNORECASE),
    "cabspotting": re.compile(r"\s*-?\d+\.\d+ -?\d+\.\d+ [01] \d+\s*(\n|$)"),
}
_NS2_LINE = re.compile(r"^[ \t]*\$(ns_ at |node_\()", re.MULTILINE)  # below comments of any length
_ENDINGS = {
    ".csv": "csv", ".tsv": "csv", ".plt": "plt", ".gpx": "gpx", ".fcd.xml": "sumo-fcd", ".mob": "ns2",
    ".ns_movements": "ns2", ".ns2": "ns2",
}  # fmt: skip
_FOLDERS = {"plt": "*.plt*", "cabspotting": "new_*.txt*", "gpx": "*.gpx*"}


def detect(path: str) -> str:
    """The name of the format. Raises `BadInput` with one line that lists the formats."""
    if what_is(path) == "folder":
        fits = [name for name, pattern in _FOLDERS.items() if fitting(path, pattern)]
        if len(fits) > 1:
            raise BadInput(f"{path}: the folder holds files of {' and '.join(fits)}; say which to read with --format")
        return fits[0] if fits else _unknown(path, "cannot be read (a folder without .plt, new_*.txt or .gpx files)")
    head = Source(path).head()
    for name, pattern in _CONTENT.items():
        if pattern.match(head):
            return name
    if _NS2_LINE.search(head):
        return "ns2"
    for ending, name in _ENDINGS.items():
        if path.lower().removesuffix(".gz").endswith(ending):
            return name
    first = head.partition("\n")[0]
    if not head.lstrip().startswith("<") and any(delimiter in first for delimiter in ",;\t"):
        return "csv"
    return _unknown(path, f"its format is not recognised (begins with {shown(first)})")


def _unknown(path: str, problem: str) -> str:
    formats = "; ".join(f"{name}: {title}" for name, title in TITLES.items())
    raise BadInput(f"{path}: {problem}; name its format if it is one of {formats}")
