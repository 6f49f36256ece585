"""Canaries in rounds: what they prove of honest noise, of planted faults, and after a resume; what
is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fl_values import read_changes, read_rows
from interrupted import run_in_two
from pytest import raises

from fl.defenses.clip import Clip
from fl.defenses.gaussian import CentralGaussian, DistributedGaussian
from fl.defenses.skellam import Skellam
from fl.round import canaries
from netsim.errors import BadInput
from netsim.rng import Rng
from scenarios.app.result import run
from scenarios.app.results.folder import read_json, read_record_table

PARTS = read_changes("""
clip: {kind: clip, norm: 0.1, relation: add-remove}
replace: {kind: clip, norm: 0.1, relation: replace}
adaptive: {kind: adaptive-clip, norm: 0.1, relation: add-remove}
local: {kind: gaussian, noise_multiplier: 1.0, delta: 1.0e-7}
central: {kind: central-gaussian, noise_multiplier: 1.0}
banded: {kind: central-gaussian, noise_multiplier: 1.0, correlation: banded, bands: 2}
shares: {kind: distributed-gaussian, noise_multiplier: 1.0}
ring: {kind: skellam, noise_multiplier: 1.0}
lapa: &lapa
  kind: lapa
  epsilon_system_total: 150.0
  epsilon_cap: 10.0
  rounds: 4
  delta: 1.0e-7
claims: {<<: *lapa, sensitivity: mean-clip}
switch: {kind: noise-switch, mode: top-up, noise: *lapa}
""")
OPTIONS = read_changes("""
plain: {}
models: {learning.data.cell: all}
sums: {learning.threat: {observes: aggregate, secagg_threshold: 3}}
noisy: &noisy {world.radio.uplink: {kind: oma, decoding: noisy, noise_w: 1.0e-12}}
turns: &turns
  learning.participation: 0.5
  learning.sampling: cyclic
  learning.aggregation: {kind: uniform, clients: 4, participation: 0.5}
noisy-turns: {<<: [*noisy, *turns]}
coins: {<<: *turns, learning.sampling: poisson}
phases:
  world.radio: {path_loss: {kind: los-nlos}, line_of_sight: {kind: always}}
  world.ues.measure: all
  learning.data: {kind: links, memory: round}
  learning.learner: {kind: radio-map, cell_m: 10}
records:
  learning.data: {kind: measured, cell: all}
  learning.learner:
    kind: rsrp-net
    hidden: [20, 20]
    optimiser: {kind: sgd}
    sample_clip: 1.0
    batch_size: all
    local_epochs: 1
    standardise_by: public
    step_limit: none
memory: {learning.data: {kind: measured, cell: all, memory: all}}
fedbuff: {learning.server: {kind: fedbuff, buffer: 2}, world.radio.dynamic_uplink: {}}
fedasync: {learning.server: {kind: fedasync}, world.radio.dynamic_uplink: {}}
""")
STUDIES = {
    name: (chain, options)
    for name, options, *chain in read_rows("""
    central       plain       clip     central
    replace       plain       replace  central
    models        models      clip     central
    local         plain       clip     local
    shares        sums        clip     shares
    skellam       sums        clip     ring
    central-noisy noisy-turns clip     central
    banded        turns       clip     banded
    poisson       coins       clip     central
    adaptive      plain       adaptive central
    phases        phases      clip     local
    records       records     local
    lapa          plain       clip     lapa
    claims        memory      replace  claims
    switch        noisy       clip     switch
    fedbuff       fedbuff     clip     local
    fedasync      fedasync    clip     local
    """)
}


def build_changes(name):
    """Changes of the tiny study: a few rounds with canaries."""
    chain, options = STUDIES[name]
    base = read_changes("""
    world.duration_s: 80
    learning.round_s: 20
    learning.attacks: []
    learning.learner: {kind: rsrp-net, hidden: [20, 20]}
    learning.references.central: false
    learning.data: {kind: measured, cell: strongest, memory: all}
    learning.aggregation: {kind: uniform, clients: 4}
    learning.audit: {canaries: 200}
    """)
    return base | {"learning.defenses": [PARTS[part] for part in chain]} | OPTIONS[options]


@pytest.fixture
def play_audited(tiny, tmp_path_factory):
    """The table `audit` of a study of a few rounds, and its folder."""

    def play(name, **options):
        folder = tmp_path_factory.mktemp(name)
        run(tiny(build_changes(name) | options), folder)
        return read_record_table(folder, "audit"), folder

    return play


def is_tenfold(table):
    return np.char.find(table["pair"].astype(str), "tenfold") >= 0


def whole(table, estimator):
    """Rows of the whole run by an estimator, without and with the channel's noise."""
    is_whole = (table["round"] == 0) & (table["quantity"] == estimator) & ~is_tenfold(table)
    return table["lower"][is_whole], table["upper"][is_whole]


@pytest.mark.parametrize("name", STUDIES)
def test_of_honest_noise_bounds_lie_below_the_ledger_and_near(play_audited, name):
    """All mechanisms, servers, units, relations and phases; at several rounds the one and the other
    grow."""
    table, _ = play_audited(name)
    assert set(table["verdict"]) == {"within"}
    assert set(table["half"]) == {"canaries"}
    (lower, *_), (upper, *_) = whole(table, "one-run" if name == "poisson" else "normal")
    assert np.isfinite(lower)
    assert (0.5 * min(upper, 60) if name != "poisson" else 0) < lower < upper
    rounds = np.unique(table["round"])
    assert len(rounds) > 2
    noise = STUDIES[name][0][-1]
    views = {"shares": "aggregate", "ring": "aggregate", "central": "model", "banded": "model"}
    assert set(table["view"]) == {views.get(noise, "updates")}


def test_a_canary_has_the_noise_of_the_row_whose_place_it_takes(play_audited, monkeypatch):
    """Rows of one UE to several models have samples of their own, on which the noise of a claimed
    sensitivity hangs."""
    states = []
    usual = canaries.tabulate_canaries
    monkeypatch.setattr(
        canaries, "tabulate_canaries", lambda *args: states.append(args) or usual(*args)
    )
    play_audited("claims", seed=6)
    ((_, table, spends, _),) = states
    own_row = (spends["ue"] == table[0, 1]) & (spends["unit"] == "user")
    assert np.ptp(spends["std"][own_row & (spends["round"] == 3)]) > 0.1
    for number in np.unique(table[:, 0]):
        booked = spends["std"][own_row & (spends["round"] == number)]
        drawn = table[table[:, 0] == number, 5:].std(axis=1)[: len(booked)]
        np.testing.assert_allclose(drawn, booked, rtol=0.2)


@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(100), marks=pytest.mark.slow)])
def test_of_honest_runs_at_most_one_in_a_hundred_alarms(play_audited, seeds):
    """By any estimator, at any place, after any round."""
    options = {"learning.audit.canaries": 60}
    tables = [play_audited("central", seed=seed, **options)[0] for seed in seeds]
    assert sum("violated" in table["verdict"] for table in tables) <= 1


def faulty(part, monkeypatch, half, wrong):
    """Plant a fault: `wrong` gets the usual method and its arguments."""
    usual = getattr(part, half)
    monkeypatch.setattr(part, half, lambda self, *args: wrong(usual, self, *args))


def quieter(usual, self, *args):
    """Half the noise, and all of it booked."""
    done = usual(self.model_copy(update={"noise_multiplier": 0.5}), *args)
    return *done[:2], [replace(spend, std=2 * spend.std) for spend in done[2]]


def test_half_the_noise_is_found(play_audited, monkeypatch):
    """At the server, in shares, in the ring, and on UEs: what is proven exceeds the ledger."""

    for part, half, name in (
        (CentralGaussian, "finish", "central"),
        (CentralGaussian, "finish", "banded"),
        (DistributedGaussian, "protect", "shares"),
        (Skellam, "protect", "skellam"),
    ):
        with monkeypatch.context() as patch:
            faulty(part, patch, half, quieter)
            table, _ = play_audited(name)
        assert "violated" in table["verdict"], name


def test_shares_by_the_number_of_all_in_place_of_those_that_open_a_sum_are_found(
    play_audited, monkeypatch
):
    """Of 16 that are asked 3 open a sum: it then has a root of 3/16 of the noise."""

    def by_all(usual, self, updates, local, facts, state, rng):
        return usual(self, updates, local, replace(facts, least_opened=16), state, rng)

    faulty(DistributedGaussian, monkeypatch, "protect", by_all)
    table, _ = play_audited("shares")
    assert "violated" in table["verdict"]


def test_a_clip_that_one_phase_skips_is_found_by_the_canary_of_ten_times_its_norm(
    play_audited, monkeypatch
):
    """The one of the norm itself cannot see it."""

    def skip_noise(usual, self, updates, *args):
        clipped, *rest = usual(self, updates, *args)
        if updates.phase == "heights":
            clipped = updates.scale_rows(np.ones(len(updates.ue)), clipped.bound)
        return clipped, *rest

    faulty(Clip, monkeypatch, "protect", skip_noise)
    table, _ = play_audited("phases")
    tenfold = is_tenfold(table)
    assert set(table["verdict"][~tenfold]) == {"within"}
    assert "violated" in table["verdict"][tenfold]


def test_a_coin_that_is_used_twice_is_found(play_audited, monkeypatch):
    """That of the round before, of another model, and of another UE."""
    usual = Rng.normal

    def draw_from_before(self, law, *args, **options):
        if law == "noise":
            self = replace(self, round=self.round // 2 * 2)
        return usual(self, law, *args, **options)

    def draw_from_one(self, law, owner, *args, **options):
        return usual(self, law, np.zeros_like(owner) if law == "noise" else owner, *args, **options)

    for wrong, name in (
        (draw_from_before, "central"),
        (draw_from_one, "models"),
        (draw_from_one, "local"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(Rng, "normal", wrong)
            table, _ = play_audited(name)
        assert "violated" in table["verdict"], (wrong.__name__, name)


def test_a_doubled_sensitivity_is_not_seen(play_audited, monkeypatch):
    """A canary stays within the clip: that its sum moves by more than is booked, neighbours must
    show."""

    def draw_double(usual, self, *args):
        rows, state, spends = usual(self, *args)
        double = [replace(s, sensitivity=s.sensitivity * 2, std=s.std * 2) for s in spends]
        return rows, state, double

    faulty(CentralGaussian, monkeypatch, "finish", draw_double)
    table, _ = play_audited("central")
    assert set(table["verdict"]) == {"within"}


def test_an_interrupted_run_has_the_same_bytes(tiny, tmp_path):
    """Also where it is stopped between rounds: scores are in its checkpoint."""
    study = tiny(build_changes("lapa"))
    run_in_two(study, tmp_path / "two", lambda event: event.done == 2)
    run(study, tmp_path / "one")
    assert (tmp_path / "one/audit.csv").read_bytes() == (tmp_path / "two/audit.csv").read_bytes()
    assert set(read_record_table(tmp_path / "one", "audit")["round"]) == {0, 1, 2, 3, 4}


def test_a_study_is_the_same_beside_canaries(tiny, tmp_path):
    """Canaries draw from streams of their own, and nothing of them is merged: all other tables keep
    their bytes."""
    for name, options in (("with", {}), ("without", {"learning.audit": None})):
        run(tiny(build_changes("skellam") | options), tmp_path / name)
    for name in ("rounds", "spends", "updates", "privacy", "final"):
        expected = (tmp_path / f"without/{name}.csv").read_bytes()
        assert (tmp_path / f"with/{name}.csv").read_bytes() == expected


def test_what_canaries_cannot_test_is_refused_in_one_line(play_audited, tiny):
    fed = {"learning.server": {"kind": "fedbuff", "buffer": 3}, "world.radio.dynamic_uplink": {}}
    with raises(BadInput, match="audit: no noise here has an epsilon"):
        tiny({"learning.audit": {}, "learning.defenses": [PARTS["clip"]]})
    with raises(BadInput, match="audit: canaries in secure sums need rounds"):
        play_audited("shares", **fed)
    with raises(BadInput, match="an update has 51; take 25 or fewer"):
        play_audited("central", **{"learning.learner": {"kind": "rsrp-net", "hidden": [6, 4]}})


def test_a_violated_run_says_so_and_ends_with_1(tiny, tmp_path, monkeypatch, capsys):
    """After everything is written; an honest one ends with 0, and both pages draw the bounds."""
    from scenarios.app.cli.commands import main

    study = tmp_path / "study.yaml"
    study.write_text(tiny(build_changes("central")).model_dump_json())
    assert main(["run", str(study), "--out", str(tmp_path / "honest")]) == 0
    faulty(CentralGaussian, monkeypatch, "finish", quieter)
    assert main(["run", str(study), "--out", str(tmp_path / "planted")]) == 1
    printed = capsys.readouterr().out.replace("\n", " ")
    assert "violated: canaries prove more epsilon of central-gaussian" in printed
    for name in ("honest", "planted"):
        assert 'id="plot-bounds"' in (tmp_path / name / "report.html").read_text()
    assert read_json(tmp_path / "planted/summary.json")["audit.central-gaussian.violated"] > 0
