"""The replay of a run: record tables as packed columns, which `assets/replay*.js` draws on a map.

Tracks have fewer rows: straight lines that stay within a stated distance of the recorded ones at
every time.
"""

from math import inf, nan

import numpy as np

from netsim.columns import no_ints, no_places
from netsim.errors import counted
from netsim.units import BoolArray, FloatArray, IntArray
from scenarios.app.report.plot import Chapter, looks, packed, rendered
from scenarios.app.results.folder import Tables
from scenarios.app.results.read import Run, Table, where
from scenarios.app.results.statistics import figure_text, span_text
from scenarios.app.study import Fields

FINEST_M = 0.5
_COARSEST_M = 16.0
_PER_M = 8.0  # steps of a metre to which corners are rounded: they pack better


def simplified(tracks: Table, most: int) -> tuple[Table, float]:
    """At most so many rows where lines within 16 m allow that, and how near the recorded tracks
    they stay, metres.
    """
    within_m = FINEST_M
    while (kept := needed(tracks, within_m)).sum() > most and within_m < _COARSEST_M:
        within_m *= 2
    return where(tracks, kept), within_m


def needed(tracks: Table, within_m: float) -> BoolArray:
    """Rows (n,) whose straight lines are at every time within a distance of all rows.

    By Ramer, Douglas and Peucker with the distance at the same time, all tracks at once: lines are
    split at the row that is farthest from them until none is too far. Where a UE comes or goes, or
    its cell or `indoor` changes, a row is always kept.
    """
    n = len(tracks["ue"])
    at_m = np.column_stack([tracks["x_m"], tracks["y_m"]])
    if n < 3:
        return np.ones(n, dtype=bool)
    kept = _fixed(tracks, at_m)
    open_ = np.ones(n, dtype=bool)  # rows of lines that may still have to be split
    while True:
        ends = np.flatnonzero(kept)
        line = np.searchsorted(ends, np.arange(n), side="right") - 1
        inner = np.flatnonzero(open_ & ~kept)
        if not len(inner):
            return kept
        a = ends[line[inner]]
        b = ends[line[inner] + 1]
        away_m = _away_m(tracks["time_s"], at_m, inner, a, b)
        first = np.flatnonzero(np.diff(a, prepend=-1))
        worst_m = np.repeat(np.maximum.reduceat(away_m, first), np.diff(np.append(first, len(a))))
        far = worst_m > within_m  # not where a distance is no number
        kept[inner[far & (away_m == worst_m)]] = True
        open_[inner[~far]] = False


def _fixed(tracks: Table, at_m: FloatArray) -> BoolArray:
    """Rows that are always kept: those about a change of state, and the ends of each track."""
    gone = np.asarray(np.isnan(at_m).any(axis=1))
    state = np.column_stack([tracks["ue"], gone, tracks["indoor"], tracks["cell"]])
    changed = np.asarray((state[1:] != state[:-1]).any(axis=1))
    own = tracks["ue"][1:] != tracks["ue"][:-1]
    return np.asarray(np.append(True, changed) | np.append(changed & (own | gone[1:]), True))


def _away_m(
    time_s: FloatArray, at_m: FloatArray, row: IntArray, a: IntArray, b: IntArray
) -> FloatArray:
    """Distances (n,) of rows from the lines between rows a and b at their own times."""
    span_s = time_s[b] - time_s[a]
    share = np.divide(time_s[row] - time_s[a], span_s, out=np.zeros(len(row)), where=span_s > 0)
    return np.asarray(
        np.linalg.norm(at_m[row] - at_m[a] - share[:, None] * (at_m[b] - at_m[a]), axis=1)
    )


MOST_UES = 1000
MOST_ROWS = 400_000
MOST_TRACKED = 100_000
MOST_CORNERS = 40_000
_LARGEST = 1e8  # a number beyond every map is unknown
_TALL = 1.3  # width over height of a map up to which the curve stands beside it
_SHOWN = ("tracks", "footprint", "street", "estimates", "beliefs")
_KEYS = ("attack", "ue", "hindsight", "round", "time_s", "model", "y_m", "x_m")
"""columns by which rows are ordered"""
_NEEDED = {"attack", "ue", "hindsight", "round", "time_s", "quantity", "name"}

COLUMNS = {
    "ues": "home_x_m home_y_m work_x_m work_y_m densest_x_m densest_y_m",
    "tracks": "ue time_s x_m y_m indoor cell",
    "handovers": "ue time_s",
    "rounds": "round time_s requested_s rmse_db constant_rmse_db epsilon_max",
    "metrics": "name round value",
    "updates": "ue round model x_m y_m decoded",
    "links": "ue round time_s latency_s airtime_s sinr_db base_station decoded",
    "transmissions": "ue round requested_s granted_s ended_s fate",
    "estimates": "attack ue round time_s model quantity x_m y_m",
    "leakage": (
        "attack ue round time_s model error_m heard diverged home work densest "
        "named_x_m named_y_m second_x_m second_y_m"
    ),
    "tracking": (
        "attack ue hindsight round near x_m y_m disc_x_m disc_y_m truth_x_m truth_y_m "
        "disc_probability area90_m2"
    ),
    "beliefs": "attack ue hindsight round x_m y_m probability cell_m",
    "coverage": "x_m y_m cell rsrp_dbm sinr_db learnt_dbm los",
}
"""table -> the columns that the map reads"""
SHAPES = {"footprint": "building", "street": "class", "scenery": "kind"}


def replay_chapter(run: Run) -> Chapter:
    """The map with its data; empty where there is nothing to see."""
    tables, says = drawn_tables(run)
    stations = _stations(run)
    area_m = run.manifest.area_m
    if not (
        stations
        or np.isfinite(tables["ues"]["home_x_m"]).any()
        or any(len(tables[k]["x_m"]) for k in _SHOWN)
    ):
        return Chapter("map", "Map", [])
    ratio = float(np.clip((area_m[2] - area_m[0]) / max(area_m[3] - area_m[1], 1e-9), 0.75, 2.4))
    shape = "tall" if ratio < _TALL else "wide"
    near = f"{run.hit_radius_m:g}"
    rmse = figure_text(run.summary.get("utility.rmse_db") or inf)
    stage = rendered(
        "replay.html", ratio=f"{ratio:.4g}", near=near, shape=shape, rmse=rmse, says=" ".join(says)
    )
    clock = run.manifest.clock
    arrays = {  # times of a year need more digits than places
        f"{table}.{name}": values.astype(np.float64 if name.endswith("_s") else np.float32)
        for table, of in tables.items()
        for name, values in of.items()
    }
    meta = {
        "area_m": area_m,
        "duration_s": run.manifest.duration_s,
        "hit_radius_m": run.hit_radius_m,
        "first_day": str(clock.first_day),
        "clock_changes": [list(change) for change in clock.changes],
        "ues": [str(name) for name in run.tables["ues"]["name"][: len(tables["ues"]["home_x_m"])]],
        "attacks": [{"name": look.name, "color": look.color} for look in looks(run.attacks)],
        "stations": stations,
        "final": {
            name: run.summary.get(f"utility.{name}") for name in ("rmse_db", "constant_rmse_db")
        },
    }
    return Chapter("map", "Map", [stage], {"replay-data": packed(meta, arrays)})


def drawn_tables(run: Run) -> tuple[Tables, list[str]]:
    """Tables of numbers, in order, with at most MOST_ROWS rows; and what is simplified or left out,
    in sentences.
    """
    total = len(run.tables["ues"]["ue"])
    n_ue = min(total, MOST_UES)
    cells = [name for name, *_ in run.stations]
    names = {
        "attack": run.attacks,
        "cell": cells,
        "base_station": cells,
        "quantity": ["centroid", "place", "plain"],
        "fate": ["arrived"],
        "name": ["accuracy_percent"],
    }
    leakage = run.tables["leakage"]
    hits = {
        place: leakage[f"{place}_named_m"] <= run.hit_radius_m
        for place in ("home", "work", "densest")
    }
    tables = {}
    says = []
    within_m = 0.0
    for name, columns in COLUMNS.items():
        every = run.tables[name] | (hits if name == "leakage" else {})
        rows = _ordered({c: _numbers(every[c], names.get(c)) for c in columns.split()}, n_ue)
        most = MOST_ROWS
        if name == "tracks":
            most = MOST_TRACKED
            rows, within_m = simplified(rows, most)
        if "ue" in rows and len(rows["ue"]) > most:
            rows_by_ue = np.cumsum(np.bincount(rows["ue"].astype(int), minlength=n_ue))
            first = max(1, int(np.searchsorted(rows_by_ue, most, side="right")))
            rows = where(rows, rows["ue"] < first)
            says += [
                f"Too much to draw: {name} of the first {first:,} of {counted(total, 'UE')} only."
            ]
        tables[name] = rows
    tables["ues"] = where(tables["ues"], slice(n_ue))
    if n_ue < total:
        says.insert(0, f"Drawn are the first {n_ue:,} of {total:,} UEs.")
    if len(tables["tracks"]["ue"]):
        said = f" every {span_text(run.manifest.tracks.every_s)}"
        coarse = f", simplified to within {within_m:g} m" if within_m > FINEST_M else ""
        says.insert(0, f"UEs move on straight lines between their true places{said}{coarse}.")
    for name, kind in SHAPES.items():
        tables[name], few = _shapes(run.ground, name, kind)
        says += [f"Too much to draw: the {name} layer shows only part of the shapes."] * few
    return tables, says


def _numbers(values: np.ndarray, names: list[str] | None) -> FloatArray:
    """Numbers as they are; texts as their index in `names`, -1 for others."""
    if names is None:
        numbers = np.asarray(values, dtype=float)
        return np.where(np.abs(numbers) < _LARGEST, numbers, nan)
    index = {name: float(k) for k, name in enumerate(names)}
    return np.array([index.get(str(value), -1.0) for value in values])


def _ordered(rows: Table, n_ue: int) -> Table:
    """Rows that have all that is needed, of the first UEs, by attack, UE and time."""
    kept = np.ones(len(next(iter(rows.values()))), dtype=bool)
    for name in _NEEDED & set(rows):
        kept &= rows[name] >= 0
    if "ue" in rows:
        kept &= rows["ue"] < n_ue
    rows = where(rows, kept)
    keys = [rows[name] for name in reversed(_KEYS) if name in rows and "home_x_m" not in rows]
    if keys:
        return where(rows, np.lexsort(keys))
    return rows


def _shapes(ground: Table, name: str, kind: str) -> tuple[Table, bool]:
    """Corners of buildings, streets or areas with the shape that each is of; and whether some are
    left out.

    Main streets and the tallest buildings come first; kind: class of a street, kind of an area,
    height of a building.
    """
    of_shape = ground.get(f"{name}_{kind}", no_ints())
    ptr = ground.get(f"{name}_ptr", np.zeros(1, dtype=int))
    corners = ground.get(f"{name}_m", no_places())
    if name == "footprint" and len(of_shape):
        of_shape = -np.nan_to_num(ground["building_height_m"][of_shape])
    order = np.argsort(of_shape, kind="stable")
    kept = order[np.cumsum(np.diff(ptr)[order]) <= MOST_CORNERS]
    size = np.diff(ptr)[kept]
    at_m = np.concatenate([corners[:0], *(corners[ptr[k] : ptr[k + 1]] for k in kept)])
    x_m, y_m = (at_m.T * _PER_M).round() / _PER_M
    shape = np.repeat(np.arange(float(len(kept))), size)
    found = {
        "shape": shape,
        "kind": np.repeat(np.abs(of_shape[kept]), size),
        "x_m": x_m,
        "y_m": y_m,
    }
    return found, len(kept) < len(order)


def _stations(run: Run) -> list[Fields]:
    """Name, place and azimuth (None: no sector) of the base stations."""
    if run.replayed:
        return []
    degrees = run.ground.get("station_azimuth_deg", np.full(len(run.stations), nan)).tolist()
    return [
        {"name": name, "x_m": x, "y_m": y, "azimuth_deg": turn if np.isfinite(turn) else None}
        for (name, x, y), turn in zip(run.stations, degrees, strict=True)
    ]
