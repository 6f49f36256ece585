"""The verdict of a map: by day and by place, beside the law of three numbers; over seeds, in words and tables."""

import pytest

from scenarios.app.results.comparison_text import answer
from scenarios.app.results.model_text import good_map, model_text
from scenarios.app.results.sweep_table import sweep_lines

FIGURES = ("utility.rmse_db", "utility.path_loss_rmse_db", "utility.rmse_db.place", "utility.path_loss_rmse_db.place")


def run(*four, **more):
    rest = {"utility.constant_rmse_db": 19.0, "utility.useful": True, "utility.place.blocks": 64}
    own = dict(zip(FIGURES, four, strict=True))
    return rest | own | {"utility.good": good_map([own])} | {f"utility.{k}": v for k, v in more.items()}


@pytest.mark.parametrize(("runs", "good"), [
    ([(8.6, 13.9, 14.0, 13.8)], True),  # by place within 0.2 dB
    ([(8.6, 13.9, 14.1, 13.8)], False),
    ([(14.0, 13.9, 12.0, 13.8)], False),
    ([(8.6, None, 14.0, 13.8)], None),
    ([(8.6, 13.9, None, None)], None),
    ([(8.6, float("nan"), 12.0, 13.8)], None),
    ([(8.6, 13.9, 13.0, 13.8), (8.4, 13.7, 13.1, 13.8), (8.5, 14.0, 12.9, 13.8)], True),
    ([(8.6, 13.9, 13.0, 13.8), (8.4, 13.7, 15.1, 13.8), (8.5, 14.0, 11.9, 13.8)], None),  # seeds differ
    ([(8.6, 13.9, 15.0, 13.8), (8.4, 13.7, 15.1, 13.8), (8.5, 14.0, 15.2, 13.8)], False),
    ([(8.6, 13.9, 15.0, 13.8), (8.4, 13.7, None, None), (8.5, 14.0, 15.1, 13.8)], False),  # of two seeds
])  # fmt: skip
def test_a_good_map_beats_the_law_by_day_and_is_no_worse_by_place(runs, good):
    assert good_map([dict(zip(FIGURES, four, strict=True)) for four in runs]) is good


def test_the_text_states_both_scores_and_where_the_network_adds_nothing():
    more = {"kriging_rmse_db": 7.4, "kriging_rmse_db.place": 13.3, "constant_rmse_db.place": 19.1}
    text = model_text(run(8.6, 13.9, 14.0, 13.8, **more))
    assert text.startswith("a good map: RMSE 8.6 dB, 55 % better than a constant; baselines: constant 19 dB, law of")
    assert text.endswith(
        "law of three numbers 13.9 dB, kriging 7.4 dB; by place (64 blocks without training samples): RMSE 14 dB; "
        "baselines: constant 19.1 dB, law of three numbers 13.8 dB, kriging 13.3 dB"
    )
    worse = model_text(run(8.6, 13.9, 15.7, 13.8, **more))
    assert worse.startswith("useful: ") and "RMSE 15.7 dB, so the network adds nothing there; baselines" in worse
    few = model_text({**run(8.6, 13.9, None, None), "utility.place.blocks": 3})
    assert few.startswith("useful: ") and few.endswith(
        "; not scored by place: 3 blocks without training samples held out"
    )


def test_sweeps_and_comparisons_show_both_and_name_good_maps():
    law, good = {"kriging_rmse_db": 7.4, "kriging_rmse_db.place": 13.3}, (8.6, 13.9, 13.0, 13.8)
    runs = [("none", run(*good, **law)), ("noise", run(12.0, 13.9, 17.5, 13.8, **law))]
    lines = sweep_lines(runs)
    assert lines[0].split()[:4] == ["RMSE,", "by", "place,", "below"]
    assert lines[2].split()[:3] == ["none", "8.6", "13"] and lines[3].split()[:3] == ["noise", "12", "17.5"]
    assert lines[4].split()[-2:] == ["13.9", "13.8"] and lines[4].startswith("map: law of three numbers")
    assert lines[5].split() == ["map:", "kriging", "7.4", "13.3"]
    assert "good maps, better than the law and by place no worse: “none”" in " ".join(lines)
    said = dict(answer({label: [one] for label, one in runs}))
    assert said["The models"] == (
        "Best with “none”: RMSE 8.6 dB, 13 dB by place, a good map (a constant: 19 dB; a law of three numbers: 13.9 "
        "dB, 13.8 dB by place); worst with “noise”: RMSE 12 dB, 17.5 dB by place."
    )
    alone = {k: v for k, v in run(*good).items() if "place" not in k}
    assert "by place" not in dict(answer({"a": [alone]}))["The models"] and "by place" not in " ".join(
        sweep_lines([("a", alone)])
    )
