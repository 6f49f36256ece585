"""The chapter of a page that holds the replay: its controls, how to read it, and its data."""

from __future__ import annotations

import html

from scenarios.app.report.html import Chapter
from scenarios.app.report.packed import packed
from scenarios.app.report.replay.controls import controls
from scenarios.app.report.replay.data import Replay, replay_of, tracked_every_s
from scenarios.app.report.replay.ground import buildings_left_out
from scenarios.app.report.replay.tracks import TOLERANCES_M
from scenarios.app.results.run import Run
from scenarios.app.results.statistics import counted, figure_text, span_text

SCRIPTS = (
    "replay_data.js", "replay_ground.js", "replay_belief.js", "replay_known.js", "replay_moving.js", "replay_curve.js",
    "replay_view.js", "replay_pointer.js", "replay_words.js", "replay_keys.js", "replay_svg.js", "replay_saved.js",
    "replay.js",
)  # fmt: skip
STYLES = ("replay.css",)
DATA = "replay-data"
FINEST_M = TOLERANCES_M[0]

_LAYERS: tuple[tuple[str, str, str, bool | None], ...] = (
    ("ues", "UEs", "track_time", True),
    ("trails", "trails", "track_time", True),
    ("serving", "serving cells", "track_cell", True),
    ("links", "updates being sent", "link_begin", True),
    ("homes", "homes", "home_x", True),
    ("work", "workplaces", "work_x", True),
    ("named", "named places", "named_round", True),
    ("estimates", "estimates, last rounds", "estimate_round", None),
    ("belief", "belief", "belief_round", True),
    ("stations", "base stations", "", True),
    ("buildings", "buildings", "footprint_x", True),
    ("streets", "streets", "street_x", True),
    ("scenery", "green, water, rails", "scenery_x", True),
)
"""key, label, an array that it needs, whether it is on at first; estimates are where no places are named"""
_WORTH_A_MAP = {"ues", "stations", "buildings", "streets", "estimates", "homes", "belief"}

_COVERAGE = (
    ("cell", "best server", ("coverage_cell",)),
    ("rsrp_dbm", "RSRP (dBm)", ("coverage_rsrp_dbm",)),
    ("sinr_db", "SINR at full load (dB)", ("coverage_sinr_db",)),
    ("learnt_dbm", "map learnt at the end, where UEs measure (dBm)", ("coverage_learnt_dbm",)),
    ("error_db", "map learnt at the end less truth at street level (dB)", ("coverage_learnt_dbm", "coverage_rsrp_dbm")),
    ("los", "line of sight", ("coverage_los",)),
)


def replay_chapter(run: Run) -> tuple[Chapter, dict[str, str]]:
    """The chapter, empty where there is nothing to see, and its data by id."""
    replay = replay_of(run, run.attacks)
    named = replay.has("named_round")
    layers = [
        (key, label, not named if on is None else on)
        for key, label, needed, on in _LAYERS
        if (replay.meta["stations"] if key == "stations" else replay.has(needed))
    ]
    if not {key for key, *_ in layers} & _WORTH_A_MAP:
        return Chapter("map", "Map", []), {}
    coverage = [
        (key, label)
        for key, label, needed in _COVERAGE
        if all(map(replay.has, needed)) and not (key == "error_db" and _measured_indoors(run))
    ]
    parts = [
        _small(_reading(run, replay)),
        controls(_ratio(replay), layers, coverage, bool(replay.meta["attacks"]), replay.has("belief_round")),
        _small(_left_out(run, replay)),
    ]
    return Chapter("map", "Map", parts), {DATA: packed(replay.meta, replay.arrays)}


def _measured_indoors(run: Run) -> bool:
    """Whether a UE was in a building: then the map is learnt of what is received there too, and on all floors."""
    return bool((run.tables["tracks"]["indoor"] == 1).any())


def _ratio(replay: Replay) -> float:
    """Width over height of the map on a wide page."""
    west, south, east, north = replay.meta["area_m"]
    return float(min(max((east - west) / max(north - south, 1e-9), 0.75), 2.4))


def _small(sentences: list[str]) -> str:
    return f'<p class="caption">{html.escape(" ".join(sentences))}</p>' if sentences else ""


def _reading(run: Run, replay: Replay) -> list[str]:
    """How to read it."""
    return [*_reading_known(run, replay), *(_reading_beliefs(run) if replay.has("belief_round") else [])]


def _reading_beliefs(run: Run) -> list[str]:
    return [
        "Coloured cells are where the attack believes a UE was in the latest round, the likeliest ones up to 95 %; a "
        f"dot is its answer, a dashed circle the {run.near_m:g} m around the likeliest place, a ring the truth, and a "
        "square the estimate without memory. Choose a UE to see its belief alone."
    ]


def _reading_known(run: Run, replay: Replay) -> list[str]:
    if replay.has("named_round"):
        return [
            f"A home or workplace is filled, and joined by a thick line, when the attack names a place within "
            f"{run.near_m:g} m of it; otherwise a dotted line leads to the nearest place that it names of the UE."
        ]
    if replay.has("estimate_round"):
        return ["A line joins each estimate of the latest round to the true mean of the positions it is about."]
    return ["A circle is a UE: filled outdoors, hollow in a building."] if replay.has("track_time") else []


def _left_out(run: Run, replay: Replay) -> list[str]:
    """How exact it is, and what was left out."""
    every_s, said = tracked_every_s(run), list[str]()
    if replay.has("track_time"):
        said.append(
            "UEs move on straight lines between the places where they truly were"
            + (f" every {span_text(every_s)}" if every_s else "")
            + (f", simplified to within {replay.tracks.within_m:g} m" if replay.tracks.within_m > FINEST_M else "")
            + f"; places are rounded to {figure_text(replay.meta['moving']['step_m'])} m."
        )
        if replay.has("link_begin"):
            said.append(
                "While the replay plays, an update that is being sent is shown for at least 0.7 s, and a cross marks "
                "the UE whose update was lost."
            )
    if replay.has("coverage_learnt_dbm") and replay.has("coverage_rsrp_dbm") and _measured_indoors(run):
        said.append(
            "UEs also measured in buildings, so the learnt map is one of samples indoors and outdoors: it is not "
            "compared with the signal at street level. Its error is that on held-out samples."
        )
    total = len(run.tables["ues"]["ue"])
    if replay.n_ue < total:
        said.append(f"Drawn are the first {replay.n_ue:,} of {total:,} UEs; counts and curves are of all.")
    if replay.tracked < replay.n_ue:
        said.append(
            f"There are too many changes to draw all: tracks are of the first {counted(replay.tracked, 'UE')} only."
        )
    if replay.drawn.detailed < replay.n_ue:
        said.append(f"Updates and estimates are drawn of the first {counted(replay.drawn.detailed, 'UE')} only.")
    if replay.drawn.stride > 1:
        said.append(f"Named places are drawn as of every {replay.drawn.stride}th round, and of the last.")
    if replay.belief_stride > 1:
        said.append(f"There are too many cells to draw all: beliefs are of one round in {replay.belief_stride}.")
    if replay.drawn.beyond:
        said.append(f"Too far outside to be drawn: {counted(replay.drawn.beyond, 'estimate')}.")
    if replay.far:
        said.append(f"Too far outside to be drawn: {counted(replay.far, 'base station')}.")
    if buildings_left_out(run):
        said.append("Only the widest buildings are drawn.")
    return said
