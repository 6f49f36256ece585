"""Which of very many runs are drawn: to read all their tables takes minutes, and nobody reads a thousand curves.

Figures that need the tables of runs, and tables with a column a label, are of a sample. A table with a row a label is
of all runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST_DRAWN, MOST_LABELS = 150, 100  # runs whose tables are read, and labels of them where there are more


def drawn(labels: Sequence[str]) -> list[int]:
    """Places of the runs that are drawn, given the label of each: all, or a sample that is always the same.

    Of more than 150 runs at most 100 labels are drawn, evenly spaced, the first and the last among them; of each as
    many of its first runs as there is room for.
    """
    if len(labels) <= MOST_DRAWN:
        return list(range(len(labels)))
    runs: dict[str, list[int]] = {}
    for place, label in enumerate(labels):
        runs.setdefault(label, []).append(place)
    every = list(runs.values())
    if len(every) > MOST_LABELS:
        every = [every[k] for k in np.linspace(0, len(every) - 1, MOST_LABELS).round().astype(int)]
    return sorted(place for of in every for place in of[: MOST_DRAWN // len(every)])


def drawn_sentence(labels: Sequence[str], places: Sequence[int]) -> list[str]:
    """What is said of a sample; nothing where every run is drawn."""
    if len(places) == len(labels):
        return []
    n_labels, n_drawn = len(set(labels)), len({labels[place] for place in places})
    of = f"the first of {n_drawn:,} of {n_labels:,} labels" if n_drawn < n_labels else "the first of each label"
    tables = ", and tables with a column a label," if n_drawn < n_labels else ""
    return [
        f"Curves{tables} are of a sample: {len(places):,} of {len(labels):,} runs, {of}. The table with a row a label "
        "is of all runs."
    ]
