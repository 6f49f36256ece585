"""Attackers who play the training through by themselves: no other record changes, and runs are
resumed to the bit."""

from pytest import mark

from scenarios.app.result import run
from scenarios.app.study.load import parse_value

CLIP = {"kind": "clip", "norm": 1.0}
TRACKER = parse_value("{kind: tracker, shadow_ues: 6, cell_m: 100.0, own_places: true}")
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
        n: [r for r in jobs if not {"tracker", "dwell"} & set(r.split(","))]
        for n, jobs in rows.items()
    }
    return {name: jobs for name, jobs in kept.items() if len(jobs) > 1}


@mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_who_tries_out_changes_no_other_record(settings, tiny, table_bytes, tmp_path):
    for name, rest in (("without", []), ("with", [TRACKER, DWELL])):
        study = tiny(
            {**settings, "learning.attacks": [{"kind": "closed-form"}, {"kind": "span"}, *rest]}
        )
        run(study, tmp_path / name)
    without, extra = (rows_of_others(table_bytes(tmp_path / name)) for name in ("without", "with"))
    assert {"updates.csv", "estimates.csv", "leakage.csv"} <= set(without)
    assert {name: jobs for name, jobs in extra.items() if name in without} == without


@mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_who_tries_out_is_resumed_to_the_bit(settings, tiny, check_resumed):
    study = tiny({**settings, "learning.attacks": [TRACKER, DWELL]})
    check_resumed(study, 1)
