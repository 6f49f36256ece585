"""Servers without rounds: models against a slow account of the same uploads, and what tables say of
every upload."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from fl_values import read_changes
from fl_values import read_table as table
from numpy.testing import assert_allclose

import fl.round.server as server_of_runs
from scenarios.app.result import run

SLOW = read_changes("""
world.duration_s: 90
world.ues.count: 6
world.ues.training_s_per_sample: 1.0
world.ues.compute_j_per_sample: 0.25
world.radio.uplink:
  kind: noma
  rate: {kind: shannon}
  bandwidth_hz: 100
  decoding: error-free
  sic_residual: 0.01
world.radio.dynamic_uplink: {}
learning.round_s: 10
learning.attacks: [{kind: closed-form, cloud: false}]
""")
"""uploads that last about as long as a window, so that several windows are under way at a time"""
FEDBUFF = {"learning.server": {"kind": "fedbuff", "buffer": 3}}
FEDASYNC = {"learning.server": {"kind": "fedasync", "mixing": 0.7, "staleness_exponent": 0.3}}


# -- the models


@pytest.fixture
def record_calls(monkeypatch):
    """What a run does: `asked`, the phases in which UEs were asked and their data, and the models
    after each merge."""
    requests = []
    models = []
    depart = server_of_runs.prepare_uploads
    merge = server_of_runs.merge_uploads

    def watch_departure(world, phase, local, states):
        requests.append((phase, local))
        return depart(world, phase, local, states)

    def watch_merge(*args):
        result = merge(*args)
        models.append(result.model.parameters)
        return result

    monkeypatch.setattr(server_of_runs, "prepare_uploads", watch_departure)
    monkeypatch.setattr(server_of_runs, "merge_uploads", watch_merge)
    return requests, models


def slow_models(uploads, requests):
    """The models after each merge, one upload after the other: each learns from the model that its
    UE was given."""
    setup = requests[0][0].setup
    learner = setup.learning.learner
    server = setup.learning.server
    first = learner.init(setup.public, setup.streams.derive_rng("learner.init"))
    models = [first.parameters]
    buffer = []
    for upload in uploads[uploads.fate == "arrived"].sort_values(["ended_s", "ue"]).itertuples():
        buffer.append(upload)
        if len(buffer) < (1 if server.kind == "fedasync" else server.buffer):
            continue
        rows = []  # model, samples, base, change, staleness
        for arrived in buffer:
            phase, local = next(
                entry for entry in requests if entry[0].asked_s == arrived.requested_s
            )
            local_of_ue = local.select(local.ue == arrived.ue)
            base = models[phase.version]
            update = learner.train_locally(
                replace(first, parameters=base),
                phase.name,
                local_of_ue,
                phase.streams.derive_learner_rng(phase.name),
            )
            for m, count, change in zip(
                update.model, update.count, update.rows(slice(None)), strict=True
            ):
                rows.append((m, count, base[m], change, len(models) - 1 - phase.version))
        model_now = models[-1]
        new = models[-1].copy()
        for m, count, base, change, stale in rows:
            share = count / sum(row[1] for row in rows if row[0] == m)
            if server.kind == "fedasync":
                mixing = server.mixing / (1 + stale) ** server.staleness_exponent
                new[m] = (1 - mixing) * model_now[m] + mixing * (base + share * change)
            else:
                new[m] = new[m] + share * change / (1 + stale) ** server.staleness_exponent
        models.append(new)
        buffer = []
    return models[1:]


LOSSES = {"client_dropout_per_s": 0.1, "block_s": 1.5, "retransmissions": 1}


@pytest.mark.parametrize(
    ("server", "cells", "air"),
    [
        (FEDBUFF, "all", {}),
        (
            {"learning.server": {"kind": "fedbuff", "buffer": 2, "staleness_exponent": 0.8}},
            "all",
            LOSSES,
        ),
        (FEDASYNC, "strongest", {}),
        (FEDASYNC, "all", LOSSES),
    ],
)
def test_models_are_those_of_a_slow_account_of_the_same_uploads(
    tiny, tmp_path, record_calls, server, cells, air
):
    requests, merged = record_calls
    options = {
        "learning.data": {"kind": "measured", "cell": cells},
        "world.radio.dynamic_uplink": air,
    }
    run(tiny(SLOW | server | options | {"learning.attacks": []}), tmp_path)
    uploads = table(tmp_path, "transmissions")
    slow = slow_models(uploads, requests)
    assert uploads.staleness.max() >= 1
    assert len(slow) == len(merged) > 4
    assert bool(set(uploads.fate) - {"arrived", "under-way"}) == bool(air)  # some are lost
    assert_allclose(merged, slow, rtol=0, atol=1e-9)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_no_more_are_under_way_than_the_server_allows(tiny, tmp_path, concurrency):
    """Whoever is asked counts until its upload has ended, in all windows that follow."""
    long = {
        "world.ues.training_s_per_sample": 8.0,
        "learning.server": {"kind": "fedasync", "concurrency": concurrency},
    }
    run(tiny(SLOW | long | {"world.duration_s": 60, "learning.attacks": []}), tmp_path)
    uploads = table(tmp_path, "transmissions")
    requested_s = uploads.requested_s.to_numpy()
    time_s = np.unique(requested_s)[:, None]
    is_under_way = ~(uploads.ended_s.to_numpy() <= time_s)
    assert (is_under_way & (requested_s <= time_s)).sum(axis=1).max() == concurrency
    # windows begin with others still under way
    assert (is_under_way & (requested_s < time_s)).any() or concurrency == 1


# -- what tables say of every upload

KINDS = read_changes("""
fedbuff: &fedbuff {learning.server: {kind: fedbuff, buffer: 3}}
fedasync: &fedasync {learning.server: {kind: fedasync, mixing: 0.7, staleness_exponent: 0.3}}
deadline: {learning.server: {kind: fedbuff, buffer: 2, deadline_s: 9}}
losses:
  <<: *fedbuff
  world.radio.dynamic_uplink: {client_dropout_per_s: 0.03, block_s: 1.5, retransmissions: 1}
turns:
  <<: *fedbuff
  world.radio.dynamic_uplink: {scheduler: {kind: round-robin}, step_s: 0.5}
one at a time: {learning.server: {kind: fedasync, concurrency: 1}}
cells: {<<: *fedbuff, learning.data: {kind: measured, cell: all}}
some: {<<: *fedbuff, learning.participation: 0.5, learning.sampling: poisson}
three merges: {<<: *fedasync, learning.rounds: 3}
""")


@pytest.fixture(scope="module")
def play_kind(tiny, tmp_path_factory):
    """Folders of runs by name, each played once."""
    folders = {}

    def folder(name):
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp("asynchronous") / "run"
            run(tiny(SLOW | KINDS[name]), folders[name])
        return folders[name]

    return folder


FAST = ("deadline", "fedasync", "fedbuff", "losses")


@pytest.fixture(
    params=[
        kind if kind in FAST else pytest.param(kind, marks=pytest.mark.slow)
        for kind in sorted(KINDS)
    ]
)
def folder(request, play_kind):
    return play_kind(request.param)


@pytest.mark.slow
def test_every_upload_has_one_row_and_a_ue_sends_one_at_a_time(folder):
    uploads = table(folder, "transmissions")
    requests = table(folder, "links")
    key = ["ue", "requested_s"]
    assert not uploads.duplicated(key).any()
    links = requests.rename(columns={"time_s": "requested_s"})
    both = (rows[key].sort_values(key, ignore_index=True) for rows in (uploads, links))
    pd.testing.assert_frame_equal(*both)
    for _, local_of_ue in uploads.sort_values("requested_s").groupby("ue"):
        limit = local_of_ue.requested_s.to_numpy()[1:]
        assert (local_of_ue.ended_s.to_numpy()[:-1] <= limit).all()
    assert not uploads[uploads.staleness.notna()].duplicated(["round", "ue"]).any()


def test_times_follow_one_another(folder):
    uploads = table(folder, "transmissions")
    for earlier, later in pairwise(["requested_s", "ready_s", "granted_s", "ended_s"]):
        assert not (uploads[earlier] > uploads[later]).any()
    assert not (uploads.requested_s > uploads.ended_s).any()
    assert uploads.ready_s[uploads.granted_s.notna()].notna().all()
    assert uploads.ended_s[uploads.fate == "under-way"].isna().all()
    assert uploads.ended_s[uploads.fate == "arrived"].notna().all()


def test_bits_are_conserved_and_energy_is_that_of_training_and_sending(folder):
    uploads = table(folder, "transmissions")
    links = table(folder, "links")
    has_arrived = uploads.fate == "arrived"
    expected = (uploads.bits + uploads.lost_bits)[has_arrived]
    assert_allclose(uploads.sent_bits[has_arrived], expected, rtol=1e-6)
    limit = (uploads.bits + uploads.lost_bits)[~has_arrived] * (1 + 1e-9)
    assert (uploads.sent_bits[~has_arrived] <= limit).all()
    both = links.merge(uploads, left_on=["ue", "time_s"], right_on=["ue", "requested_s"])
    updates = table(folder, "updates")
    trained = updates.groupby(
        ["round", "ue", updates.groupby(["round", "ue", "model"]).cumcount()]
    ).selected.sum()
    # of the uploads of a UE that were lost before one merge
    nth = both.groupby(["round_x", "ue"]).cumcount()
    both["trained"] = trained.loc[list(zip(both.round_x, both.ue, nth, strict=True))].to_numpy()
    whole = 0.25 * both.trained + both.power_w * both.airtime_s.where(
        np.isfinite(both.airtime_s), 0.0
    )
    ready = both.ready_s.notna()
    assert_allclose(both.energy_j[ready], whole[ready], rtol=1e-6)
    assert (both.energy_j[~ready] <= whole[~ready]).all()
    assert np.isfinite(both.energy_j).all()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["uplink.energy_j"] == pytest.approx(links.energy_j.sum(), rel=1e-6)


def test_staleness_is_the_number_of_merges_since_the_version_that_an_update_began_from(folder):
    uploads = table(folder, "transmissions")
    rounds = table(folder, "rounds")
    merged = uploads[uploads.staleness.notna()].merge(
        rounds[["round", "time_s"]], on="round", how="left"
    )
    assert len(merged)
    assert set(merged.fate) == {"arrived"}
    assert (merged.staleness == merged["round"] - 1 - merged.version).all()
    assert (merged.ended_s <= merged.time_s + 1e-6).all()  # cells are rounded
    published_s = np.append(0.0, rounds.time_s)  # of version 0, 1, ...
    assert (published_s[uploads.version] <= uploads.requested_s).all()
    result = np.append(rounds.time_s, np.inf)[uploads.version]
    assert (result >= uploads.requested_s).all()
    assert rounds.time_s.is_monotonic_increasing
    expected = list(range(1, len(rounds) + 1))
    assert list(rounds["round"]) == expected


def test_updates_and_estimates_have_the_times_of_their_own_arrivals(folder):
    uploads = table(folder, "transmissions")
    arrived = uploads[uploads.fate == "arrived"][["round", "ue", "ended_s"]]
    updates = table(folder, "updates").merge(
        uploads[["round", "ue", "requested_s", "ended_s", "fate"]], how="left"
    )
    has_arrived = updates.decoded == 1
    assert (updates.time_s.notna() == has_arrived).all()
    for name in ("updates", "estimates", "leakage"):
        rows = table(folder, name).dropna(subset=["time_s"]).merge(arrived, on=["round", "ue"])
        assert len(rows)
        assert_allclose(rows.time_s, rows.ended_s, rtol=1e-7)


def test_ues_whose_updates_were_lost_are_asked_again(tiny, tmp_path):
    """Nobody makes it within a tenth of a second, and everybody with data is asked in every window
    but the last."""
    hasty = {
        "learning.server": {"kind": "fedbuff", "buffer": 2, "deadline_s": 0.1},
        "world.duration_s": 40,
    }
    run(tiny(SLOW | hasty), tmp_path)
    uploads = table(tmp_path, "transmissions")
    assert set(uploads.fate) == {"late"}
    assert not (tmp_path / "rounds.csv").exists()
    assert (uploads.groupby("requested_s").size() >= 5).all()
    assert set(uploads.requested_s) == {10, 20, 30}


# -- the end of the world


def test_no_upload_arrives_after_the_end(tiny, tmp_path, play_kind):
    """A world that ends half a second before an upload does: that is under way, and in no merge."""
    last = (
        table(play_kind("fedasync"), "transmissions")
        .query("50 < requested_s < 80 and fate == 'arrived'")
        .iloc[-1]
    )
    end_s = float(last.ended_s) - 0.5
    run(tiny(SLOW | FEDASYNC | {"world.duration_s": end_s}), tmp_path)
    uploads = table(tmp_path, "transmissions")
    (local_of_ue,) = uploads[
        (uploads.ue == last.ue) & (uploads.requested_s == last.requested_s)
    ].itertuples()
    assert local_of_ue.fate == "under-way"
    assert (local_of_ue.granted_s, local_of_ue.ready_s) == (last.granted_s, last.ready_s)
    assert (table(tmp_path, "rounds").time_s <= end_s).all()
