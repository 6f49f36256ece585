"""Updates on their way: from when to when each was sent, at which SINR, to which base station."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.units import FloatArray, IntArray
from scenarios.app.report.replay.grid import NOWHERE, Numbers, pointers, steps
from scenarios.app.results.run import Run, Table, where
from scenarios.app.results.uploads import arrived

NO_SINR = -128
_FINEST_S = 1e-3  # of the moment at which a transmission begins
_DIGITS = 1e-8  # of the whole span: records have nine digits


def sent(run: Run, n_ue: int) -> Table:
    """Transmissions of the first n_ue UEs by UE and time: ue, begin_s, airtime_s, sinr_db, base_station, decoded.

    One that took its time is on its way from its first grant to its end; one that was lost before is there at its end.
    """
    rows = _lasting(run) if run.takes_time else _planned(run.rows("links"))
    known = np.isfinite(rows["begin_s"]) & np.isfinite(rows["ue"]) & (rows["ue"] >= 0) & (rows["ue"] < n_ue)
    rows = where(rows, known)
    rows["ue"] = rows["ue"].astype(np.int64)
    order = np.lexsort((rows["begin_s"], rows["ue"]))
    return where(rows, order)


def _planned(links: Table) -> Table:
    """Transmissions that were planned at the request, one after the other with what came before them."""
    latency_s, airtime_s = (np.nan_to_num(links[k], nan=0.0, posinf=0.0) for k in ("latency_s", "airtime_s"))
    begin_s = links["time_s"] + np.maximum(latency_s - airtime_s, 0.0)
    return {"begin_s": begin_s, **{k: links[k] for k in ("ue", "sinr_db", "base_station", "decoded")}} | {
        "airtime_s": airtime_s
    }


def _lasting(run: Run) -> Table:
    """Transmissions that took their time; what their links were like stands in `links`."""
    uploads, links = run.tables["transmissions"], run.tables["links"]
    begin_s = np.where(np.isfinite(uploads["granted_s"]), uploads["granted_s"], uploads["ended_s"])
    end_s = np.where(np.isfinite(uploads["ended_s"]), uploads["ended_s"], float(run.manifest["duration_s"]))
    at = _of_links(uploads, links)
    return {
        "ue": uploads["ue"],
        "begin_s": begin_s,
        "airtime_s": np.maximum(end_s - begin_s, 0.0),
        "sinr_db": np.append(links["sinr_db"], np.nan)[at],
        "base_station": np.append(links["base_station"], "")[at],
        "decoded": arrived(uploads).astype(float),
    }


def _of_links(uploads: Table, links: Table) -> IntArray:
    """The index of the link (n,) of each upload, of the same round, UE and request; the number of links for none.

    Links are those of the last upload of a round and UE, unless there is one for each request.
    """
    when = zip(*(links[key].tolist() for key in ("round", "ue", "time_s")), strict=True)
    index: dict[tuple[float, ...], int] = {}
    for i, (number, ue, asked_s) in enumerate(when):
        index[number, ue] = index[number, ue, asked_s] = i
    wanted = zip(*(uploads[key].tolist() for key in ("round", "ue", "requested_s")), strict=True)
    found = [index.get(key, index.get(key[:2], len(links["ue"]))) for key in wanted]
    return np.array(found, dtype=np.int64)


def link_arrays(
    rows: Table, n_ue: int, cells: dict[str, int], end_s: float
) -> tuple[dict[str, Numbers], dict[str, float]]:
    """Transmissions as whole numbers, and what their units are; end_s: when the run ends."""
    begin_unit_s = max(_FINEST_S, _DIGITS * max(end_s, float(np.max(rows["begin_s"], initial=0.0))))
    airtime_unit_s = max(float(np.max(rows["airtime_s"], initial=0.0)), _FINEST_S) / (NOWHERE - 1)
    return {
        "link_ptr": steps(pointers(rows["ue"], n_ue)),
        "link_begin": steps(np.round(rows["begin_s"] / begin_unit_s).astype(np.uint32)),
        "link_airtime": np.round(rows["airtime_s"] / airtime_unit_s).astype(np.uint16),
        "link_sinr": _levels(rows["sinr_db"]),
        "link_cell": np.array([cells.get(str(name), NOWHERE) for name in rows["base_station"]], dtype=np.uint16),
        "link_decoded": (rows["decoded"] == 1).astype(np.uint8),
    }, {"link_begin_s": begin_unit_s, "link_airtime_s": airtime_unit_s}


def _levels(sinr_db: FloatArray) -> Any:
    """Whole decibels; NO_SINR where it is not known."""
    known = np.isfinite(sinr_db)
    whole = np.clip(np.round(np.where(known, sinr_db, 0.0)), NO_SINR + 1, -NO_SINR - 1)
    return np.where(known, whole, NO_SINR).astype(np.int8)
