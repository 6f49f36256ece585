"""What of ours a folder holds."""

from pathlib import Path

from netsim.safe import describe_file_kind
from scenarios.app.results.folder import MANIFEST, RUNS, SWEEP, TRAINING, read_marker


def detect_kind(folder: Path) -> str:
    """Detect what a folder holds, finished or not: training, sweep or run; empty for anything else,
    as for a folder of such folders.
    """
    if any(
        describe_file_kind(f / TRAINING) or read_marker(f) == "training"
        for f in (folder, *folder.glob("seed-*"))
    ):
        return "training"
    if (
        describe_file_kind(folder / RUNS)
        or describe_file_kind(folder / SWEEP)
        or read_marker(folder) == "sweep"
    ):
        return "sweep"
    if describe_file_kind(folder / MANIFEST) or read_marker(folder) == "run":
        return "run"
    return ""
