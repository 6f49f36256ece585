"""Which rounds are compared with the truth: not those in which names are new, nor those in which
nobody was heard."""

import numpy as np
import pytest
from fl_values import read_changes, read_table
from pandas.testing import assert_frame_equal

from scenarios.app.result import run

ROUND_S = 21_600
DAYS = read_changes("""
world.duration_s: 259_200
world.tick_s: 1800
world.ues.measurement_period_s: 1800
learning.round_s: 21_600
learning.attacks: [{kind: closed-form}]
""")
LIVING = DAYS | read_changes("""
world.ues.mobility: {kind: resident}
world.city: {kind: town}
learning.attacks: [{kind: span}]
""")
ONCE_A_DAY = {"learning.withholding": [{"kind": "daily-limit", "updates": 1}]}


def list_names(rounds, **changes):
    """Names that last so many rounds."""
    names = {"kind": "every", "period_s": rounds * ROUND_S, **changes}
    return {"learning.threat": {"pseudonyms": names}}


def play_each(k):
    return {"learning.leakage.every_rounds": k}


@pytest.mark.parametrize(
    ("k", "changes", "rounds"),
    [
        (5, {}, "1 5 10 12"),
        (5, list_names(4), "1 8 12"),  # names end with rounds 4, 8 and 12
        (2, list_names(3), "1 3 4 6 9 10 12"),  # of 4 and 5 neither ends names
        (5, list_names(4, stagger=True), "1 5 10 12"),  # there never are all names new
        (4, ONCE_A_DAY, "1 5 9 12"),  # who has sent is silent for the rest of the day
        # names end with 8, when what was said before stands
        (6, ONCE_A_DAY | list_names(8), "1 8 12"),
    ],
)
def test_a_round_of_each_block_is_compared(k, changes, rounds, tiny, tmp_path):
    run(tiny(DAYS | play_each(k) | changes), tmp_path)
    compared = np.unique(read_table(tmp_path, "leakage")["round"])
    assert " ".join(map(str, compared)) == rounds


@pytest.mark.parametrize("changes", [list_names(5), ONCE_A_DAY | list_names(4)])
def test_what_an_attack_answers_hangs_on_no_choice_of_rounds(changes, tiny, tmp_path):
    """The places named at the end, and in each round that is compared, are those of a run that
    compares all."""
    for k in (1, 4):
        study = tiny(LIVING | changes | play_each(k))
        run(study, tmp_path / str(k))
    whole = read_table(tmp_path / "1", "named")
    scored = read_table(tmp_path / "4", "named")
    assert len(whole) > 3
    assert_frame_equal(scored, whole)
    keys = ["round", "ue", "model"]
    seen = [f"{place}_{axis}_m" for place in ("named", "second") for axis in "xy"]
    whole = read_table(tmp_path / "1", "leakage")
    scored = read_table(tmp_path / "4", "leakage")
    whole, scored = (t.set_index(keys)[seen] for t in (whole, scored))
    assert_frame_equal(scored, whole.loc[scored.index])


@pytest.mark.parametrize("changes", [{}, LIVING, ONCE_A_DAY])
def test_rounds_before_the_first_are_not_scored_and_their_truth_is_known(changes, tiny, tmp_path):
    for first in (1, 7):
        study = tiny(DAYS | changes | {"learning.leakage.first_round": first})
        run(study, tmp_path / str(first))
    whole = read_table(tmp_path / "1", "leakage")
    scored = read_table(tmp_path / "7", "leakage")
    assert scored["round"].min() >= 7
    assert whole["round"].min() == 1
    keys = ["round", "ue", "model", "attack"]
    same = ["true_centroids_sw1_m", "error_m"]
    if "learning.attacks" in changes:
        same += ["selected_error_m", "named_x_m", "named_y_m", "home_named_m"]
    whole, scored = (t.set_index(keys)[same] for t in (whole, scored))
    assert_frame_equal(scored, whole.loc[scored.index])
