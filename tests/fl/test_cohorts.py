"""Cohorts that are kept for several rounds: the same company in every sum."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fl_values import build_local
from noticed import by_key
from tabled import cases

from fl.round.caveats import collect_caveats
from fl.round.collect import sample_ues
from fl.round.learning import Learning
from netsim.errors import BadInput
from netsim.rng import Streams
from scenarios.app.result import run

parametrize = pytest.mark.parametrize

N = 40
LEARNING = {"round_s": 60.0, "learner": {"kind": "rsrp-net"}, "participation": 0.25}
BUSY = {
    "world.duration_s": 720,
    "world.ues.count": 12,
    "learning.participation": 0.5,
    "learning.cohort_rounds": 4,
    "learning.threat": {"observes": "aggregate"},
}
NOISE = [
    {"kind": "clip", "norm": 1.0, "relation": "add-remove"},
    {"kind": "central-gaussian", "noise_multiplier": 1.0},
]
CENTRAL = {
    "learning.defenses": NOISE,
    "learning.sampling": "poisson",
    "learning.aggregation": {"kind": "uniform", "clients": 12, "participation": 0.5},
}


def build_data(ue):
    zeros = np.zeros(len(ue))
    ptr = np.arange(len(ue) + 1)
    return replace(build_local(ue), ptr=ptr, x=np.zeros((len(ue), 2)), y=zeros, time_s=zeros)


def draw_cohort(number, ready=range(N), seed=1, **options):
    learning = Learning.model_validate(LEARNING | options)
    return set(sample_ues(build_data(ready), learning, Streams(seed), number, N).ue.tolist())


def table(folder, name):
    return pd.read_csv(Path(folder) / f"{name}.csv")


@parametrize("sampling", ["fixed", "poisson"])
def test_a_cohort_stays_for_its_rounds_and_is_then_drawn_anew(sampling):
    cohorts = [draw_cohort(number, sampling=sampling, cohort_rounds=7) for number in range(1, 36)]
    for first in range(0, 35, 7):
        assert all(cohort == cohorts[first] for cohort in cohorts[first : first + 7])
    assert len(set(map(frozenset, cohorts))) == 5
    assert sampling == "poisson" or all(len(cohort) == 10 for cohort in cohorts)


@parametrize("sampling", ["fixed", "poisson"])
def test_nobody_takes_the_place_of_one_who_is_away(sampling):
    everybody = draw_cohort(3, sampling=sampling, cohort_rounds=5)
    away = set(range(0, N, 3))
    assert (
        draw_cohort(4, sorted(set(range(N)) - away), sampling=sampling, cohort_rounds=5)
        == everybody - away
    )
    assert (
        draw_cohort(4, sorted(set(range(N)) - everybody), sampling=sampling, cohort_rounds=5)
        == set()
    )


def test_every_ue_has_a_coin_of_its_own():
    sizes = [len(draw_cohort(r, range(400), sampling="poisson")) for r in range(400)]
    assert len(set(sizes)) > 10
    bound = 5 * np.sqrt(400 * 0.25 * 0.75 / 400)
    assert abs(np.mean(sizes) - 100) < bound


@parametrize(("sampling", "share"), [("poisson", 0.8**3), ("fixed", 0.0)])
def test_all_coins_may_say_no(sampling, share):
    """Three UEs, each asked with probability 0.2: nobody in 0.8^3 = 51 % of rounds; a fixed number
    is 1."""
    empty = [
        not draw_cohort(r, range(3), sampling=sampling, participation=0.2) for r in range(2000)
    ]
    assert np.mean(empty) == pytest.approx(share, abs=5 * np.sqrt(0.25 / 2000) * (share > 0))


def test_in_a_run_nobody_sends_for_one_who_is_silent(tiny, tmp_path):
    study = tiny(BUSY | {"learning.withholding": [{"kind": "random-silence", "probability": 0.3}]})
    run(
        study,
        tmp_path,
    )
    senders = table(tmp_path, "updates").groupby("round").ue.agg(frozenset)
    companies = [
        frozenset().union(*silent) for _, silent in senders.groupby((senders.index - 1) // 4)
    ]
    assert len(companies) > 1
    assert max(map(len, companies)) <= 6 < len(frozenset().union(*companies))
    assert senders.nunique() > 3


def test_epsilon_counts_on_no_sampling_where_a_cohort_stays(tiny, tmp_path):
    """Coins that are flipped once for four rounds: a UE that is in is in four times, and its
    epsilon is theirs."""
    busy = BUSY | CENTRAL | {"world.duration_s": 480, "learning.attacks": []}
    plain = busy | {"learning.cohort_rounds": 1}
    everybody = {
        "learning.participation": 1,
        "learning.aggregation": {"kind": "uniform", "clients": 12},
    }
    for name, study in (("anew", plain), ("kept", busy), ("all", plain | everybody)):
        run(tiny(study), tmp_path / name)
    epsilon = {
        name: table(tmp_path / name, "privacy").epsilon.max() for name in ("anew", "kept", "all")
    }
    assert epsilon["anew"] < epsilon["kept"] == pytest.approx(epsilon["all"], rel=1e-9)
    assert set(table(tmp_path / "kept", "spends").sampling_rate) == {1.0}
    kept = by_key(collect_caveats(tiny(busy).learning, False))
    anew = by_key(collect_caveats(tiny(plain).learning, False))
    key = "sampling-not-independent"
    assert key not in anew
    assert "cohort_rounds: who is drawn stays for 4 rounds" in kept[key]


@parametrize(
    ("share", "near"),
    cases("""
    0.9, "0.5"
    1.0, "0.5"
    0.3, "0.333333"
    0.22, "0.2"
    """),
)
def test_shares_that_cannot_take_turns_are_refused_with_one_that_can(share, near, tiny):
    cyclic = {"learning.sampling": "cyclic", "learning.participation": share}
    with pytest.raises(BadInput, match=rf"not one over a whole number from 2.* take {near}$"):
        tiny(cyclic)
    tiny(cyclic | {"learning.participation": float(near)})
