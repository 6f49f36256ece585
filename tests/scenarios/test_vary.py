"""What a sweep varies: lists that go together, random points, and what is refused."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from netsim.errors import BadInput
from netsim.rng import Streams
from scenarios.app.cli.commands import main
from scenarios.app.run.sweep import at, checked_points, drawn, folder_name, points
from scenarios.app.study.load import AskedStudy, load
from scenarios.app.study.study import Distribution

CAMPUS = Path(__file__).resolve().parents[2] / "scenarios" / "campus.yaml"
RATE = "learning.learner.learning_rate"
WIDTH = "learning.learner.hidden"
ROUND = "learning.round_s"
SPACE = {RATE: {"low": 1e-4, "high": 1.0, "log": True}, WIDTH: {"choices": [[4], [8]]}}


def varied(**vary):
    return points(load("campus", {"vary": vary}), {})


def test_lists_of_zip_go_together_and_are_crossed_with_the_rest():
    runs = varied(
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
    assert at(Distribution(low=2.0, high=6.0), 0.25) == 3.0
    assert at(Distribution(low=1e-4, high=1.0, log=True), 0.5) == pytest.approx(1e-2)
    whole = Distribution(low=3, high=5, integer=True)
    assert [at(whole, u) for u in (1e-9, 0.34, 0.67, 1 - 1e-9)] == [3, 4, 5, 5]
    assert at(Distribution(low=1, high=7, log=True, integer=True), 1 / 3 + 1e-9) == 2  # 8^(1/3)
    assert at(Distribution(choices=("a", "b")), 0.5) == "b"
    assert at(Distribution(choices=("a", "b")), 0.49) == "a"
    assert (
        at(Distribution(low=0.1234564, high=0.2), 1e-12) == 0.1234564
    )  # six digits would lie outside
    assert at(Distribution(low=0.1, high=0.1999999), 1 - 1e-9) == 0.1999999
    last = 1 - 2**-53  # the largest draw: low + u (high + 1 - low) is rounded to high + 1
    for low, high, log in ((1, 2, False), (2, 4, True)):
        assert at(Distribution(low=low, high=high, log=log, integer=True), last) == high


def test_draws_are_those_of_the_named_stream_whatever_their_number_and_whoever_is_drawn_beside():
    few = varied(random={"draws": 3, "space": SPACE})
    many = varied(random={"draws": 50, "space": SPACE})
    alone = varied(random={"draws": 3, "space": {RATE: SPACE[RATE]}})
    assert [(p.label, p.folder, p.overrides) for p in few] == [
        (p.label, p.folder, p.overrides) for p in many[:3]
    ]
    assert [p.overrides[RATE] for p in few] == [p.overrides[RATE] for p in alone]
    u = Streams(load("campus").seed).at("vary").uniform(RATE, np.arange(50))
    assert [p.overrides[RATE] for p in many] == pytest.approx(10 ** (4 * u - 4), rel=1e-5)
    assert {p.overrides[WIDTH][0] for p in many} == {4, 8}
    assert len({p.folder for p in many}) == 50
    other = points(
        load("campus", {"seed": 11, "vary": {"random": {"draws": 3, "space": SPACE}}}), {}
    )
    assert [p.overrides[RATE] for p in other] != [p.overrides[RATE] for p in few]


@pytest.mark.parametrize(
    ("space", "said"),
    [
        (
            {RATE: {"low": 1, "high": 20}},
            rf"'draw \d+': .*{RATE}=1.*: must be above 0 and at most 10",
        ),
        ({RATE: {"low": -1, "high": 1}}, rf"{RATE}=-0.*: must be above 0 and at most 10"),
        (
            {"learning.attacks.0.cluster_m": {"low": -1, "high": 9}},
            r"attacks\[0\].cluster_m=-.*: must be above 0",
        ),
        ({RATE: {"choices": [0.1, "fast"]}}, rf"{RATE}='fast': expected a number"),
        (
            {"learning.rounds": {"low": 1, "high": 9}},
            r"learning.rounds=.*: expected a whole number",
        ),
    ],
)
def test_a_range_beyond_what_its_key_takes_is_refused_by_its_first_draw_there(space, said):
    changes = {"vary": {"random": {"draws": 50, "space": space}}}
    with pytest.raises(BadInput, match=said):
        checked_points(AskedStudy.of("campus", changes))


def test_keys_reach_into_lists_with_dots_as_with_brackets():
    for key in ("learning.attacks.0.cluster_m", "learning.attacks[0].cluster_m"):
        assert load("campus", {key: 50.0}).learning.attacks[0].cluster_m == 50.0
        (run,) = varied(values={key: [50.0]})
        assert run.label == "cluster_m=50"
    with pytest.raises(BadInput, match="there is nothing at"):
        load("campus", {"learning.attacks.9.cluster_m": 50.0})


def test_seeds_and_variants_share_the_same_random_points():
    runs = varied(
        random={"draws": 2, "space": SPACE}, seed=[1, 2], variants=[{"label": "a"}, {"label": "b"}]
    )
    rates = {(p.label, p.overrides[RATE]) for p in runs}
    assert len(runs) == 8
    assert len(rates) == 4
    assert len({rate for _, rate in rates}) == 2


def test_logarithms_of_draws_are_uniform():
    values = drawn(Streams(3).at("vary"), "x", Distribution(low=1e-3, high=1e3, log=True), 4000)
    shares = np.histogram([math.log10(v) for v in values], bins=6, range=(-3, 3))[0] / 4000
    assert abs(shares - 1 / 6).max() < 4 * math.sqrt(1 / 6 * 5 / 6 / 4000)


@pytest.mark.parametrize(
    ("vary", "said"),
    [
        (
            "  zip:\n    a.b: [1, 2]\n    c.d: [1]\n",
            "lists go together and have one length; they have",
        ),
        ("  zip: {a.b: [1]}\n  values: {a.b: [1]}\n", "vary.zip: a.b stands in values too"),
        (
            "  zip: {a.0.b: [1]}\n  values: {'a[0].b': [1]}\n",
            "vary.zip: a.0.b stands in values too",
        ),
        (
            "  values: {seed: [1]}\n",
            "vary.values: seed cannot be varied here; seeds stand in vary.seed",
        ),
        (
            "  random:\n    space: {a.b: {low: 2, high: 1}}\n",
            "vary.random.space.'a.b'.high: must be above low, 2",
        ),
        (
            "  random:\n    space: {a.b: {low: 0, high: 1, log: true}}\n",
            "low: must be above 0 with log: true, got 0",
        ),
        (
            "  random:\n    space: {a.b: {low: 0.5, high: 1, integer: true}}\n",
            "both bounds are whole numbers",
        ),
        (
            "  random:\n    space: {a.b: {low: 0.5}}\n",
            "a distribution has low and high, or choices",
        ),
        ("  random:\n    space: {a.b: {choices: [1], high: 2}}\n", "they have no range; leave low"),
        ("  seed: []\n", "vary.seed: must have at least 1 entries"),
        ("  seed: [1, 1]\n", "seed: 1 stands 2 times"),
        ("  seed: [1]\n  variants: []\n", "vary.variants: must have at least 1 entries"),
        (
            "  values: {learning.rounds: []}\n",
            "vary.values.'learning.rounds': must have at least 1 entries",
        ),
        ("  random:\n    draws: 0\n    space: {a.b: {choices: [1]}}\n", "vary.random.draws: "),
    ],
)
def test_what_cannot_be_varied_is_refused_by_line_and_key(vary, said, tmp_path, capsys):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(f"{CAMPUS.read_text()}vary:\n{vary}")
    assert main(["sweep", str(scenario), "--out", str(tmp_path / "w")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert f"{scenario}:" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "w").exists()


def test_a_draw_that_the_scenario_refuses_names_its_line(tmp_path, capsys):
    scenario = tmp_path / "s.yaml"
    text = (
        f"{CAMPUS.read_text()}vary:\n  random:\n    draws: 2\n    space:\n      {ROUND}: "
        f"{{low: -5, high: -1}}\n"
    )
    scenario.write_text(text)
    assert main(["validate", str(scenario)]) == 2
    error = capsys.readouterr().err
    assert f"{scenario}:{len(text.splitlines())}: {ROUND}" in error
    assert "must be above 0" in error


def test_a_sweep_of_draws_goes_on_with_more_of_them(tmp_path):
    scenario = tmp_path / "s.yaml"
    text = CAMPUS.read_text().replace("6652800", "172800").replace("604800", "86400")
    scenario.write_text(
        f"{text}vary:\n  random:\n    draws: 1\n    space:\n      {WIDTH}: {{choices: "
        f"[[2], [3]]}}\n"
    )
    command = ["sweep", str(scenario), "--jobs", "1", "--out", str(tmp_path / "w"), "--quiet"]
    assert main(command) == 0
    first = tmp_path / "w" / "draw-1" / "seed-4" / "summary.json"
    before = first.stat().st_mtime_ns
    assert main([*command, "--set", "vary.random.draws=2"]) == 0
    rows = list(csv.DictReader((tmp_path / "w" / "runs.csv").read_text().splitlines()))
    assert [r["label"] for r in rows] == ["draw 1", "draw 2"]
    assert rows[0][WIDTH] in ("[2]", "[3]")
    assert first.stat().st_mtime_ns == before
    assert "utility.rmse_db by drawn value" in (tmp_path / "w" / "report.html").read_text()


def test_long_names_of_folders_are_short_and_stay_different():
    """Also of texts that differ only in signs that a name does not have."""
    texts = [f"{'a' * 200}{sign}{'b' * 50}" for sign in "/:*?"]
    names = {folder_name(text) for text in texts}
    assert len(names) == 4
    assert all(len(name) < 60 and name.startswith("a" * 40) for name in names)
