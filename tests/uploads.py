"""Hand-made rows of `transmissions` in a run folder."""

import csv
from itertools import pairwise
from pathlib import Path

from fl_values import read_rows
from tracking_rows import write_rows

from fl.round.tables import TABLES

COLUMNS = tuple(TABLES["transmissions"])


def upload(
    round_,
    ue,
    times_s,
    fate="arrived",
    bits=1000,
    sent_bits=None,
    lost_bits=0,
    version=0,
    staleness=None,
):
    """A row; times_s: requested, ready, granted, ended, None for what did not happen."""
    stale = staleness if staleness is not None else 0 if fate == "arrived" else None
    sent = sent_bits if sent_bits is not None else bits if fate == "arrived" else 0
    assert all(a <= b for a, b in pairwise(t for t in times_s if t is not None))
    return dict(
        zip(
            COLUMNS,
            (round_, ue, *times_s, fate, bits, sent, lost_bits, version, stale),
            strict=True,
        )
    )


def write_uploads(folder, rows):
    """Put rows into the table, in place of its own."""
    return write_rows(folder, "transmissions", rows)


def change_rows(folder, table, change):
    """Rewrite the rows of a table: change(row) gives a row back."""
    path = Path(folder) / f"{table}.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    write_rows(folder, table, [change(dict(row)) for row in rows])


# round, UE, four times, fate, bits and those sent and lost, version and staleness
MIXED = [
    upload(*row[:2], row[2:6], *row[6:])
    for row in read_rows("""
    1 0 60  64   70   80   arrived   1000 None 0   0 None
    1 1 60  62   62   90   arrived   1000 1500 500 0 None
    1 2 60  61   66   75   late      1000 400  0   0 None
    1 3 60  None None 63   dropped   1000 None 0   0 None
    2 0 120 122  122  132  arrived   1000 None 0   1 1
    2 1 120 130  None 150  stopped   1000 None 0   1 None
    2 2 120 121  None None no-cell   1000 None 0   1 None
    2 3 120 125  127  None under-way 1000 100  0   1 None
    """)
]
"""four UEs in two rounds: three uploads arrive, one is under way at the end"""
