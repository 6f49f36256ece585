"""Outcomes on a terminal, of summaries without folders."""

from pathlib import Path

from scenarios.app.results.outcome import Outcome, build_variants_table
from scenarios.app.results.screen import lay_out_screen
from scenarios.app.results.shown import answer_comparison, build_lines_by_label, group_by_label


def sweep_lines(runs):
    """What a terminal says of labels and summaries, without the heading and the path of the
    page."""
    all_rows = build_lines_by_label(group_by_label(runs))
    part = Outcome(
        "sweep",
        "",
        answer_comparison(all_rows),
        tables=[build_variants_table(all_rows, [], Path())],
    )
    return lay_out_screen(part, {"page": "-"})[1:-1]
