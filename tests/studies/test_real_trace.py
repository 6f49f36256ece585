"""The published campaign, where it is at hand: one target, daily rounds, and what they give
away."""

import json

import pytest

from scenarios.app.cli.commands import main


@pytest.mark.slow
def test_santa_monica_cell(data_folder, tmp_path, capsys):
    trace = data_folder / "rsrp_santamonica_att_2021.csv.gz"
    words = [
        "--published",
        "--cell",
        "850-329",
        "--round",
        "24h",
        "--timezone",
        "America/Los_Angeles",
        "--quiet",
    ]
    assert main(["replay", str(trace), *words, "--out", str(tmp_path / "r")]) == 0
    out = capsys.readouterr().out
    assert "17,819 of 397,428 rows used" in out
    assert "all rows are one target" in out
    both = {}
    for mode in ("dataset", "public"):
        both[mode] = json.loads(
            (tmp_path / "r" / f"standardised-by-{mode}" / "summary.json").read_text()
        )
        assert both[mode]["rounds.played"] == 16
        assert both[mode]["ues.count"] == 1
        assert both[mode]["samples.count"] == 17_819
    # the spread over networks and prototypes is 48-76 m; a factor of 2 around it
    assert 24 < both["dataset"]["attack.closed-form.centroid_error_m.median"] < 152
    assert both["public"]["attack.closed-form.centroid_error_m.median"] < 152
    assert both["dataset"]["attack.closed-form.diverged.percent"] <= 10
    # perfect daily centroids, in the unit of the published figures
    assert abs(both["dataset"]["baseline.true_centroids.sw1_m.mean"] ** 0.5 - 13.9) < 0.4
    assert 18 < both["dataset"]["baseline.random_guess.sqrt_sw1.mean"] < 22.5
