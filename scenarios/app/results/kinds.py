"""What of ours a folder holds."""

from pathlib import Path

from netsim.safe import what_is
from scenarios.app.results.folder import MANIFEST, RUNS, SWEEP, TRAINING, marked


def kind_of(folder: Path) -> str:
    """What a folder holds, finished or not: training, sweep or run; empty for anything else, as for
    a folder of such folders.
    """
    if any(
        what_is(f / TRAINING) or marked(f) == "training" for f in (folder, *folder.glob("seed-*"))
    ):
        return "training"
    if what_is(folder / RUNS) or what_is(folder / SWEEP) or marked(folder) == "sweep":
        return "sweep"
    if what_is(folder / MANIFEST) or marked(folder) == "run":
        return "run"
    return ""
