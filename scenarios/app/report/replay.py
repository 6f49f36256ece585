"""The replay of a run: record tables as packed columns, which `assets/replay*.js` draws on a map.

Tracks have fewer rows: straight lines that stay within a stated distance of the recorded ones at
every time.
"""

from math import inf, nan

import numpy as np

from netsim.columns import no_ints, no_places
from netsim.units import BoolArray, FloatArray, IntArray
from scenarios.app.report.plot import Chapter, assign_styles, pack_to_base64, render_template
from scenarios.app.results.folder import Tables
from scenarios.app.results.read import Run, Table, select_rows, stack_places_m
from scenarios.app.results.sentences import read_sentences
from scenarios.app.results.statistics import format_figure, format_span
from scenarios.app.study import Fields

FINEST_M = 0.5
_COARSEST_M = 16.0
_PER_M = 8.0  # steps of a metre to which corners are rounded: they pack better


def simplify_tracks(tracks: Table, n_max: int) -> tuple[Table, float]:
    """Simplify tracks to n_max rows where lines within 16 m allow that.

    And how near the recorded tracks they stay, metres.
    """
    within_m = FINEST_M
    while (kept := find_needed_rows(tracks, within_m)).sum() > n_max and within_m < _COARSEST_M:
        within_m *= 2
    return select_rows(tracks, kept), within_m


def find_needed_rows(tracks: Table, within_m: float) -> BoolArray:
    """Find rows (n,) whose straight lines are at every time within a distance of all rows.

    By Ramer, Douglas and Peucker with the distance at the same time, all tracks at once: lines are
    split at the row that is farthest from them until none is too far. Where a UE comes or goes, or
    its cell or `indoor` changes, a row is always kept.
    """
    n = len(tracks["ue"])
    if n < 3:
        return np.ones(n, dtype=bool)
    place_m = stack_places_m(tracks)
    is_kept = _find_fixed_rows(tracks, place_m)
    is_open = np.ones(n, dtype=bool)  # rows of lines that may still have to be split
    while True:
        inner = np.flatnonzero(is_open & ~is_kept)
        if not len(inner):
            return is_kept
        ends = np.flatnonzero(is_kept)
        line = np.searchsorted(ends, inner, side="right") - 1
        a = ends[line]
        deviation_m = _measure_deviation_m(tracks["time_s"], place_m, inner, a, ends[line + 1])
        first = np.flatnonzero(np.diff(a, prepend=-1))
        n_inner = np.diff(np.append(first, len(a)))
        worst_m = np.repeat(np.maximum.reduceat(deviation_m, first), n_inner)
        is_far = worst_m > within_m  # not where a distance is no number
        is_kept[inner[is_far & (deviation_m == worst_m)]] = True
        is_open[inner[~is_far]] = False


def _find_fixed_rows(tracks: Table, place_m: FloatArray) -> BoolArray:
    """Find rows that are always kept: those about a change of state, and the ends of each track."""
    is_absent = np.isnan(place_m[:, 0]) | np.isnan(place_m[:, 1])
    state = np.column_stack([tracks["ue"], is_absent, tracks["indoor"], tracks["cell"]])
    has_changed = (state[1:] != state[:-1]).any(axis=1)
    is_other_ue = tracks["ue"][1:] != tracks["ue"][:-1]
    return np.append(True, has_changed) | np.append(
        has_changed & (is_other_ue | is_absent[1:]), True
    )


def _measure_deviation_m(
    time_s: FloatArray, place_m: FloatArray, row: IntArray, a: IntArray, b: IntArray
) -> FloatArray:
    """Measure distances (n,) of rows from the lines between rows a and b at their own times."""
    span_s = time_s[b] - time_s[a]
    share = np.zeros(len(row))
    np.divide(time_s[row] - time_s[a], span_s, out=share, where=span_s > 0)
    moved_m = share[:, None] * (place_m[b] - place_m[a])
    return np.linalg.norm(place_m[row] - place_m[a] - moved_m, axis=1)


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


def build_replay_chapter(run: Run) -> Chapter:
    """Build the map with its data; empty where there is nothing to see."""
    tables, says = collect_replay_tables(run)
    stations = _list_stations(run)
    has_homes = np.isfinite(tables["ues"]["home_x_m"]).any()
    if not (stations or has_homes or any(len(tables[name]["x_m"]) for name in _SHOWN)):
        return Chapter("map", "Map", [])
    area_m = run.manifest.area_m
    width_m = area_m[2] - area_m[0]
    height_m = max(area_m[3] - area_m[1], 1e-9)
    ratio = float(np.clip(width_m / height_m, 0.75, 2.4))
    stage = render_template(
        "replay.html",
        ratio=f"{ratio:.4g}",
        near=f"{run.hit_radius_m:g}",
        shape="tall" if ratio < _TALL else "wide",
        rmse=format_figure(run.summary.get("utility.rmse_db") or inf),
        says=" ".join(says),
    )
    arrays = {}
    for table, columns in tables.items():
        for name, values in columns.items():  # times of a year need more digits than places
            digits = np.float64 if name.endswith("_s") else np.float32
            arrays[f"{table}.{name}"] = values.astype(digits)
    arrays["drive.rows"] = run.ground.get("drive", no_places()).ravel()
    clock = run.manifest.clock
    meta = {
        "area_m": area_m,
        "duration_s": run.manifest.duration_s,
        "hit_radius_m": run.hit_radius_m,
        "first_day": str(clock.first_day),
        "clock_changes": clock.changes,
        "ues": run.tables["ues"]["name"][: len(tables["ues"]["home_x_m"])].tolist(),
        "attacks": [
            {"name": look.name, "color": look.color} for look in assign_styles(run.attacks)
        ],
        "stations": stations,
        "final": {
            name: run.summary.get(f"utility.{name}") for name in ("rmse_db", "constant_rmse_db")
        },
    }
    return Chapter("map", "Map", [stage], {"replay-data": pack_to_base64(meta, arrays)})


def collect_replay_tables(run: Run) -> tuple[Tables, list[str]]:
    """Collect tables of numbers, in order, with at most MOST_ROWS rows.

    And what is simplified or left out, in sentences.
    """
    total = run.n_ue
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
    tables = {}
    cut = {}
    within_m = 0.0
    for name, columns in COLUMNS.items():
        recorded = run.tables[name]
        n_max = MOST_ROWS
        if name == "leakage":
            hits = {
                place: recorded[f"{place}_named_m"] <= run.hit_radius_m
                for place in ("home", "work", "densest")
            }
            recorded = recorded | hits
        numbers = {c: _to_numbers(recorded[c], names.get(c)) for c in columns.split()}
        rows = _order_rows(numbers, n_ue)
        if name == "tracks":
            n_max = MOST_TRACKED
            rows, within_m = simplify_tracks(rows, n_max)
        if "ue" in rows and len(rows["ue"]) > n_max:
            n_rows = np.cumsum(np.bincount(rows["ue"].astype(int), minlength=n_ue))
            n_drawn = max(1, int(np.searchsorted(n_rows, n_max, side="right")))
            rows = select_rows(rows, rows["ue"] < n_drawn)
            cut[name] = n_drawn
        tables[name] = rows
    tables["ues"] = select_rows(tables["ues"], slice(n_ue))
    layers = []
    for name, kind in SHAPES.items():
        tables[name], is_cut = _collect_shapes(run.ground, name, kind)
        layers += [name] * is_cut
    interval = ""
    if len(tables["tracks"]["ue"]):
        interval = format_span(run.manifest.tracks.every_s)
    within_m *= within_m > FINEST_M
    says = read_sentences().left_out(interval, within_m, total, n_ue, cut, layers)
    return tables, says.splitlines()


def _to_numbers(values: np.ndarray, names: list[str] | None) -> FloatArray:
    """Return numbers as they are; texts as their index in `names`, -1 for others."""
    if names is None:
        numbers = np.asarray(values, dtype=float)
        return np.where(np.abs(numbers) < _LARGEST, numbers, nan)
    index = {name: float(k) for k, name in enumerate(names)}
    return np.array([index.get(str(value), -1.0) for value in values])


def _order_rows(rows: Table, n_ue: int) -> Table:
    """Order rows that have all that is needed, of the first UEs, by attack, UE and time."""
    is_kept = np.ones(len(next(iter(rows.values()))), dtype=bool)
    for name in _NEEDED & set(rows):
        is_kept &= rows[name] >= 0
    if "ue" in rows:
        is_kept &= rows["ue"] < n_ue
    rows = select_rows(rows, is_kept)
    keys = [rows[name] for name in reversed(_KEYS) if name in rows]
    if keys and "home_x_m" not in rows:
        return select_rows(rows, np.lexsort(keys))
    return rows


def _collect_shapes(ground: Table, name: str, kind: str) -> tuple[Table, bool]:
    """Collect corners of buildings, streets or areas with the shape that each is of.

    And whether some are left out: main streets and the tallest buildings come first. kind : class
    of a street, kind of an area, height of a building.
    """
    kinds = ground.get(f"{name}_{kind}", no_ints())
    if name == "footprint" and len(kinds):
        kinds = -np.nan_to_num(ground["building_height_m"][kinds])
    ptr = ground.get(f"{name}_ptr", np.zeros(1, dtype=int))
    size = np.diff(ptr)
    order = np.argsort(kinds, kind="stable")
    kept = order[np.cumsum(size[order]) <= MOST_CORNERS]
    corners_m = ground.get(f"{name}_m", no_places())
    pieces_m = [corners_m[ptr[k] : ptr[k + 1]] for k in kept]
    place_m = np.concatenate([corners_m[:0], *pieces_m])
    x_m, y_m = (place_m.T * _PER_M).round() / _PER_M
    shapes = {
        "shape": np.repeat(np.arange(float(len(kept))), size[kept]),
        "kind": np.repeat(np.abs(kinds[kept]), size[kept]),
        "x_m": x_m,
        "y_m": y_m,
    }
    return shapes, len(kept) < len(order)


_STATION = ("name", "x_m", "y_m", "azimuth_deg")


def _list_stations(run: Run) -> list[Fields]:
    """List name, place and azimuth (None: no sector) of the base stations."""
    if run.is_replayed:
        return []
    stations = run.stations
    degrees = run.ground.get("station_azimuth_deg", np.full(len(stations), nan)).tolist()
    listed = []
    for place, azimuth_deg in zip(stations, degrees, strict=True):
        known_deg = azimuth_deg if np.isfinite(azimuth_deg) else None
        listed.append(dict(zip(_STATION, (*place, known_deg), strict=True)))
    return listed
