"""The verdict of a map: by day and by place, beside the law of three numbers; over seeds, in words and tables."""

import pytest

from scenarios.app.results.summary import good_map
from scenarios.app.results.table import lines

FIGURES = ("rmse_db", "path_loss_rmse_db", "rmse_db.place", "path_loss_rmse_db.place")


def run(*four, **more):
    own = dict(zip(FIGURES, four, strict=True))
    rest = {"constant_rmse_db": 19.0, "useful": True, "place.blocks": 64, "good": good_map(own)}
    return {f"utility.{k}": v for k, v in (rest | own | more).items()}


@pytest.mark.parametrize(
    ("four", "good"),
    [
        ((8.6, 13.9, 14.0, 13.8), True),  # by place within 0.2 dB
        ((8.6, 13.9, 14.1, 13.8), False),
        ((14.0, 13.9, 12.0, 13.8), False),
        ((8.6, float("nan"), 12.0, 13.8), None),
    ],
)
def test_a_good_map_beats_the_law_by_day_and_is_no_worse_by_place(four, good):
    assert good_map(dict(zip(FIGURES, four, strict=True))) is good
    assert good_map({"rmse_db": 8.6, "path_loss_rmse_db": 13.9}) is None


def test_both_scores_stand_beside_the_law_and_a_map_that_adds_nothing_is_not_good():
    more = {"kriging_rmse_db": 7.4, "kriging_rmse_db.place": 13.3, "constant_rmse_db.place": 19.1}
    good, worse = (lines([run(8.6, 13.9, place, 13.8, **more)]) for place in (14.0, 15.7))
    assert [(one.title, one.result, one.verdict) for one in good] == [
        ("map RMSE, dB", "8.6", "good"), ("map RMSE by place, dB", "14", "useful"),
    ]  # fmt: skip
    assert good[1].baseline == "constant 19.1, three-number law 13.8, kriging 13.3"
    assert [one.verdict for one in worse] == ["useful", "useful"]
