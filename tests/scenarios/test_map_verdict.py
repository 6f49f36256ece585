"""The verdict of a map: by day and by place, beside the law of three numbers; over seeds, in words and tables."""

import pytest

from scenarios.app.results.summary import good_map
from scenarios.app.results.table import lines

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


def test_both_scores_stand_beside_the_law_and_a_map_that_adds_nothing_is_not_good():
    more = {"kriging_rmse_db": 7.4, "kriging_rmse_db.place": 13.3, "constant_rmse_db.place": 19.1}
    good, worse = (lines([run(8.6, 13.9, place, 13.8, **more)]) for place in (14.0, 15.7))
    assert [(one.title, one.result, one.verdict) for one in good] == [
        ("map RMSE, dB", "8.6", "good"), ("map RMSE by place, dB", "14", "useful"),
    ]  # fmt: skip
    assert good[1].baseline == "constant 19.1, three-number law 13.8, kriging 13.3"
    assert [one.verdict for one in worse] == ["useful", "useful"]
