"""The command `netsim export`: the tracks of a run for maps elsewhere."""

from __future__ import annotations

import argparse
from pathlib import Path

from netsim.errors import BadInput
from netsim.safe import OURS_MOST_BYTES, opened, replacing, what_is
from scenarios.app.cli.output import say
from scenarios.app.results.export import BEGINNINGS, FORMATS, Globe
from scenarios.app.results.folder import EXPORTS, MANIFEST, PAGE, RECORDS, STUDY
from scenarios.app.results.marker import MARKER
from scenarios.app.results.read import load


def main(args: argparse.Namespace) -> None:
    """Write the file."""
    folder = Path(args.folder)
    out = _out(folder, folder / EXPORTS[args.format] if args.out is None else Path(args.out))
    run = load(folder)
    globe = Globe.of(folder, run, origin_of(args.origin))
    text = FORMATS[args.format](run, globe)
    try:
        with replacing(out) as file:
            file.write(text.encode())
    except OSError as error:
        raise BadInput(f"{out}: cannot be written ({error.strerror}); give --out another file") from None
    say(f"tracks in {out}")
    if not globe.known:
        lat, lon = globe.origin_deg
        say(
            f"  this run has no geographic origin; its south-west corner was put at {lat:g}, {lon:g} (--origin=LAT,LON)"
        )


def _out(folder: Path, out: Path) -> Path:
    """The file to write: new, or an earlier export; no record of this run or another."""
    of_run = out.parent.resolve() == folder.resolve() or what_is(out.parent / MANIFEST)
    if of_run and out.name in (STUDY, PAGE, MARKER, *RECORDS):
        raise BadInput(f"--out {out}: is a record of the run; give another name")
    try:
        with opened(out, OURS_MOST_BYTES, own=True) as file:
            if not file.read(max(map(len, BEGINNINGS))).startswith(BEGINNINGS):
                raise BadInput(f"{out}: exists and is no export of netsim; give --out another file, or move it away")
    except FileNotFoundError:
        pass
    except OSError as error:
        raise BadInput(f"{out}: cannot be written ({error.strerror}); give --out another file") from None
    return out


def origin_of(text: str | None) -> tuple[float, float] | None:
    """Latitude and longitude, of --origin."""
    if text is None:
        return None
    try:
        lat, lon = map(float, text.split(","))
    except ValueError:
        raise BadInput(f"--origin {text}: write LAT,LON in degrees, for example --origin=48.8566,2.3522") from None
    if not (abs(lat) <= 90 and abs(lon) <= 180):
        raise BadInput(f"--origin {text}: latitude is -90 to 90 and longitude -180 to 180 degrees")
    return lat, lon
