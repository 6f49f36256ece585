"""What a sweep varies: lists that go together, random points, and what is refused."""

from __future__ import annotations

import math

import numpy as np
from conftest import write_campus
from pytest import approx, mark, raises
from refused import catch_line, read_cases

from netsim.errors import BadInput
from netsim.rng import Streams
from scenarios.app.results.folder import read_csv_rows
from scenarios.app.run.sweep import (
    draw_values,
    find_quantile,
    make_folder_name,
    plan_points,
    resolve_points,
)
from scenarios.app.study.load import Scenario, load, parse_value
from scenarios.app.study.study import Distribution

RATE = "learning.learner.learning_rate"
WIDTH = "learning.learner.hidden"
ROUND = "learning.round_s"
SPACE = {RATE: {"low": 1e-4, "high": 1.0, "log": True}, WIDTH: parse_value("{choices: [[4], [8]]}")}


def plan_variants(**vary):
    return plan_points(load("campus", {"vary": vary}), {})


def test_lists_of_zip_go_together_and_are_crossed_with_the_rest():
    runs = plan_variants(
        zip={RATE: [0.1, 0.2, 0.3], WIDTH: [[2], [4], [8]]},
        values={ROUND: [3600, 7200]},
        seed=[1, 2],
    )
    pairs = {(p.overrides[RATE], p.overrides[WIDTH][0]) for p in runs}
    assert len(runs) == 3 * 2 * 2
    assert pairs == {(0.1, 2), (0.2, 4), (0.3, 8)}
    assert runs[0].label == "learning_rate=0.1, hidden=[2], round_s=3600"
    assert len({p.folder for p in runs}) == 12


def test_quantiles_of_distributions_have_their_closed_forms():
    assert find_quantile(Distribution(low=2.0, high=6.0), 0.25) == 3.0
    assert find_quantile(Distribution(low=1e-4, high=1.0, log=True), 0.5) == approx(1e-2)
    whole = Distribution(low=3, high=5, integer=True)
    assert [find_quantile(whole, u) for u in (1e-9, 0.34, 0.67, 1 - 1e-9)] == [3, 4, 5, 5]
    # 8^(1/3)
    assert find_quantile(Distribution(low=1, high=7, log=True, integer=True), 1 / 3 + 1e-9) == 2
    assert find_quantile(Distribution(choices=("a", "b")), 0.5) == "b"
    assert find_quantile(Distribution(choices=("a", "b")), 0.49) == "a"
    # six digits would lie outside
    assert find_quantile(Distribution(low=0.1234564, high=0.2), 1e-12) == 0.1234564
    assert find_quantile(Distribution(low=0.1, high=0.1999999), 1 - 1e-9) == 0.1999999
    last = 1 - 2**-53  # the largest draw: low + u (high + 1 - low) is rounded to high + 1
    for low, high, log in ((1, 2, False), (2, 4, True)):
        assert find_quantile(Distribution(low=low, high=high, log=log, integer=True), last) == high


def test_draws_are_those_of_the_named_stream_whatever_their_number_and_whoever_is_drawn_beside():
    few = plan_variants(random={"draws": 3, "space": SPACE})
    many = plan_variants(random={"draws": 50, "space": SPACE})
    alone = plan_variants(random={"draws": 3, "space": {RATE: SPACE[RATE]}})
    assert [(p.label, p.folder, p.overrides) for p in few] == [
        (p.label, p.folder, p.overrides) for p in many[:3]
    ]
    assert [p.overrides[RATE] for p in few] == [p.overrides[RATE] for p in alone]
    u = Streams(load("campus").seed).derive_rng("vary").uniform(RATE, np.arange(50))
    assert [p.overrides[RATE] for p in many] == approx(10 ** (4 * u - 4), rel=1e-5)
    assert {p.overrides[WIDTH][0] for p in many} == {4, 8}
    assert len({p.folder for p in many}) == 50
    second = plan_points(
        load("campus", {"seed": 11, "vary": {"random": {"draws": 3, "space": SPACE}}}), {}
    )
    assert [p.overrides[RATE] for p in second] != [p.overrides[RATE] for p in few]


@mark.parametrize(
    "space, message",
    [
        (
            {RATE: {"low": 1, "high": 20}},
            rf"'draw \d+': .*{RATE}=1.*: must be above 0 and at most 10",
        ),
        ({RATE: {"low": -1, "high": 1}}, rf"{RATE}=-0.*: must be above 0 and at most 10"),
        (
            parse_value("{learning.attacks.0.cluster_m: {low: -1, high: 9}}"),
            r"attacks\[0\].cluster_m=-.*: must be above 0",
        ),
        ({RATE: {"choices": [0.1, "fast"]}}, rf"{RATE}='fast': expected a number"),
        (
            {"learning.rounds": {"low": 1, "high": 9}},
            r"learning.rounds=.*: expected a whole number",
        ),
    ],
)
def test_a_range_beyond_what_its_key_takes_is_refused_by_its_first_draw_there(space, message):
    changes = {"vary": {"random": {"draws": 50, "space": space}}}
    with raises(BadInput, match=message):
        resolve_points(Scenario.from_source("campus", changes))


def test_keys_reach_into_lists_with_dots_as_with_brackets():
    for key in ("learning.attacks.0.cluster_m", "learning.attacks[0].cluster_m"):
        assert load("campus", {key: 50.0}).learning.attacks[0].cluster_m == 50.0
        (run,) = plan_variants(values={key: [50.0]})
        assert run.label == "cluster_m=50"
    assert "there is nothing at" in catch_line(
        load, "campus", {"learning.attacks.9.cluster_m": 50.0}
    )


def test_seeds_and_variants_share_the_same_random_points():
    runs = plan_variants(
        random={"draws": 2, "space": SPACE}, seed=[1, 2], variants=[{"label": "a"}, {"label": "b"}]
    )
    rates = {(p.label, p.overrides[RATE]) for p in runs}
    assert len(runs) == 8
    assert len(rates) == 4
    assert len({rate for _, rate in rates}) == 2


def test_logarithms_of_draws_are_uniform():
    values = draw_values(
        Streams(3).derive_rng("vary"), "x", Distribution(low=1e-3, high=1e3, log=True), 4000
    )
    shares = np.histogram([math.log10(v) for v in values], bins=6, range=(-3, 3))[0] / 4000
    assert abs(shares - 1 / 6).max() < 4 * math.sqrt(1 / 6 * 5 / 6 / 4000)


UNVARIED = """
zip: {a.b: [1, 2], c.d: [1]}
    lists go together and have one length; they have
zip: {a.b: [1]}, values: {a.b: [1]}
    vary.zip: a.b stands in values too
zip: {a.0.b: [1]}, values: {'a[0].b': [1]}
    vary.zip: a.0.b stands in values too
values: {seed: [1]}
    vary.values: seed cannot be varied here; seeds stand in vary.seed
random: {space: {a.b: {low: 2, high: 1}}}
    vary.random.space.'a.b'.high: must be above low, 2
random: {space: {a.b: {low: 0, high: 1, log: true}}}
    low: must be above 0 with log: true, got 0
random: {space: {a.b: {low: 0.5, high: 1, integer: true}}}
    both bounds are whole numbers
random: {space: {a.b: {low: 0.5}}}
    a distribution has low and high, or choices
random: {space: {a.b: {choices: [1], high: 2}}}
    they have no range; leave low
seed: []
    vary.seed: must have at least 1 entries
seed: [1, 1]
    seed: 1 stands 2 times
seed: [1], variants: []
    vary.variants: must have at least 1 entries
values: {learning.rounds: []}
    vary.values.'learning.rounds': must have at least 1 entries
random: {draws: 0, space: {a.b: {choices: [1]}}}
    vary.random.draws:
"""


@mark.parametrize("vary, message", read_cases(UNVARIED))
def test_what_cannot_be_varied_is_refused_by_line_and_key(
    vary, message, tmp_path, out, refuse_command
):
    scenario = write_campus(tmp_path / "s.yaml", f"vary: {{{vary}}}\n")
    error = refuse_command(f"sweep {scenario} --out {out}")
    assert message in error
    assert f"{scenario}:" in error
    assert not out.exists()


def test_a_draw_that_the_scenario_refuses_names_its_line(tmp_path, refuse_command):
    vary = f"vary: {{random: {{draws: 2, space: {{{ROUND}: {{low: -5, high: -1}}}}}}}}\n"
    scenario = write_campus(tmp_path / "s.yaml", vary)
    n_lines = scenario.read_text().count("\n")
    assert f"{scenario}:{n_lines}: {ROUND}" in refuse_command(f"validate {scenario}")


def test_a_sweep_of_draws_goes_on_with_more_of_them(tmp_path, out, run_command):
    vary = f"vary: {{random: {{draws: 1, space: {{{WIDTH}: {{choices: [[2], [3]]}}}}}}}}\n"
    scenario = write_campus(tmp_path / "s.yaml", vary)
    command = f"sweep {scenario} --jobs 1 --out {out} --quiet".split()
    run_command(command)
    first = out / "draw-1/seed-4/summary.json"
    before = first.stat().st_mtime_ns
    run_command([*command, "--set", "vary.random.draws=2"])
    rows = read_csv_rows(out / "runs.csv")
    assert [r["label"] for r in rows] == ["draw 1", "draw 2"]
    assert rows[0][WIDTH] in ("[2]", "[3]")
    assert first.stat().st_mtime_ns == before
    assert "utility.rmse_db by drawn value" in (out / "report.html").read_text()


def test_long_names_of_folders_are_short_and_stay_different():
    """Also of texts that differ only in signs that a name does not have."""
    texts = [f"{'a' * 200}{sign}{'b' * 50}" for sign in "/:*?"]
    names = {make_folder_name(text) for text in texts}
    assert len(names) == 4
    assert all(len(name) < 60 and name.startswith("a" * 40) for name in names)
