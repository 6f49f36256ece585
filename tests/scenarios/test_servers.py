"""Servers: what they have in common where nothing takes time, and the weights of stale updates."""

import numpy as np
import pandas as pd
from pytest import mark, raises

from netsim.errors import BadInput
from scenarios.app.study.load import parse_value

AT_ONCE = {"world.duration_s": 360, "world.ues.count": 6, "world.radio.dynamic_uplink": {}}


def rows(folder, table, numbers):
    """Rows of the first rounds, as text."""
    all_rows = pd.read_csv(folder / f"{table}.csv", dtype=str)
    return all_rows[all_rows["round"].astype(int) <= numbers].reset_index(drop=True)


def test_a_buffer_of_everybody_without_latency_is_a_synchronous_round(play_tiny, tmp_path):
    """All are asked at once, all come at once: no staleness, the same weights, the same draws, the
    same bytes.

    Only what was held out in the window, and the score by it, are left out: merges have no window.
    """
    rest = {"learning.data": {"kind": "measured", "cell": "all"}}
    rest |= parse_value(
        "{learning.defenses: [{kind: clip, norm: 1.0}, {kind: gaussian, noise_multiplier: 0.1}]}"
    )
    rest |= parse_value(
        "{learning.curation: [{kind: diverse-batch}], world.ues.measurement_period_s: 1}"
    )
    play_tiny(AT_ONCE | rest, tmp_path / "rounds")
    play_tiny(
        AT_ONCE | rest | {"learning.server": {"kind": "fedbuff", "buffer": 6}}, tmp_path / "buffer"
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
        expected, result = (rows(tmp_path / name, table, 5) for name in ("rounds", "buffer"))
        assert result["round"].nunique() == 5
        windows = ["held_out", "rmse_round_db"]
        pd.testing.assert_frame_equal(
            *(t.drop(columns=windows, errors="ignore") for t in (result, expected))
        )


def test_one_ue_whose_model_replaces_the_global_one_is_federated_averaging(play_tiny, tmp_path):
    """w <- (1 - 1) w + 1 (w_0 + D) with w_0 = w: the same, however the sum is written."""
    alone = AT_ONCE | {"world.ues.count": 1}
    play_tiny(alone, tmp_path / "rounds")
    mixing = {"kind": "fedasync", "mixing": 1.0}
    play_tiny(alone | {"learning.server": mixing}, tmp_path / "mixed")
    expected, result = (
        rows(tmp_path / name, "rounds", 5)["rmse_db"].astype(float) for name in ("rounds", "mixed")
    )
    assert len(result) == 5
    np.testing.assert_allclose(result, expected, rtol=1e-8)


@mark.parametrize(
    "server",
    parse_value("[{kind: fedbuff, buffer: 7}, {kind: synchronous, merge_after_updates: 7}]"),
)
def test_a_server_that_waits_for_more_ues_than_there_are_is_refused(server, play_tiny, out):
    with raises(BadInput, match=r"learning\.server\.\w+: 7 updates .* of 6 UEs; take 6 or fewer"):
        play_tiny(AT_ONCE | {"learning.server": server})
    assert not out.exists()
