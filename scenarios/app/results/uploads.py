"""The table `transmissions`: how long each upload took, part by part, and what became of it."""

from __future__ import annotations

import numpy as np

from netsim.units import BoolArray, FloatArray
from scenarios.app.results.run import Table

ARRIVED = "arrived"
LOST = ("late", "dropped", "undecoded", "exhausted", "no-cell", "stopped")
"""fates of uploads that never arrived"""
PARTS = ("preparing", "waiting", "sending")
"""what an upload goes through, in order: downlink and training; until the first grant; until the last bit"""


def arrived(uploads: Table) -> BoolArray:
    """Which uploads (n,) the server received."""
    return np.asarray(uploads["fate"] == ARRIVED)


def lost(uploads: Table) -> BoolArray:
    """Which uploads (n,) never arrived; neither those under way at the end of the run."""
    return np.isin(uploads["fate"], LOST)


def bounds_s(uploads: Table) -> FloatArray:
    """Where each part begins and the last one ends (n, 4); NaN where an upload did not get so far.

    A part that was cut short ends with the upload.
    """
    marks = np.column_stack([uploads[k] for k in ("requested_s", "ready_s", "granted_s", "ended_s")])
    ended = np.isfinite(marks[:, 3])
    for k in (1, 2):  # the end of the last part that was begun
        cut = ended & np.isnan(marks[:, k]) & np.isfinite(marks[:, k - 1])
        marks[cut, k] = marks[cut, 3]
        marks[cut, k + 1 :] = np.nan
    return marks


def durations_s(uploads: Table) -> dict[str, FloatArray]:
    """Length (n,) of each part, and from request to end as `whole`; NaN for a part that was not begun."""
    parts = np.diff(bounds_s(uploads), axis=1)
    return dict(zip(PARTS, parts.T, strict=True)) | {"whole": uploads["ended_s"] - uploads["requested_s"]}


def vain_share(uploads: Table) -> float:
    """Share of all bits sent that were in tries that failed, or in uploads that did not arrive; NaN of none."""
    sent = float(np.nansum(uploads["sent_bits"]))
    got = arrived(uploads)
    worth = float(np.nansum(uploads["sent_bits"][got]) - np.nansum(uploads["lost_bits"][got]))
    return (sent - worth) / sent if sent > 0 else float("nan")
