"""How soon something first happens, where it has not happened to all by the end."""

from __future__ import annotations

import numpy as np

from netsim.units import BoolArray, FloatArray
from scenarios.app.results.run import Table


def kaplan_meier(time_s: FloatArray, happened: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Times (n,), and the share (n,) of subjects to whom it has happened by then [Kaplan, Meier 1958].

    1 - prod over times t_i <= t of (1 - d_i / n_i), where d_i subjects have it at t_i and n_i are watched until t_i or
    longer. time_s (k,): when it happened to each subject, or until when it was watched.
    """
    times = np.unique(time_s[happened])
    at_risk = (time_s[None, :] >= times[:, None]).sum(axis=1)
    events = ((time_s[None, :] == times[:, None]) & happened).sum(axis=1)
    return times, 1.0 - np.cumprod(1.0 - events / at_risk)


def first_home(rows: Table, homes: FloatArray, near_m: float, round_s: float) -> tuple[FloatArray, BoolArray]:
    """For each attacked UE that has a home: how long until an attack first named it, or until its last row; and which.

    rows : of one attack in `leakage`. homes : UEs that have one. Time begins with the window of a UE's first row.
    """
    rows = {k: v[np.isin(rows["ue"], homes)] for k, v in rows.items() if k in ("ue", "time_s", "home_named_m")}
    ues, at = np.unique(rows["ue"], return_inverse=True)
    begin_s, end_s, first_s = np.full(len(ues), np.inf), np.full(len(ues), -np.inf), np.full(len(ues), np.inf)
    np.minimum.at(begin_s, at, rows["time_s"])
    np.maximum.at(end_s, at, rows["time_s"])
    hit = rows["home_named_m"] <= near_m
    np.minimum.at(first_s, at[hit], rows["time_s"][hit])
    happened = np.isfinite(first_s)
    return np.where(happened, first_s, end_s) - begin_s + round_s, happened
