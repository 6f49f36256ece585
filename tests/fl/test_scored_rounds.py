"""Which rounds are compared with the truth: not those in which names are new, nor those in which
nobody was heard."""

import numpy as np
import pandas as pd
import pytest

from scenarios.app.result import run

ROUND_S = 21_600
DAYS = {
    "world.duration_s": 3 * 86_400,
    "world.tick_s": 900,
    "world.ues.measurement_period_s": 1800,
    "learning.round_s": ROUND_S,
    "learning.attacks": [{"kind": "closed-form"}],
}
LIVING = DAYS | {
    "world.ues.mobility": {"kind": "resident"},
    "world.city": {"kind": "town"},
    "learning.attacks": [{"kind": "span"}],
}
ONCE_A_DAY = {"learning.withholding": [{"kind": "daily-limit", "updates": 1}]}


def names_of(rounds, **more):
    """Names that last so many rounds."""
    return {
        "learning.threat": {"pseudonyms": {"kind": "every", "period_s": rounds * ROUND_S, **more}}
    }


def each(k):
    return {"learning.leakage.every_rounds": k}


@pytest.mark.parametrize(
    ("k", "changes", "rounds"),
    [
        (5, {}, [1, 5, 10, 12]),
        (5, names_of(4), [1, 8, 12]),  # names end with rounds 4, 8 and 12
        (2, names_of(3), [1, 3, 4, 6, 9, 10, 12]),  # of 4 and 5 neither ends names
        (5, names_of(4, stagger=True), [1, 5, 10, 12]),  # there never are all names new
        (4, ONCE_A_DAY, [1, 5, 9, 12]),  # who has sent is silent for the rest of the day
        (
            6,
            ONCE_A_DAY | names_of(8),
            [1, 8, 12],
        ),  # names end with 8, when what was said before stands
    ],
)
def test_a_round_of_each_block_is_compared(k, changes, rounds, tiny, tmp_path):
    run(tiny(DAYS | each(k) | changes), tmp_path)
    assert np.unique(pd.read_csv(tmp_path / "leakage.csv")["round"]).tolist() == rounds


@pytest.mark.parametrize("changes", [names_of(5), ONCE_A_DAY | names_of(4)])
def test_what_an_attack_answers_hangs_on_no_choice_of_rounds(changes, tiny, tmp_path):
    """The places named at the end, and in each round that is compared, are those of a run that
    compares all."""
    for k in (1, 4):
        run(tiny(LIVING | changes | each(k)), tmp_path / str(k))
    whole, some = (pd.read_csv(tmp_path / str(k) / "named.csv") for k in (1, 4))
    assert len(whole) > 3
    pd.testing.assert_frame_equal(some, whole)
    keys = ["round", "ue", "model"]
    seen = [f"{place}_{axis}_m" for place in ("named", "second") for axis in "xy"]
    whole, some = (pd.read_csv(tmp_path / str(k) / "leakage.csv") for k in (1, 4))
    whole, some = (t.set_index(keys)[seen] for t in (whole, some))
    pd.testing.assert_frame_equal(some, whole.loc[some.index])


@pytest.mark.parametrize("changes", [{}, LIVING, ONCE_A_DAY])
def test_rounds_before_the_first_are_not_scored_and_their_truth_is_known(changes, tiny, tmp_path):
    for first in (1, 7):
        run(tiny(DAYS | changes | {"learning.leakage.first_round": first}), tmp_path / str(first))
    whole, some = (pd.read_csv(tmp_path / str(first) / "leakage.csv") for first in (1, 7))
    assert some["round"].min() >= 7
    assert whole["round"].min() == 1
    keys = ["round", "ue", "model", "attack"]
    same = (
        ["error_m", "selected_error_m", "named_x_m", "named_y_m", "home_named_m"]
        if "learning.attacks" in changes
        else ["error_m"]
    )
    whole, some = (t.set_index(keys)[[*same, "true_centroids_sw1_m"]] for t in (whole, some))
    pd.testing.assert_frame_equal(some, whole.loc[some.index])
