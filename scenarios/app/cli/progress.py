"""Progress of a run on a terminal (one line, rewritten) or in a log (plain lines, not too many)."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from scenarios.app.results.statistics import figure_text
from scenarios.app.run.checkpoints import Progress
from scenarios.app.study.yaml_document import one_line

LOG_EVERY_S = 2.0


class Meter:
    """Shows simulated time, round and the leakage now. Writes to stderr, so results can be piped."""

    def __init__(self, title: str, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.title, self.quiet, self.stream = title, quiet, stream or sys.stderr
        self.live = self.stream.isatty()
        self.shown = 0.0

    def __call__(self, now: Progress) -> None:
        if self.quiet:
            return
        text = one_line(f"{self.title}: {_line(now)}")
        if self.live:
            self.stream.write(f"\r\033[K{text[:160]}")
            if now.last:
                self.stream.write("\n")
        elif time.monotonic() - self.shown >= LOG_EVERY_S or now.last:
            self.stream.write(text + "\n")
            self.shown = time.monotonic()
        self.stream.flush()

    def end(self) -> None:
        """Leave the line, whatever happened."""
        if self.live and not self.quiet:
            self.stream.write("\n")


def _line(now: Progress) -> str:
    if now.said:
        return f"{now.clock}, {now.said}"
    head = f"round {now.round}/{now.rounds}, {now.clock}"
    if not now.figures:
        return f"{head}, nobody measured"
    leaks = ", ".join(f"{name} {value:.0f} m" for name, value in now.figures["leakage"].items() if value == value)
    right = now.figures["scores"].get("accuracy_percent")
    rmse_db = now.figures["rmse_db"]
    worth = f", rmse {figure_text(rmse_db)} dB" if rmse_db == rmse_db else ""  # NaN where no signals are learnt
    worth = worth if right is None else f", accuracy {right:.1f} %"
    return head + worth + (f", centroid error: {leaks}" if leaks else "")
