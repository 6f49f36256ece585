"""Secure aggregation in groups: who is summed with whom, what the uplink loses, and which sums are
opened."""

import json
from pathlib import Path

import numpy as np
import pytest
from fl_values import build_updates, read_changes, read_rows, read_table
from interrupted import run_in_two
from noticed import lines as lines_of
from noticed import of_run
from pytest import approx, raises
from tabled import cases

from fl.attacks.threat import Threat
from fl.defenses.clip import AdaptiveClip
from fl.learners.rsrp_net import RsrpNet
from fl.round import merge
from fl.round import server as server_of_runs
from fl.types import Model, Received
from netsim.errors import BadInput
from netsim.rng import Streams
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table
from scenarios.app.run.setup import prepare_run
from scenarios.app.study.describe import build_model
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import parse_document

parametrize = pytest.mark.parametrize

N = 11


def view(threat, decoded):
    """Two rows each of N UEs, update of UE u and model m: 10 u + m, weight 1 / (1 + u)."""
    ue = np.repeat(np.arange(N), 2)
    model = np.tile([0, 1], N)
    updates = build_updates((10.0 * ue + model)[:, None], ue, model)
    has_arrived = np.isin(ue, decoded)
    models = Model(np.zeros((2, 1))), Model(np.zeros((2, 1)))
    is_targeted = np.ones(2 * N, dtype=bool)
    rng = Streams(0).derive_rng("threat", 1)
    weights = np.where(has_arrived, 1.0 / (1 + ue), 0.0)
    return threat.grant_view(
        None, "all", Received(updates, has_arrived), weights, is_targeted, models, rng, None, None
    )


def list_sums(seen):
    """Members of each sum and its value, by model 0."""
    return {
        tuple(seen.ue[(seen.source == k)].tolist()): float(seen.update[k, 0])
        for k in np.flatnonzero(seen.source_model == 0)
    }


def list_groups(threat, ue, n_ue=N, round_=1, seed=0):
    streams = Streams(seed)
    rngs = streams.derive_rng("threat", round_), streams.derive_rng("threat.company")
    return threat.group_ues(np.asarray(ue), n_ue, *rngs)


def test_groups_are_drawn_before_the_uplink_loses_updates():
    """An update that is lost is missing in its own sum, and changes no other."""
    threat = Threat(observes="aggregate", secagg_group_size=3)
    whole = list_sums(view(threat, range(N)))
    rest = list_sums(view(threat, np.delete(range(N), 4)))
    (sent_by_ue,) = [members for members in whole if 4 in members]
    left = tuple(u for u in sent_by_ue if u != 4)
    assert len(sent_by_ue) in (3, 5)
    assert rest.keys() == (whole.keys() - {sent_by_ue}) | {left}
    assert rest[left] == approx(whole[sent_by_ue] - 40 / 5)
    assert all(rest[members] == whole[members] for members in whole.keys() - {sent_by_ue})


def test_a_sum_is_that_of_its_members_and_all_models_of_a_ue_go_into_one_group():
    seen = view(Threat(observes="aggregate", secagg_group_size=2), [u for u in range(N) if u != 3])
    groups = [frozenset(seen.ue[seen.source == k].tolist()) for k in range(len(seen.update))]
    assert all(groups.count(g) == 2 for g in groups)
    assert frozenset().union(*groups) == {*range(N)} - {3}
    for k, m in enumerate(seen.source_model):
        assert (seen.model[seen.source == k] == m).all()
        expected = sum((10 * u + m) / (1 + u) for u in groups[k])
        assert seen.update[k, 0] == approx(expected)
    with raises(ValueError, match="secagg_group_size: needs observes: aggregate"):
        Threat(secagg_group_size=3)


@parametrize("n", [1, 5, 6, 7, 11, 40])
@parametrize("groups", ["random", "fixed"])
def test_groups_have_their_size_and_the_last_one_what_is_left(n, groups):
    threat = Threat(observes="aggregate", secagg_group_size=3, groups=groups)
    group = list_groups(threat, np.arange(n), n)
    assert sorted(np.bincount(group)) == ([3] * (n // 3 - 1) + [3 + n % 3] if n >= 6 else [n])


def test_fixed_company_is_the_same_whoever_comes_and_random_company_is_not():
    fixed = Threat(observes="aggregate", secagg_group_size=4, groups="fixed")
    random = Threat(observes="aggregate", secagg_group_size=4, groups="random")
    whole = list_groups(fixed, np.arange(40), 40)
    few_ues = np.arange(0, 40, 3)
    assert (list_groups(fixed, few_ues, 40, round_=9) == whole[few_ues]).all()
    assert (list_groups(fixed, np.arange(40), 40, seed=1) != whole).any()
    first, second = (list_groups(random, np.arange(40), 40, round_=t) for t in (1, 2))
    together = np.equal.outer(first, first)
    assert (together & np.equal.outer(second, second)).sum() < together.sum() / 2


# --- runs
# ----------------------------------------------------------------------------------------

LOSSY = read_changes("""
world.radio.uplink:
  kind: noma
  rate: {kind: shannon}
  bandwidth_hz: 400
  decoding: error-free
  sic_residual: 0.01
world.ues.training_s_per_sample: 0.3
world.ues.count: 9
learning.round_s: 10
learning.data: {kind: measured, cell: all}
""")
SERVERS = read_changes("""
rounds: {learning.server: {kind: synchronous, deadline_s: 6}}
over-selection:
  learning.server: {kind: synchronous, merge_after_updates: 5, deadline_s: 15}
  world.radio.dynamic_uplink: {}
fedbuff:
  learning.server: {kind: fedbuff, buffer: 4, deadline_s: 8}
  world.radio.dynamic_uplink: {}
fedasync: {learning.server: {kind: fedasync}, world.radio.dynamic_uplink: {}}
""")


def sum_rows(server, **threat):
    return LOSSY | SERVERS[server] | {"learning.threat": {"observes": "aggregate", **threat}}


def read_sums(folder):
    return [read_table(folder, name) for name in ("sums", "updates", "estimates")]


@parametrize(
    "server, groups", [("rounds", "random"), ("over-selection", "fixed"), ("fedbuff", "fixed")]
)
def test_of_a_sum_that_is_not_opened_nothing_is_seen_or_merged(tiny, tmp_path, server, groups):
    size = 2 if server == "fedbuff" else 3
    threshold = 3 if server == "rounds" else 2
    threat = {"secagg_group_size": size, "secagg_threshold": threshold, "groups": groups}
    run(tiny(sum_rows(server, **threat)), tmp_path)
    sums, updates, estimates = read_sums(tmp_path)
    assert (sums.opened == (sums.decoded >= threshold)).all()
    assert (sums.decoded <= sums.ues).all()
    assert sums.opened.any()
    assert (sums.decoded[sums.opened == 0] > 0).any()
    # others waited in vain
    has_arrived = updates[(updates.decoded == 1) & updates["round"].isin(sums["round"])]
    per_round = has_arrived.groupby("round").size()
    assert (sums.groupby("round").decoded.sum().loc[per_round.index] == per_round).all()
    merged = has_arrived[has_arrived.weight > 0]
    opened = sums[sums.opened == 1].groupby("round").decoded.sum()
    expected = opened.loc[merged["round"].unique()]
    assert (merged.groupby("round").size() == expected).all()
    seen = set(zip(estimates["round"], estimates.ue, strict=True))
    in_merge = set(zip(merged["round"], merged.ue, strict=True))
    assert seen == in_merge
    if server != "fedbuff":  # there weights fall with staleness
        np.testing.assert_allclose(merged.groupby(["round", "model"]).weight.sum(), 1.0, rtol=1e-6)
    if "world.radio.dynamic_uplink" in SERVERS[server]:
        sent = read_table(tmp_path, "transmissions")
        assert set(zip(sent["round"], sent.ue, strict=True)) >= in_merge
        kept = sent[sent.staleness.notna()]
        assert set(zip(kept["round"], kept.ue, strict=True)) == in_merge


def test_an_interrupted_run_ends_in_the_same_bytes(tiny, tmp_path, table_bytes):
    changes = sum_rows("fedbuff", secagg_group_size=3, secagg_threshold=2, groups="fixed")
    attacks = read_changes("""
    learning.attacks:
    - {kind: span, rank: auto, cell_m: 100}
    - {kind: fused, towns: 0, cell_m: 100}
    world.duration_s: 60
    """)
    study = tiny(changes | attacks)
    run(study, tmp_path / "whole")
    run_in_two(study, tmp_path / "cut", lambda progress: progress.values["time_s"] >= 30)
    assert read_record_table(tmp_path / "whole", "sums")["opened"].any()
    assert table_bytes(tmp_path / "cut") == table_bytes(tmp_path / "whole")


@parametrize(
    ("server", "threshold", "remedy"),
    cases("""
    "rounds", 10, "of 9 UEs; take 9 or fewer"
    "over-selection", 6, "of 5 UEs; take 5 or fewer"
    "fedbuff", 5, "of 4 UEs; take 4 or fewer"
    "fedasync", 2, "of 1 UEs; .* leave it out"
    """),
)
def test_a_sum_that_is_never_opened_is_refused_before_anything_is_written(
    tiny, server, threshold, remedy
):
    with raises(BadInput, match=rf"secagg_threshold: {threshold} updates are never .* {remedy}"):
        prepare_run(tiny(sum_rows(server, secagg_threshold=threshold)), Path())


def test_noise_at_the_server_does_not_go_with_a_threshold(tiny):
    """One UE more or less would take a whole group in or out of the sum."""
    central = read_changes("""
    learning.aggregation: {kind: uniform, clients: 4}
    learning.defenses: [{kind: clip}, {kind: central-gaussian, noise_multiplier: 1.0}]
    learning.threat: {observes: aggregate, secagg_group_size: 2, secagg_threshold: 2}
    """)
    with raises(BadInput, match="one UE may decide whether its whole group is merged"):
        tiny(central)
    tiny(central | {"learning.threat": {"observes": "aggregate", "secagg_group_size": 2}})


STILL = read_changes("""
title: six people who stand still
seed: 1
world:
  first_day: '2026-01-05'
  duration_s: 900
  tick_s: 10
  city: {kind: open-field, width_m: 1000, height_m: 800}
  base_stations: [{name: west, position_m: [250, 400]}, {name: east, position_m: [750, 400]}]
  ues: {count: 6, mobility: {kind: static}, measurement_period_s: 30}
  radio: {shadowing: {kind: correlated}}
learning:
  round_s: 300
  data: {kind: measured}
  attacks: [{kind: closed-form}]
  learner:
    kind: rsrp-net
    profile: useful
    hidden: [16]
    local_epochs: 1
    public_rsrp_mean_dbm: -80
    public_rsrp_std_db: 10
  references: {central: false, kriging_samples: 0}
""")


def stand_still(**threat):
    """The study of them, of an attacker who sees sums."""
    learning = STILL["learning"] | {"threat": {"observes": "aggregate", **threat}}
    return build_model(Study, parse_document(json.dumps(STILL | {"learning": learning}), "still"))


PAIRS = {"secagg_group_size": 2, "groups": "fixed"}


@parametrize("threat", [PAIRS, PAIRS | {"groups": "random"}, PAIRS | {"secagg_group_size": 3}, {}])
@parametrize("threshold", [None, 2])
def test_a_sum_of_a_cell_counts_the_ues_that_measured_it(threat, threshold, tmp_path):
    """A threshold holds in each sum of a group and a model: of one UE none is opened, seen or
    merged."""
    summary = run(stand_still(secagg_threshold=threshold, **threat), tmp_path)
    sums, updates, estimates = read_sums(tmp_path)
    assert sums.ues.sum() == len(updates) == 18
    assert (sums.decoded == sums.ues).all()
    assert (sums.opened == (sums.decoded >= (threshold or 1))).all()
    single = 100 * (sums.decoded == 1).mean()
    assert summary["sums.single.percent"] == approx(single)
    assert summary["sums.unopened.percent"] == approx(single if threshold else 0)
    expected = sums.decoded[sums.opened == 1].sum()
    assert (updates.weight > 0).sum() == expected
    exact = estimates[(estimates.quantity == "centroid")].merge(
        updates, on=["round", "ue"], suffixes=("", "_true")
    )
    away_m = np.hypot(exact.x_m - exact.selected_x_m, exact.y_m - exact.selected_y_m)
    n_exact = exact.ue[away_m < 1e-6].nunique()
    assert n_exact <= (0 if threshold else (sums.decoded == 1).sum())
    warned = [text for text in lines_of(of_run(tmp_path)) if "of one UE" in text]
    assert len(warned) == (single > 0)
    assert all(("opens none" in text) == bool(threshold) for text in warned)
    if threat == PAIRS:
        assert single == approx(80)
        assert threshold or n_exact == 4


# --- what is counted and opened, recomputed row by row
# ------------------------------------------------------

UNIFORM = {"learning.aggregation": {"kind": "uniform", "clients": 9}}
NOISE = read_changes("""
none: {}
shares:
  learning.defenses:
  - &clip {kind: clip, norm: 1.0, relation: add-remove}
  - &shares {kind: distributed-gaussian, noise_multiplier: 2.0}
ring: {learning.defenses: [*clip, {kind: skellam, noise_multiplier: 2.0}]}
bits:
  learning.defenses:
  - {kind: adaptive-clip, norm: 1.0, relation: add-remove, noise: shares}
  - *shares
""")
OPTIONS = read_changes("""
net: {}
buffered: {learning.server.staleness_exponent: 0}
map:
  world.ues.measure: all
  learning.learner: {kind: radio-map, cell_m: 25}
  learning.data: {kind: links, memory: round}
  learning.attacks: []
  world.radio.uplink.bandwidth_hz: 4000
""")


@parametrize(
    "server, options, noise, size, threshold, groups",
    read_rows("""
    rounds  net      none   3    2    fixed
    rounds  net      none   None 3    random
    rounds  net      none   3    None random
    rounds  net      shares 3    2    fixed
    rounds  net      shares None 4    random
    rounds  net      ring   None 3    random
    rounds  net      bits   4    2    random
    rounds  map      none   3    3    fixed
    rounds  map      shares 3    2    random
    fedbuff buffered none   2    2    fixed
    fedbuff buffered shares None 3    random
    """),
)
def test_every_sum_of_a_group_and_a_model_is_counted_opened_and_hidden_by_itself(
    tiny, tmp_path, monkeypatch, server, options, noise, size, threshold, groups
):
    """Whatever is learnt, by any server: a sum holds what its own UEs sent, is opened with enough
    of them, and has the noise of so many shares; of others nothing is merged, seen, or counted in
    the clip norm.
    """
    seen = []
    views = []
    bits = []

    def group_ues(phase, uploads):
        seen.append((phase, in_groups(phase, uploads)))
        return seen[-1][1]

    def watch_attack(phase, step, states):
        views.append((step.uploads.weight, attack(phase, step, states)))
        return views[-1][1]

    def move_rows(part, state, excess, largest):
        bits.append(largest)
        return norm_moved(part, state, excess, largest)

    in_groups = merge.group_uploads
    attack = server_of_runs.run_attacks
    norm_moved = AdaptiveClip._adapt_norm
    monkeypatch.setattr(merge, "group_uploads", group_ues)
    monkeypatch.setattr(server_of_runs, "run_attacks", watch_attack)
    monkeypatch.setattr(AdaptiveClip, "_adapt_norm", move_rows)
    threat = {"secagg_group_size": size, "secagg_threshold": threshold, "groups": groups}
    weights = {} if noise == "none" else UNIFORM
    study = tiny(sum_rows(server, **threat) | OPTIONS[options] | weights | NOISE[noise])
    summary = run(study, tmp_path)
    rows = []
    for (phase, uploads), (weights, attacks) in zip(seen, views, strict=True):
        sum_of_row = {}
        for i in range(len(uploads.ue)):
            sum_of_row.setdefault((int(uploads.group[i]), int(uploads.made.model[i])), []).append(i)
        has_arrived = uploads.channel.decoded
        merged = set()
        for (group, _), seen_ues in sorted(sum_of_row.items()):
            heard = [i for i in seen_ues if has_arrived[i]]
            assert len({int(uploads.ue[i]) for i in seen_ues}) == len(seen_ues)
            is_opened = len(heard) >= (threshold or 1)
            counts = len(seen_ues), len(heard), is_opened
            rows.append((phase.facts.round, phase.name, group, *counts))
            if not is_opened:
                continue
            merged |= set(heard)
            if noise == "shares":  # of each of at least `least` rows N(0, (z c)^2 / least)
                clip = 1 / np.maximum(uploads.made.norm(), 1.0)
                clipped = uploads.made.scale_rows(clip, None).rows(seen_ues)
                std = np.std(uploads.sent.rows(seen_ues) - clipped)
                assert std == approx(2.0 / np.sqrt(threshold), rel=0.5)
        assert {*np.flatnonzero(uploads.to_received().decoded)} == merged
        assert {*np.flatnonzero(weights)} == merged
        view = attacks.view
        if not phase.learning.attacks:  # nothing is looked at
            continue
        observed = {(int(u), int(m)) for u, m in zip(view.ue, view.model, strict=True)}
        expected = {(int(uploads.ue[i]), int(uploads.made.model[i])) for i in merged}
        assert observed == expected
        expected = sorted(n for *_, n, opened in rows[-len(sum_of_row) :] if opened)
        assert sorted(np.bincount(view.source)) == expected
    recorded = read_table(tmp_path, "sums").drop(columns="time_s")
    assert list(recorded.itertuples(index=False, name=None)) == rows
    *_, decoded, opened = np.array(rows, object).T
    assert opened.any()
    assert summary["sums.single.percent"] == approx(100 * np.mean(decoded == 1))
    unopened_percent = 100 - 100 * opened.mean()
    assert summary["sums.unopened.percent"] == approx(unopened_percent)
    assert noise != "bits" or min(bits) >= threshold


@parametrize("threshold", [None, 2])
def test_an_update_that_overflowed_is_no_company(threshold, tmp_path, monkeypatch):
    """It is sent as zeros: the sum of two of which one overflowed is the update of the other."""
    local = RsrpNet.train_locally

    def overflowing(*arguments):
        updates = local(*arguments)
        return updates.scale_rows(np.where(updates.ue == 0, np.inf, 1.0), None)

    monkeypatch.setattr(RsrpNet, "train_locally", overflowing)
    with np.errstate(invalid="ignore"):
        run(stand_still(secagg_threshold=threshold), tmp_path)
    sums, updates, _ = read_sums(tmp_path)
    is_finite = np.isfinite(updates.norm.astype(float))
    assert list(sums.decoded) == list(is_finite.groupby([updates["round"], updates.model]).sum())
    assert (sums.ues > sums.decoded).any()
    assert (sums.opened == (sums.decoded >= (threshold or 1))).all()
    expected = sums.decoded[sums.opened == 1].sum()
    assert (updates.weight > 0).sum() == expected
