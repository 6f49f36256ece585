"""The command `netsim inspect`: summarise a trace before anything runs, or the mobility of a trace or a scenario."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

import numpy as np

from netsim.errors import BadInput
from netsim.mobility.statistics import FEWEST_HOURS, Series, measures
from netsim.safe import what_is
from scenarios.app.cli.options import columns_of, overrides_of
from scenarios.app.cli.output import say, table
from scenarios.app.study.load import Scenario, bundled

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


def main(args: argparse.Namespace) -> None:
    """Print what the trace holds, or how people move."""
    from netsim.mobility.statistics import trace_series
    from netsim.traces.inspect import inspect_trace

    reading = {k: v for k in ("format", "crs", "timezone") if (v := getattr(args, k))}
    is_scenario = args.trace.endswith((".yaml", ".yml")) or (not what_is(args.trace) and args.trace in bundled())
    if not args.mobility:
        if is_scenario:
            raise BadInput(f"{args.trace}: a scenario, and no trace; add --mobility to see how its people move")
        say(inspect_trace(args.trace, columns_of(args.columns), **reading))
    elif is_scenario:
        _mobility(args, _played(args))
    elif args.sets or args.seed is not None:
        raise BadInput("--set and --seed are for scenarios, and this is a trace; leave them out")
    else:
        _mobility(args, trace_series(args.trace, args.cell_m, args.fill_h, columns_of(args.columns), **reading))


def _mobility(args: argparse.Namespace, series: Iterable[Series]) -> None:
    """Print statistics of the people with enough known hours."""
    found = measures(series)
    known = found["hours"] >= FEWEST_HOURS
    if not known.any():
        raise BadInput(
            f"{args.trace}: no user has {FEWEST_HOURS} hours with a known place; give a longer trace, or a larger "
            "--fill-h"
        )
    rows = []
    for title, name, factor, form in ROWS:
        value = factor * found[name][known]
        value = value[np.isfinite(value)]
        figures = [form.format(v) for v in np.quantile(value, (0.5, 0.25, 0.75))] if len(value) else ["-"] * 3
        rows.append([title, *figures, f"{len(value):,}"])
    places = f"squares of {args.cell_m:g} m" if args.cell_m > 0 else "buildings, or distinct positions of a trace"
    say(f"{known.sum():,} with at least {FEWEST_HOURS} known hours, of {len(known):,}")
    say(f"last position of each hour, kept for up to {args.fill_h:g} h; places are {places}\n")
    say(table(["", "median", "25 %", "75 %", "people"], rows))


def _played(args: argparse.Namespace) -> Iterable[Series]:
    """The movement of a scenario, without its radio and its learning."""
    from netsim.build import build_world
    from netsim.mobility.statistics import played_series
    from netsim.rng import Streams
    from scenarios.app.run.how import USUAL

    overrides, scenario = overrides_of(args), Scenario(args.trace)
    study = scenario.study(overrides)
    with scenario.placed(overrides), USUAL.within():
        world = build_world(study.world, Streams(study.seed), study.round_s)
    if world.duration_s < FEWEST_HOURS * 3600:
        raise BadInput(
            f"{args.trace}: world.duration_s: {world.duration_s:g} s are less than {FEWEST_HOURS} h; give "
            "--set world.duration_s=2419200 for four weeks"
        )
    return played_series(world.mobility, world.state, world.ground, world.duration_s, args.cell_m, args.fill_h)
