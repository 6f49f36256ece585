"""Servers: what they have in common where nothing takes time, and the weights of stale updates."""

import numpy as np
import pandas as pd
import pytest

from netsim.errors import BadInput
from scenarios.app.result import run

AT_ONCE = {"world.duration_s": 360, "world.ues.count": 6, "world.radio.dynamic_uplink": {}}


def rows(folder, table, numbers):
    """Rows of the first rounds, as text."""
    every = pd.read_csv(folder / f"{table}.csv", dtype=str)
    return every[every["round"].astype(int) <= numbers].reset_index(drop=True)


def test_a_buffer_of_everybody_without_latency_is_a_synchronous_round(tiny, tmp_path):
    """All are asked at once, all come at once: no staleness, the same weights, the same draws, the
    same bytes.

    Only what was held out in the window, and the score by it, are left out: merges have no window.
    """
    more = {"learning.data": {"kind": "measured", "cell": "all"}}
    more |= {
        "learning.defenses": [
            {"kind": "clip", "norm": 1.0},
            {"kind": "gaussian", "noise_multiplier": 0.1},
        ]
    }
    more |= {"learning.curation": [{"kind": "diverse-batch"}], "world.ues.measurement_period_s": 1}
    run(tiny(AT_ONCE | more), tmp_path / "rounds")
    run(
        tiny(AT_ONCE | more | {"learning.server": {"kind": "fedbuff", "buffer": 6}}),
        tmp_path / "buffer",
    )
    for table in (
        "rounds",
        "updates",
        "estimates",
        "leakage",
        "links",
        "metrics",
        "curation",
        "spends",
    ):
        expected, found = (rows(tmp_path / name, table, 5) for name in ("rounds", "buffer"))
        assert found["round"].nunique() == 5
        windows = ["held_out", "rmse_round_db"]
        pd.testing.assert_frame_equal(
            *(t.drop(columns=windows, errors="ignore") for t in (found, expected))
        )


def test_one_ue_whose_model_replaces_the_global_one_is_federated_averaging(tiny, tmp_path):
    """w <- (1 - 1) w + 1 (w_0 + D) with w_0 = w: the same, however the sum is written."""
    alone = AT_ONCE | {"world.ues.count": 1}
    run(tiny(alone), tmp_path / "rounds")
    mixing = {"kind": "fedasync", "mixing": 1.0}
    run(tiny(alone | {"learning.server": mixing}), tmp_path / "mixed")
    expected, found = (
        rows(tmp_path / name, "rounds", 5)["rmse_db"].astype(float) for name in ("rounds", "mixed")
    )
    assert len(found) == 5
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {
                "learning.defenses": [
                    {"kind": "clip", "norm": 1.0},
                    {"kind": "lapa", "rounds": 5, "initial_noise_std": 1.0},
                ],
                "learning.server": {"kind": "fedasync"},
                "world.radio.dynamic_uplink": {},
            },
            "lapa needs rounds",
        ),
        (
            {
                "learning.membership": {"attacks": [{"kind": "loss-threshold"}]},
                "learning.server": {"kind": "fedasync"},
                "world.radio.dynamic_uplink": {},
            },
            "tested in rounds",
        ),
        (
            {
                "world.radio.uplink": {"kind": "noma", "group_size": 2, "decoding": "error-free"},
                "world.radio.dynamic_uplink": {},
            },
            "group_size",
        ),
    ],
)
def test_what_needs_rounds_or_plans_is_refused_in_one_line(changes, said, tiny):
    with pytest.raises(BadInput, match=said) as error:
        tiny(changes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "server", [{"kind": "fedbuff", "buffer": 7}, {"kind": "synchronous", "merge_after_updates": 7}]
)
def test_a_server_that_waits_for_more_ues_than_there_are_is_refused(server, tiny, tmp_path):
    with pytest.raises(
        BadInput, match=r"learning\.server\.\w+: 7 updates .* of 6 UEs; take 6 or fewer"
    ):
        run(tiny(AT_ONCE | {"learning.server": server}), tmp_path / "run")
    assert not (tmp_path / "run").exists()
