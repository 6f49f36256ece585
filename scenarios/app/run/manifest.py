"""What a run says of itself in manifest.json: versions, disclosures, the channel card."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from fl.data.base import SHARED_MODEL
from fl.round.caveats import caveats
from netsim import __version__
from netsim.channel_card import channel_card, downlink_card
from netsim.mobility.replay import Replay
from netsim.traces.home_work import FEWEST_NIGHTS
from netsim.world import World
from scenarios.app.results.notes import hold_out_notes
from scenarios.app.run.job import Job
from scenarios.app.run.setup import origin_deg
from scenarios.app.study.schema import SCHEMA_VERSION
from scenarios.app.study.study import Study


def manifest_of(job: Job, study: Study, world: World) -> dict[str, Any]:
    """The manifest of a run, but for what only its end, or its kind, knows."""
    trace = world.trace
    area, at_deg = world.area, origin_deg(study, world)
    return {
        "title": study.title,
        "schema": SCHEMA_VERSION,
        "seed": study.seed,
        "command": job.options["command"],
        "cells": list(world.cells),
        "models": [],
        "channel_card": _card(study, world),
        "first_day": str(world.clock.first_day),
        "clock_changes": [list(change) for change in world.clock.changes],
        "round_s": study.round_s,
        "duration_s": world.duration_s,
        "area_m": [area.x_min_m, area.y_min_m, area.x_max_m, area.y_max_m],
        "origin_deg": None if at_deg is None else list(at_deg),
        "start_unix_s": None if trace is None else trace.midnight_s,
        "trace": None
        if trace is None
        else {
            "counts": trace.counts,
            "notes": [*trace.notes, *hold_out_notes(study), *_without_home(world)],
            "timezone": trace.timezone,
            "origin_lat": trace.origin_lat,
            "origin_lon": trace.origin_lon,
        },
        "files": dict(job.inputs),
        "study": job.key,
        "warnings": [*world.warnings, *_disclosed(study, world)],
        "versions": {"python": platform.python_version(), "netsim": __version__} | _versions(),
    }


def _without_home(world: World) -> list[str]:
    """How many UEs of a trace have no home, and how many of these too few nights; nothing where all have one."""
    none, nights = np.isnan(world.places.home_m[:, 0]), world.places.nights
    if nights is None or not none.any():
        return []
    few = int((none & (nights < FEWEST_NIGHTS)).sum())
    return [
        f"{none.sum():,} of {len(none):,} UEs have no home, that is no one place for most of at least {FEWEST_NIGHTS} "
        f"nights; {few:,} of them have fixes on fewer nights"
    ]


def _card(study: Study, world: World) -> dict[str, str]:
    """The channel card of a study."""
    if study.learning is None:
        return downlink_card(study.world, world.stations, _presence(world))
    trace = world.trace
    replayed = trace is not None and trace.rsrp_dbm is not None
    return channel_card(study.world, world.stations, replayed, _presence(world))


def _presence(world: World) -> str | None:
    """When a replayed UE is absent."""
    presence = None if world.trace is None else world.mobility.presence(world.trace)
    return None if presence is None else presence.words()


def _disclosed(study: Study, world: World) -> list[str]:
    """What devices tell besides their updates, which no noise hides and no ledger counts, and what parts admit."""
    learning = study.learning
    if learning is None:
        return []
    aggregation, learner = learning.aggregation, learning.learner
    counted = any({"spend", "location spend"} & part.offers for part in (*learning.curation, *learning.defenses))
    disclosed = [f"aggregation {aggregation.kind_name()}: devices tell the server {aggregation.discloses}"]
    published = [f"learner {learner.kind_name()}: everybody is told {learner.discloses}, which no epsilon here covers"]
    return [
        *(disclosed if aggregation.discloses else []),
        *(published if learner.discloses and counted else []),
        *(_drawn_values(study, world) if counted else []),
        *caveats(learning, study.world.radio.uplink.shares_band),
    ]


def _drawn_values(study: Study, world: World) -> list[str]:
    """What everybody is told beforehand that follows from the data of all users."""
    learning, mobility, trace = study.learned, study.world.ues.mobility, world.trace
    drawn = list[str]()
    if isinstance(mobility, Replay) and trace is not None:
        drawn += mobility.drawn_values(trace, study.world.city.has_size, study.world.duration_s is not None)
        alike = SHARED_MODEL in learning.data.offers and SHARED_MODEL not in learning.learner.needs
        if mobility.cell == "all" and trace.rsrp_dbm is not None and not (alike or learning.data.named_cell):
            drawn.append("which cells there are (world.ues.mobility.cell)")
    if learning.data.wants_counts:
        drawn.append("the cell with most measurements (learning.data.cell)")
    if not drawn:
        return []
    return [
        f"public values: {', '.join(drawn)} follow from the data of all users, so one user can move them, and with "
        "them the updates of all; no epsilon here covers that. State them by the keys in brackets"
    ]


def _versions() -> dict[str, str]:
    versions = {}
    for name in ("numpy", "scipy", "torch", "simpy", "scikit-learn", "pyproj"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
