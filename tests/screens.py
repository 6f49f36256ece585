"""Outcomes on a terminal, of summaries without folders."""

from pathlib import Path

from scenarios.app.results.outcome import Outcome, variants
from scenarios.app.results.screen import screen
from scenarios.app.results.shown import answers, compared, labels_of


def sweep_lines(runs):
    """What a terminal says of labels and summaries, without the heading and the path of the
    page."""
    every = compared(labels_of(runs))
    of = Outcome("sweep", "", answers(every), tables=[variants(every, [], Path())])
    return screen(of, {"page": "-"})[1:-1]
