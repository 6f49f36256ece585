"""Attackers who play the training through by themselves: no other record changes, and runs are
resumed to the bit."""

import pytest
from interrupted import run_in_two

from scenarios.app.result import run

CLIP = {"kind": "clip", "norm": 1.0}
TRACKER = {"kind": "tracker", "shadow_ues": 6, "cell_m": 100.0, "own_places": True}
DWELL = {"kind": "dwell", "shadow_ues": 6}
SETTINGS = {
    "optimiser and state of defenses": {
        "learning.defenses": [
            CLIP,
            {"kind": "lapa", "epsilon_system_total": 60.0},
            {"kind": "quantise"},
        ],
        "learning.aggregation": {"kind": "beda"},
        "learning.server_optimiser": {"kind": "fedadam"},
    },
    "sums and curation": {
        "learning.defenses": [CLIP, {"kind": "gaussian", "noise_multiplier": 0.1}],
        "learning.threat": {"observes": "aggregate", "secagg_group_size": 2},
        "learning.curation": [{"kind": "geo-indistinguishable", "epsilon_per_m": 0.01}],
    },
    "without rounds, names change": {
        "learning.defenses": [CLIP],
        "learning.threat": {"pseudonyms": {"kind": "per-round"}},
        "learning.server": {"kind": "fedbuff", "buffer": 2},
        "world.radio.uplink": {"kind": "oma", "bandwidth_hz": 1e6},
        "world.radio.dynamic_uplink": {},
    },
}


def rows_of_others(tables):
    """Rows of all CSVs but those of the attackers, and but tables that only they have."""
    rows = {name: b.decode().splitlines() for name, b in tables.items() if name.endswith(".csv")}
    kept = {
        n: [r for r in some if not {"tracker", "dwell"} & set(r.split(","))]
        for n, some in rows.items()
    }
    return {name: some for name, some in kept.items() if len(some) > 1}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_who_tries_out_changes_no_other_record(settings, tiny, table_bytes, tmp_path):
    for name, more in (("without", []), ("with", [TRACKER, DWELL])):
        study = tiny(
            {**settings, "learning.attacks": [{"kind": "closed-form"}, {"kind": "span"}, *more]}
        )
        run(study, tmp_path / name)
    without, beside = (rows_of_others(table_bytes(tmp_path / name)) for name in ("without", "with"))
    assert {"updates.csv", "estimates.csv", "leakage.csv"} <= set(without)
    assert {name: some for name, some in beside.items() if name in without} == without


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_who_tries_out_is_resumed_to_the_bit(settings, tiny, table_bytes, tmp_path):
    study = tiny({**settings, "learning.attacks": [TRACKER, DWELL]})
    run(study, tmp_path / "whole")
    run_in_two(study, tmp_path / "cut", lambda now: now.done == 1)
    assert table_bytes(tmp_path / "cut") == table_bytes(tmp_path / "whole")
