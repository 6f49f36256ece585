"""The command `netsim rerun`: a finished run, sweep or training repeated, and compared number by number."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from netsim.errors import BadInput
from scenarios.app.cli.options import DONE, FAILED
from scenarios.app.cli.output import emit, say

if TYPE_CHECKING:
    from scenarios.app.rerun import Repeated
    from scenarios.app.run.events import Event

MOST_LINES = 10  # of differences of a run that are printed


def main(args: argparse.Namespace) -> int:
    """Repeat, compare, print; 1 where something differs."""
    from scenarios.app.rerun import rerun
    from scenarios.app.scratch import scratch

    if not args.folder or args.out == "":
        raise BadInput("rerun: the name of a folder is empty; give the folder of a run, a sweep or a training")

    def watch(event: Event) -> None:
        if not args.quiet and not args.json:
            label = event.values["label"]
            say(f"netsim: repeating {event.done} of {event.of}{f': {label}' if label else ''}", errors=True)

    with scratch("netsim-rerun-") if args.out is None else nullcontext() as place:
        out = Path(args.out) if place is None else place / "again"
        repeated, skipped = rerun(Path(args.folder), out, args.only, watch, args.replace)
    if args.json:
        runs = [_event(one) for one in repeated]
        emit({"event": "result", "kind": "rerun", "folder": args.folder, "runs": runs, "skipped": skipped})
    else:
        for one in repeated:
            _say(one)
        for text in skipped:
            say(f"not repeated: {text}")
    return FAILED if any(one.differences for one in repeated) else DONE


def _say(one: Repeated) -> None:
    name = f"{one.folder}{f' ({one.label})' if one.label else ''}"
    if not one.differences:
        say(f"{name}: the same, byte by byte")
    else:
        say(f"{name}: differs, first in {one.differences[0].text()}")
        for difference in one.differences[1:MOST_LINES]:
            say(f"  {difference.text()}")
        if len(one.differences) > MOST_LINES:
            say(f"  and {len(one.differences) - MOST_LINES:,} more")
    if one.note:
        say(f"  note: {one.note}")


def _event(one: Repeated) -> dict[str, object]:
    found = [{"file": d.file, "what": d.what, "how": d.how, "relative": d.size} for d in one.differences]
    return {"label": one.label, "folder": str(one.folder), "same": not found, "differences": found, "note": one.note}
