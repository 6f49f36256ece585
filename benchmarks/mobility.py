"""Print statistics of human mobility, of a trace or of a scenario, whose movement is played without
radio and learning.

    python -m benchmarks.mobility TRACE|SCENARIO [--cell-m M] [--fill-h H] [--set KEY=VALUE ...]

They are made from the place of a person in every hour. A place is a whole number, a grid cell or a
venue; -1 where it is unknown. The measures are those of Song, Koren, Wang, Barabasi, 'Modelling the
scaling properties of human mobility', Nature Physics 6, 2010, and Song, Qu, Blumm, Barabasi,
'Limits of predictability in human mobility', Science 327, 2010.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from math import log2, nan

import numpy as np

from netsim.clock import Clock
from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.mobility.base import Ground, Mobility, State
from netsim.rng import Streams
from netsim.trace_files.inspect import build_view
from netsim.trace_files.read import make_trace_file
from netsim.units import FloatArray, IntArray
from netsim.world.build import build_world
from scenarios.app.cli.options import build_number_parser, collect_overrides, format_text_table
from scenarios.app.run.how import DEFAULT_RESOURCES
from scenarios.app.study import Fields
from scenarios.app.study.load import Scenario, list_bundled

ROWS = (
    ("hours with a known place", "hours", 1, "{:,.0f}"),
    ("distinct places S", "places", 1, "{:,.0f}"),
    ("growth of S, exponent of time", "growth", 1, "{:.2f}"),
    ("time at the top place, %", "top_1", 100, "{:.0f}"),
    ("time at the top two places, %", "top_2", 100, "{:.0f}"),
    ("regularity, %", "regularity", 100, "{:.0f}"),
    ("Zipf exponent of visits", "zipf", 1, "{:.2f}"),
    ("entropy of the places, bit", "entropy", 1, "{:.2f}"),
    ("entropy rate, bit/h", "entropy_rate", 1, "{:.2f}"),
    ("predictability, %", "predictability", 100, "{:.0f}"),
    ("radius of gyration, m", "gyration_m", 1, "{:,.0f}"),
)
UNKNOWN = -1
WEEK_H = 168
FEWEST_HOURS = 24  # with a known place, below which a person has no statistics
_ZIPF_RANKS = 20
# hours of which entropy rate and predictability are computed; time grows with their square
_MAX_LZ = 20_000
_MAX_HOURS = 20_000_000  # of all UEs together: 24 bytes each
_HOUR_S = 3600.0


def main(arguments: list[str] | None = None) -> int:
    """Print the table, or one line and 2 for what has no statistics."""
    parser = ArgumentParser(
        prog="python -m benchmarks.mobility", description="Print statistics of mobility."
    )
    parser.add_argument(
        "trace", metavar="TRACE|SCENARIO", help="a trace, a scenario file, or a bundled scenario"
    )
    parser.add_argument(
        "--cell-m",
        type=build_number_parser(float, 0, 1e6),
        default=250.0,
        metavar="M",
        help=(
            "side of a place, m; 0: a building, or a distinct position of a trace (default: "
            "%(default)s)"
        ),
    )
    parser.add_argument(
        "--fill-h",
        type=build_number_parser(float, 0, 1e4),
        default=12.0,
        metavar="H",
        help="hours for which a place is kept until the next row (default: %(default)s)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="sets",
        metavar="KEY=VALUE",
        help=(
            "a value of the scenario, or how a trace is read, as timezone=Europe/Berlin "
            "(may be repeated)"
        ),
    )
    args = parser.parse_args(arguments)
    try:
        overrides = collect_overrides(args)
        if args.trace.endswith((".yaml", ".yml")) or args.trace in list_bundled():
            series = scenario_series(args.trace, args.cell_m, args.fill_h, overrides)
        else:
            series = trace_series(args.trace, args.cell_m, args.fill_h, **overrides)
        print_table(measures(series), args.cell_m, args.fill_h)
    except BadInput as error:
        print(*error.lines, sep="\n", file=sys.stderr)
        return 2
    return 0


def print_table(found: dict[str, FloatArray], cell_m: float, fill_h: float) -> None:
    """Print median and quartiles of the people with statistics. Raises `BadInput` where nobody has
    any.
    """
    known = found["hours"] >= FEWEST_HOURS
    if not known.any():
        raise BadInput(
            f"no user has {FEWEST_HOURS} hours with a known place; give a longer trace, "
            f"or a larger --fill-h"
        )
    rows = []
    for title, name, factor, form in ROWS:
        value = factor * found[name][known]
        value = value[np.isfinite(value)]
        figures = (
            [form.format(v) for v in np.quantile(value, (0.5, 0.25, 0.75))]
            if len(value)
            else ["-"] * 3
        )
        rows.append([title, *figures, f"{len(value):,}"])
    places = (
        f"squares of {cell_m:g} m" if cell_m > 0 else "buildings, or distinct positions of a trace"
    )
    print(f"{known.sum():,} with at least {FEWEST_HOURS} known hours, of {len(known):,}")
    print(f"last position of each hour, kept for up to {fill_h:g} h; places are {places}\n")
    print(format_text_table(["", "median", "25 %", "75 %", "people"], rows))


@frozen
class Series:
    """The places (h,) of one person, positions (h, 2) in m, and hours of the week (h,), 0 to 167
    from Monday 0 h.
    """

    place: IntArray
    position_m: FloatArray
    hour_of_week: IntArray


def measures(people: Iterable[Series]) -> dict[str, FloatArray]:
    """Statistics of n people (n,), one series each; NaN where a person has too few known hours.

    hours : number of hours with a known place; places: number of distinct places. growth : exponent
    of S(t) ~ t^growth, S the number of distinct places until t. top_1, top_2 : share of known hours
    at the most visited place, at the two most visited ones. regularity : probability of the most
    frequent place of the hour of the week, weighted by known hours. zipf : exponent of the
    frequency of visits f_k ~ k^-zipf to the k-th most visited place. entropy : entropy of the
    shares of known hours at the places, bit. entropy_rate : entropy of the next place given all
    places before, bit per hour. predictability : upper bound of the share of hours whose place any
    algorithm can predict. gyration_m : radius of gyration, m.
    """
    found = [_of(one) for one in people]
    names = dict.fromkeys(name for each in found for name in each)
    return {name: np.array([each.get(name, nan) for each in found]) for name in names}


def _of(one: Series) -> dict[str, float]:
    known = one.place != UNKNOWN
    place = one.place[known]
    hours = _frequencies(place)
    counts = {"hours": float(len(place)), "places": float(len(hours))}
    if len(place) < FEWEST_HOURS:
        return counts
    rate = entropy_bits(place[:_MAX_LZ])
    visits = place[np.append(True, place[1:] != place[:-1])]  # a visit is a run of equal places
    return counts | {
        "growth": growth(place),
        "top_1": hours[:1].sum() / hours.sum(),
        "top_2": hours[:2].sum() / hours.sum(),
        "regularity": regularity(place, one.hour_of_week[known]),
        "zipf": zipf_of(_frequencies(visits)),
        "entropy": uncorrelated_entropy_bits(place),
        "entropy_rate": rate,
        "predictability": fano(rate, len(hours)),
        "gyration_m": gyration_m(one.position_m[known]),
    }


def _frequencies(place: IntArray) -> IntArray:
    return np.sort(np.unique(place, return_counts=True)[1])[::-1]


def growth(place: IntArray) -> float:
    """Exponent b of S(t) ~ t^b, S the distinct places until hour t, by least squares of log S on
    log t.

    At 20 times spaced evenly in log t from 24 h on. NaN for less than 48 h.
    """
    if len(place) < 48:
        return nan
    first = np.sort(np.unique(place, return_index=True)[1])
    at = np.unique(np.geomspace(24, len(place), 20).round().astype(int))
    return _slope(at, np.searchsorted(first, at))


def zipf_of(count: IntArray) -> float:
    """Exponent z of counts ~ k^-z, k the rank, by least squares of logs over the first 20 ranks
    with 2 visits or more.

    NaN for less than 5 such ranks.
    """
    count = count[:_ZIPF_RANKS][count[:_ZIPF_RANKS] >= 2]
    return -_slope(np.arange(1, len(count) + 1), count) if len(count) >= 5 else nan


def regularity(place: IntArray, hour_of_week: IntArray) -> float:
    """Share of hours in the most frequent place of their hour of the week; NaN for less than 336
    hours.

    R(h) is the share of the most frequent place among the places of hour h of the week; the mean of
    R is weighted by hours, so that one observation of an hour does not count as regular as 20.
    """
    if len(place) < 2 * WEEK_H:  # an hour that is seen once looks regular
        return nan
    pair, count = np.unique(np.stack([hour_of_week, place]), axis=1, return_counts=True)
    most = np.zeros(WEEK_H)
    np.maximum.at(most, pair[0], count)
    return float(most.sum() / len(place))


def gyration_m(position_m: FloatArray) -> float:
    """Radius of gyration of positions (n, 2), m: root mean square distance from their mean."""
    return float(np.sqrt(position_m.var(axis=0).sum()))


def uncorrelated_entropy_bits(place: IntArray) -> float:
    """-sum p_i log2 p_i of the shares p_i of hours."""
    from scipy.stats import entropy

    return float(entropy(_frequencies(place), base=2))


def entropy_bits(place: IntArray) -> float:
    r"""Entropy rate of the places, bits per hour, by the Lempel-Ziv estimator [Song et al. 2010,
    Science, SOM]::

        S = n log2 n / sum_i Lambda_i

    where Lambda_i is the length of the shortest sequence that starts at i and does not occur
    entirely before i.
    """
    n = len(place)
    return n * log2(n) / float(match_lengths(place).sum()) if n > 1 else 0.0


def match_lengths(series: IntArray) -> IntArray:
    """Lambda_i (n,): 1 + the length of the longest sequence that starts at i and occurs within
    series[:i].
    """
    n = len(series)
    longest = np.zeros_like(series)
    common = np.zeros(n + 1, dtype=int)  # of the suffixes that start at i + 1 and at j
    column = np.arange(n)
    for i in range(n - 1, 0, -1):
        common[:n] = np.where(series == series[i], common[1:] + 1, 0)
        longest[i] = np.minimum(common[:i], i - column[:i]).max()
    return longest + 1


def fano(entropy: float, n_places: int) -> float:
    """The predictability P that solves Fano's inequality as an equation::

        S = H(P) + (1 - P) log2(N - 1),   H(P) = -P log2 P - (1 - P) log2(1 - P)

    S : entropy in bits, N : number of places. 1 for S = 0 or N = 1, and 1 / N for S >= log2 N.
    """
    from scipy.optimize import brentq
    from scipy.special import entr

    def excess(p: float) -> float:
        return float((entr(p) + entr(1 - p)) / np.log(2) + (1 - p) * log2(n_places - 1)) - entropy

    if n_places <= 1 or entropy <= 0:
        return 1.0
    low = 1.0 / n_places
    return low if entropy >= log2(n_places) else float(brentq(excess, low, 1.0, xtol=1e-12))


def _slope(x: IntArray, y: IntArray) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


# --- series
# ----------------------------------------------------------------------------------------


def cells(position_m: FloatArray, cell_m: float) -> IntArray:
    """The square cell of a grid that positions (..., 2) lie in, numbered from 0 in order of x, then
    y; -1 for NaN.

    cell_m : side of a cell; 0 makes every distinct position, to 0.1 m, a place.
    """
    flat = position_m.reshape(-1, 2)
    known = np.isfinite(flat).all(axis=1)
    at = np.round(flat[known] / 0.1) if cell_m == 0 else np.floor(flat[known] / cell_m)
    cell = np.full(len(flat), UNKNOWN)
    cell[known] = np.unique(at, axis=0, return_inverse=True)[1].ravel()
    return cell.reshape(position_m.shape[:-1])


def filled(series: IntArray, fill_h: float) -> IntArray:
    """A series (h,) whose unknown entries have the last known one, at most fill_h hours before.

    Entries after the last known one stay unknown, as nothing says whether the person was still
    observed.
    """
    hour = np.arange(len(series))
    known = series != UNKNOWN
    last = np.maximum.accumulate(np.where(known, hour, -1))
    usable = (last >= 0) & (hour - last <= fill_h) & (known[::-1].cumsum()[::-1] > 0)
    return np.where(usable, series[last], UNKNOWN)


def trace_series(path: str, cell_m: float, fill_h: float, **settings: object) -> Iterator[Series]:
    """The series of every user of a trace: the last row of each hour of the wall clock.

    cell_m : side of a place; 0: every distinct position is one, for check-ins. fill_h : see
    `filled`. settings : of a `TraceFile`. Raises `BadInput` with one line.
    """
    file = make_trace_file(path, **settings)
    view = build_view(file.read_fixes(), file.timezone)
    user = view.moves.user[view.fixes]
    xy_m = view.moves.xy_m[view.fixes]
    place = cells(xy_m, cell_m)
    hour = np.floor(view.local_s[view.fixes] / _HOUR_S).astype(int)
    for own in np.split(np.arange(len(user)), np.flatnonzero(np.diff(user)) + 1):
        hours = np.arange(hour[own].min(), hour[own].max() + 1)
        row = np.full(len(hours), UNKNOWN)
        row[hour[own] - hours[0]] = own  # of several rows in an hour the last one written stays
        row = filled(row, fill_h)
        yield Series(
            np.where(row >= 0, place[row], UNKNOWN), xy_m[row], _of_week(hours, view.clock)
        )


def scenario_series(name: str, cell_m: float, fill_h: float, overrides: Fields) -> Iterator[Series]:
    """The series of all UEs of a scenario, whose movement is played. Raises `BadInput` with one
    line.

    overrides : dotted path -> value.
    """
    asked = Scenario.from_source(name, overrides)
    study = asked.study
    with asked.locate_errors(), DEFAULT_RESOURCES.limit_memory():
        world = build_world(study.world, Streams(study.seed), study.round_s)
    if world.duration_s < FEWEST_HOURS * 3600:
        raise BadInput(
            f"{name}: world.duration_s: {world.duration_s:g} s are less than {FEWEST_HOURS} h; "
            "give --set world.duration_s=2419200 for four weeks"
        )
    return played_series(
        world.mobility, world.state, world.ground, world.duration_s, cell_m, fill_h
    )


def played_series(
    mobility: Mobility,
    state: State,
    ground: Ground,
    duration_s: float,
    cell_m: float,
    fill_h: float,
) -> Iterator[Series]:
    """The series of all UEs that move from `state` at time 0: where they are at the end of each
    hour.

    cell_m : side of a place; 0: the building a UE is in, unknown outdoors. fill_h : see `filled`.
    """
    n_ue = len(state.position_m)
    n_hours = int(duration_s // _HOUR_S)
    if cell_m == 0 and state.indoors() is None:
        raise BadInput(
            f"--cell-m 0: mobility {mobility.kind_name()} puts no UE into buildings; give the "
            "side of a cell in m, such as 250"
        )
    if n_hours * n_ue > _MAX_HOURS:
        raise BadInput(
            f"world.ues.count: {n_ue:,} UEs for {n_hours:,} hours are too many to keep; give "
            f"--set world.ues.count={max(1, _MAX_HOURS // n_hours)} or less"
        )
    position_m = np.empty((n_hours, n_ue, 2))
    building = []
    for h in range(n_hours):
        state, _ = mobility.advance(state, h * _HOUR_S, (h + 1) * _HOUR_S, ground)
        position_m[h] = state.position_m
        inside = state.indoors()
        if cell_m == 0 and inside is not None:
            building.append(inside.building)
    place = cells(position_m, cell_m) if cell_m > 0 else np.array(building)
    middle_h: FloatArray = np.arange(0.5, n_hours)
    wall_s = ground.clock.wall_s(middle_h * _HOUR_S)
    week = _of_week(np.floor(wall_s / _HOUR_S).astype(int), ground.clock)
    for ue in range(n_ue):
        yield Series(filled(place[:, ue], fill_h), _carried(position_m[:, ue]), week)


def _carried(position_m: FloatArray) -> FloatArray:
    """Positions (h, 2), of an absent UE the last known one."""
    last = np.maximum.accumulate(
        np.where(np.isfinite(position_m).all(axis=1), np.arange(len(position_m)), 0)
    )
    return position_m[last]


def _of_week(hour: IntArray, clock: Clock) -> IntArray:
    """Hours of the week of hours counted from the first local midnight."""
    return (24 * clock.weekday(0) + hour) % WEEK_H


if __name__ == "__main__":
    sys.exit(main())
