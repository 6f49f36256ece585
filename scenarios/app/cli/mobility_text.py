"""The table of `netsim inspect --mobility`: statistics of a trace, or of the movement of a scenario."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from math import isfinite
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.mobility.statistics import FEWEST_HOURS, Measures, Series, measures
from netsim.units import FloatArray
from scenarios.app.cli.options import columns_of, overrides_of

CELL_M, FILL_H = 250.0, 12.0
_ROWS = (
    ("hours with a known place", "hours", 1.0, "{:,.0f}"),
    ("distinct places S", "places", 1.0, "{:,.0f}"),
    ("growth of S, exponent of time", "growth", 1.0, "{:.2f}"),
    ("time at the top place, %", "top_1", 100.0, "{:.0f}"),
    ("time at the top two places, %", "top_2", 100.0, "{:.0f}"),
    ("regularity, %", "regularity", 100.0, "{:.0f}"),
    ("Zipf exponent of visits", "zipf", 1.0, "{:.2f}"),
    ("entropy of the places, bit", "entropy", 1.0, "{:.2f}"),
    ("entropy rate, bit/h", "entropy_rate", 1.0, "{:.2f}"),
    ("predictability, %", "predictability", 100.0, "{:.0f}"),
    ("radius of gyration, m", "gyration_m", 1.0, "{:,.0f}"),
)


def mobility_text(args: argparse.Namespace, trace: dict[str, Any]) -> str:
    """The table. Raises BadInput for what cannot be read or played.

    trace : the options of `trace_series` on how to read a trace.
    """
    cell_m, fill_h = (CELL_M if args.cell_m is None else args.cell_m), (FILL_H if args.fill_h is None else args.fill_h)
    for option, value, most in (("--cell-m", cell_m, 1e6), ("--fill-h", fill_h, 1e4)):
        if not (isfinite(value) and 0 <= value <= most):
            raise BadInput(f"{option} {value:g}: must be from 0 to {most:,.0f}")
    if is_scenario(args.trace):
        found = measures(_played(args, cell_m, fill_h))
    else:
        found = measures(_recorded(args, cell_m, fill_h, trace))
    return _table(args.trace, found, cell_m, fill_h)


def is_scenario(name: str) -> bool:
    """Whether a command line names a scenario: a YAML file, or a bundled name that is no file or folder."""
    from netsim.safe import what_is
    from scenarios.app.study.load import bundled

    return name.endswith((".yaml", ".yml")) or (not what_is(name) and name in bundled())


def _recorded(args: argparse.Namespace, cell_m: float, fill_h: float, trace: dict[str, Any]) -> Iterable[Series]:
    from netsim.mobility.series import trace_series

    if args.sets or args.seed is not None:
        raise BadInput("--set and --seed are for scenarios, and this is a trace; leave them out")
    return trace_series(args.trace, cell_m, fill_h, columns_of(args.columns), **trace)


def _played(args: argparse.Namespace, cell_m: float, fill_h: float) -> Iterable[Series]:
    """The movement of a scenario, without its radio and its learning."""
    from netsim.build import build_world
    from netsim.mobility.series import played_series
    from netsim.rng import Streams
    from scenarios.app.run.how import USUAL
    from scenarios.app.study.load import Scenario

    overrides = overrides_of(args)
    scenario = Scenario(args.trace)
    study = scenario.study(overrides)
    with scenario.placed(overrides), USUAL.within():
        world = build_world(study.world, Streams(study.seed), study.round_s)
    if world.duration_s < FEWEST_HOURS * 3600:
        raise BadInput(
            f"{args.trace}: world.duration_s: {world.duration_s:g} s are less than {FEWEST_HOURS} h; give "
            "--set world.duration_s=2419200 for four weeks"
        )
    return played_series(world.mobility, world.state, world.ground, world.duration_s, cell_m, fill_h)


def _table(source: str, found: Measures, cell_m: float, fill_h: float) -> str:
    n_known = int((found.hours >= FEWEST_HOURS).sum())
    if not n_known:
        raise BadInput(
            f"{source}: nobody has {FEWEST_HOURS} hours with a known place; give a longer trace, or a larger --fill-h"
        )
    places = f"squares of {cell_m:g} m" if cell_m > 0 else "buildings, or distinct positions of a trace"
    lines = [
        f"people    {n_known:,} with at least {FEWEST_HOURS} known hours, of {len(found.hours):,}",
        f"sampling  last position of each hour, kept for up to {fill_h:g} h; places are {places}",
        "",
        f"{'':<32}{'median':>9}  {'quartiles':<19}{'people':>7}",
    ]
    for title, name, factor, form in _ROWS:
        value = factor * getattr(found, name)[found.hours >= FEWEST_HOURS]
        lines.append(f"{title:<32}{_spread(value[np.isfinite(value)], form)}")
    return "\n".join(lines)


def _spread(value: FloatArray, form: str) -> str:
    if not len(value):
        return f"{'-':>9}  {'-':<19}{0:>7}"
    low, middle, high = (form.format(v) for v in np.quantile(value, (0.25, 0.5, 0.75)))
    return f"{middle:>9}  {f'{low} to {high}':<19}{len(value):>7,}"
