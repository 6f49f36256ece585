"""Servers: what they have in common where nothing takes time, and the weights of stale updates."""

import numpy as np
import pandas as pd
import pytest

from fl.server.fedasync import FedAsync
from fl.server.fedbuff import FedBuff
from netsim.errors import BadInput
from scenarios.app.run.runner import run
from scenarios.app.study.slots import LEGAL, beside

AT_ONCE = {"world.duration_s": 360, "world.ues.count": 6, "world.radio.air": {}}


def rows(folder, table, numbers):
    """Rows of the first rounds, as text."""
    every = pd.read_csv(folder / f"{table}.csv", dtype=str)
    return every[every["round"].astype(int) <= numbers].reset_index(drop=True)


@pytest.mark.parametrize("cell", ["strongest", "all"])
def test_a_buffer_of_everybody_without_latency_is_a_synchronous_round(cell, tiny, tmp_path):
    """All are asked at once, all come at once: no staleness, the same weights, the same draws, the same bytes.

    Only what was held out in the window, and the score by it, are left out: merges have no window.
    """
    more = {"learning.data": {"kind": "measured", "cell": cell}}
    more |= {"learning.defenses": [{"kind": "clip", "norm": 1.0}, {"kind": "gaussian", "noise_multiplier": 0.1}]}
    more |= {"learning.curation": [{"kind": "diverse-batch"}], "world.ues.measure_every_s": 1}
    run(tiny(AT_ONCE | more), tmp_path / "rounds")
    run(tiny(AT_ONCE | more | {"learning.server": {"kind": "fedbuff", "buffer": 6}}), tmp_path / "buffer")
    for table in ("rounds", "updates", "estimates", "leakage", "links", "metrics", "curation", "spends"):
        expected, found = (rows(tmp_path / name, table, 5) for name in ("rounds", "buffer"))
        assert found["round"].nunique() == 5
        windows = ["held_out", "rmse_round_db"]
        pd.testing.assert_frame_equal(*(t.drop(columns=windows, errors="ignore") for t in (found, expected)))


def test_one_ue_whose_model_replaces_the_global_one_is_federated_averaging(tiny, tmp_path):
    """w <- (1 - 1) w + 1 (w_0 + D) with w_0 = w: the same, however the sum is written."""
    alone = AT_ONCE | {"world.ues.count": 1}
    run(tiny(alone), tmp_path / "rounds")
    mixing = {"kind": "fedasync", "mixing": 1.0}
    run(tiny(alone | {"learning.server": mixing}), tmp_path / "mixed")
    expected, found = (rows(tmp_path / name, "rounds", 5)["rmse_db"].astype(float) for name in ("rounds", "mixed"))
    assert len(found) == 5
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_stale_updates_weigh_less():
    late = np.array([0, 1, 3, 8])
    np.testing.assert_allclose(FedBuff(buffer=2).staleness_weight(late), [1, 2**-0.5, 0.5, 1 / 3])
    np.testing.assert_allclose(FedBuff(buffer=2, staleness_exponent=0.0).staleness_weight(late), 1)
    np.testing.assert_allclose(FedAsync().staleness_weight(late), 0.6 * np.array([1, 2**-0.5, 0.5, 1 / 3]))
    np.testing.assert_allclose(FedAsync(mixing=0.5, staleness_exponent=1.0).staleness_weight(late), 0.5 / (late + 1))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"learning.server": {"kind": "fedbuff"}}, "set world.radio.air"),
        ({"learning.defenses": [{"kind": "clip", "norm": 1.0}, {"kind": "lapa", "rounds": 5, "initial_noise_std": 1.0}],
          "learning.server": {"kind": "fedasync"}, "world.radio.air": {}}, "lapa needs rounds"),
        ({"learning.membership": {"attacks": [{"kind": "loss-threshold"}]}, "learning.server": {"kind": "fedasync"},
          "world.radio.air": {}}, "audited in rounds"),
        ({"world.radio.uplink": {"kind": "noma", "group_size": 2, "decoding": "error-free"}, "world.radio.air": {}},
         "group_size"),
    ],
)  # fmt: skip
def test_what_needs_rounds_or_plans_is_refused_in_one_line(changes, said, tiny):
    with pytest.raises(BadInput, match=said) as error:
        tiny(changes)
    assert "\n" not in str(error.value)


def test_the_matrix_asks_every_server_of_every_learner_and_defense():
    """From the first combination with each word that is legal in rounds; one that is not tells nothing."""
    plain = {"data": "measured", "curation": "none", "aggregation": "uniform", "attack": "none"}
    plain |= {"threat": "server sees rows"}
    legal = [
        plain | {"learner": "rsrp-net", "defenses": "clip > gaussian"},
        plain | {"learner": "rsrp-net", "defenses": "clip > central-gaussian"},
        plain | {"learner": "radio-map", "data": "links", "defenses": "none"},
    ]
    verdicts = [(c, LEGAL) for c in legal] + [(legal[0] | {"learner": "density", "defenses": "arb"}, "no bound")]
    for slot, asynchronous in (("defenses", "clip > gaussian"), ("learner", "rsrp-net")):
        served = {(c[slot], c["server"]): verdict for c, verdict in beside(slot, "server", verdicts)}
        words = dict.fromkeys(c[slot] for c in legal)
        assert set(served) == {(word, server) for word in words for server in ("synchronous", "fedbuff", "fedasync")}
        for (word, server), verdict in served.items():
            assert (verdict == LEGAL) == (server == "synchronous" or word == asynchronous), (word, server, verdict)


def test_the_matrix_asks_every_rule_of_withholding_of_every_learner_and_curation():
    plain = {"data": "measured", "learner": "rsrp-net", "defenses": "none", "aggregation": "fedavg", "attack": "none"}
    plain |= {"threat": "server sees rows"}
    verdicts = [(plain | {"curation": kind}, LEGAL) for kind in ("none", "random", "geo-indistinguishable")]
    verdicts.append((plain | {"learner": "image-net", "data": "images", "curation": "none"}, LEGAL))
    for slot, refused in (("curation", "geo-indistinguishable"), ("learner", "image-net")):
        found = {(c[slot], c["withholding"]): verdict for c, verdict in beside(slot, "withholding", verdicts)}
        assert len(found) == len(dict.fromkeys(c[slot] for c, _ in verdicts)) * 5
        for (word, rule), verdict in found.items():
            assert (verdict == LEGAL) == (word != refused or rule not in ("home-zone", "quiet-zones")), (word, rule)


def test_a_buffer_that_can_never_be_full_is_refused(tiny, tmp_path):
    study = tiny(AT_ONCE | {"learning.server": {"kind": "fedbuff", "buffer": 7}})
    with pytest.raises(BadInput, match=r"learning\.server\.buffer: 7 .* of 6 UEs; take 6 or fewer"):
        run(study, tmp_path)


def watched(study, folder):
    """What a run tells while it works."""
    told = []
    run(study, folder, watch=told.append)
    return told


def test_the_last_window_is_told_as_the_last(tiny, tmp_path):
    told = watched(tiny(AT_ONCE | {"learning.server": {"kind": "fedbuff", "buffer": 4}}), tmp_path / "run")
    assert [now.last for now in told] == [False] * (len(told) - 1) + [True]
    assert (told[-1].done, told[-1].values["time_s"], told[-1].values["updates"]) == (told[-1].of, 360.0, 0)
    merges = [now.values["merge"] for now in told]
    assert merges[:-1] == list(range(1, len(told))) == [*dict.fromkeys(merges)]


def test_the_merge_that_is_the_last_wanted_is_told_as_the_last(tiny, tmp_path):
    server = {"learning.server": {"kind": "fedbuff", "buffer": 4}, "learning.rounds": 2}
    told = watched(tiny(AT_ONCE | server), tmp_path / "run")
    assert [(now.values["merge"], now.last) for now in told] == [(1, False), (2, True)]
    assert told[-1].done == told[-1].of


@pytest.mark.parametrize("server", [{"kind": "fedbuff", "buffer": 7}, {"kind": "synchronous", "first": 7}])
def test_a_server_that_waits_for_more_ues_than_there_are_is_refused(server, tiny, tmp_path):
    with pytest.raises(BadInput, match=r"7 updates .* of 6 UEs; take 6 or fewer"):
        run(tiny(AT_ONCE | {"learning.server": server}), tmp_path / "run")
    assert not (tmp_path / "run").exists()
