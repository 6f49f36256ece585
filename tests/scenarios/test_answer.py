"""The answer of a comparison: what counts as prevented, kept and measured, ties and missing values included."""

import numpy as np
import pytest

from scenarios.app.results.comparison_text import answer
from scenarios.app.results.standing import distances, homes, membership, nearest, strongest, utility


def named(home, attack="span", chance=1.0, day=None, **more):
    return {
        f"attack.{attack}.centroid_error_m.median": None,
        f"attack.{attack}.home_named_within_near.percent": home, f"attack.{attack}.homes.count": 40,
        f"attack.{attack}.home_named_within_near.day.median": day,
        f"attack.{attack}.home_named_within_near.shuffled.percent": chance,
        "baseline.uniform.home_named_within_near.percent": chance, "leakage.near_m": 100, **more,
    }  # fmt: skip


def model(rmse, constant=18.0, **more):
    return {"utility.rmse_db": rmse, "utility.constant_rmse_db": constant, "utility.useful": True, **more}


def lines(**labels):
    return dict(answer({name: [run] if isinstance(run, dict) else run for name, run in labels.items()}))


@pytest.mark.parametrize(
    ("share", "chance", "ues", "prevented"),
    [
        (5.0, 1.7, 40, True),  # 2 of 40: the interval begins at 1.4 %
        (5.0, 1.3, 40, False),
        (5.0, 1.7, 120, False),  # 6 of 120 are more than chance
        (33.3, 16.7, 6, False),  # few UEs prove nothing: twice chance is far from it
        (20.0, 16.7, 5, True),
        (0.0, 0.0, 40, True),
    ],
)
def test_a_share_is_prevented_where_it_may_be_chance(share, chance, ues, prevented):
    run = named(share, chance=chance) | {"attack.span.homes.count": ues}
    assert homes([run]).prevented is prevented


def test_the_ues_of_all_seeds_count_together():
    run = named(5.0, chance=1.7) | {"attack.span.homes.count": 40}
    assert homes([run]).prevented and not homes([run] * 3).prevented


def test_chance_is_its_largest_kind_and_no_attack_may_be_above_it():
    run = named(3.0, chance=1.0) | {"baseline.others.home_named_within_near.percent": 3.0}
    assert homes([run]).prevented and homes([run]).chance == "3 %"
    assert not homes([run | named(50.0, "votes")]).prevented


def test_the_figure_is_that_of_the_attack_in_the_table():
    """The strongest names both places of most UEs, even where another one names more homes."""
    both = "attack.{}.both_named_within_near.percent"
    run = named(50.0) | named(60.0, "votes") | {both.format("span"): 40.0, both.format("votes"): 10.0}
    assert strongest([run]) == "span" and homes([run]).attack == "span" and homes([run]).figure == "50 %"


def test_means_are_over_the_seeds_that_have_a_value():
    seeds = [named(10.0), named(30.0), {"attack.span.centroid_error_m.median": None}]
    assert homes(seeds).amount == 20.0
    assert homes([{"attack.span.centroid_error_m.median": 5.0}]) is None


@pytest.mark.parametrize(
    ("error", "sw1", "prevented"),
    [(500.0, 90.0, True), (499.0, 90.0, False), (500.0, 89.0, False), (None, 90.0, True), (600.0, None, True)],
)
def test_distances_are_prevented_where_no_nearer_than_guesses(error, sw1, prevented):
    run = {
        "attack.a.centroid_error_m.median": error, "attack.a.sw1_m.mean": sw1, "attack.a.diverged.percent": 0.0,
        "baseline.area_centre.error_m.median": 500.0, "baseline.random_guess.sw1_m.q05": 90.0,
    }  # fmt: skip
    assert distances([run]).prevented is prevented


def test_an_error_that_diverged_is_infinitely_far():
    run = {
        "attack.a.centroid_error_m.median": None, "attack.a.diverged.percent": 100.0,
        "baseline.area_centre.error_m.median": 500.0,
    }  # fmt: skip
    assert distances([run]).prevented and distances([run]).figure == "∞ m"
    assert distances([run | {"attack.a.diverged.percent": 0.0}]) is None


@pytest.mark.parametrize(("low", "prevented"), [(0.5, True), (0.51, False), (None, False)])
def test_membership_is_prevented_where_the_interval_reaches_a_half(low, prevented):
    assert membership([{"membership.m.auc.last": 0.6, "membership.m.auc.low": low}]).prevented is prevented


@pytest.mark.parametrize(("rmse", "kept"), [(17.9, True), (18.0, False), (None, False), (5000.0, False)])
def test_a_map_is_kept_below_the_error_of_a_constant(rmse, kept):
    assert utility([model(rmse)]).kept is kept
    assert utility([model(10.0), model(None)]).kept is False  # one that is not finite has no mean
    assert utility([model(5000.0)]).figure == "RMSE > 1000 dB"


def test_a_run_that_measured_nothing_has_not_diverged_and_is_not_among_the_seeds():
    nothing = {"utility.rmse_db": None, "utility.constant_rmse_db": None}
    found = utility([model(10.0), nothing, model(12.0)])
    assert found.kept and found.figure == "RMSE 11 dB (2 of 3 seeds)" and utility([nothing]) is None


def test_other_models_have_their_own_figure():
    images = {"utility.accuracy_percent": 11.0, "utility.constant_accuracy_percent": 11.0}
    assert utility([images]).kept is False and utility([images | {"utility.accuracy_percent": 12.0}]).kept
    assert utility([{"utility.rank_correlation": 0.3, "utility.useful": True}]).kept
    assert utility([{"utility.rank_correlation": 0.3, "utility.useful": False}]).kept is False
    assert utility([{"ues.count": 3}]) is None


def test_the_answer_of_a_sweep_with_homes():
    said = lines(
        open=named(97.0, chance=1.7, day=1.0) | model(10.7, **{"utility.central_rmse_db": 8.8}),
        sum=named(3.0, chance=1.7) | model(10.7),
        noise=named(2.0, chance=1.7) | model(25.0) | {"privacy.noise.epsilon.max": 9.2},
        half=named(51.0, chance=1.7) | model(11.0),
    )
    assert list(said) == ["What is known", "What prevents it", "What it costs"]
    assert said["What is known"] == (
        "With “open” the server names the home of 97 % of UEs within 100 m, half of them since day 1 (chance 1.7 %)."
    )
    assert said["What prevents it"] == (
        "“sum” (3 % of homes, RMSE 10.7 dB). Without a useful model: “noise” (2 % of homes, but RMSE 25 dB: no better "
        "than a constant)."
    )
    assert said["What it costs"] == (
        "“open”: RMSE 10.7 dB (a constant: 18 dB, trained centrally 8.8 dB). “sum”: the same error; “noise”: no useful "
        "model, epsilon 9.2."
    )


def test_where_nothing_prevents_it_the_least_is_said():
    said = lines(open=named(97.0) | model(10.0), half=named(51.0) | model(11.0))
    assert said["What prevents it"] == (
        "None of the other variants: least is found with “half” (51 % of homes, RMSE 11 dB); chance 1 %."
    )
    assert said["What it costs"].endswith("“half”: 10 % more error.")


def test_where_only_useless_models_prevent_it_the_best_useful_one_is_said_too():
    said = lines(open=named(97.0) | model(10.0), lost=named(1.0) | model(20.0), half=named(51.0) | model(9.0))
    assert said["What prevents it"] == (
        "Only without a useful model: “lost” (1 % of homes, but RMSE 20 dB: no better than a constant). Of useful "
        "models least is found with “half” (51 % of homes, RMSE 9 dB)."
    )


def test_without_any_useful_model_nothing_is_called_the_price():
    said = lines(open=named(97.0) | model(70.0), other=named(1.0) | model(72.0))
    assert said["What prevents it"] == (
        "No variant has a useful model, and those that find no more than chance are: “other” (1 % of homes, but RMSE "
        "72 dB: no better than a constant)."
    )
    assert said["What it costs"] == (
        "“open”: no useful model, RMSE 70 dB (a constant: 18 dB). “other”: no useful model either (RMSE 72 dB)."
    )


def test_a_reference_at_chance_or_without_a_value_is_said():
    assert "no more than chance" in lines(open=named(1.0), other=named(50.0))["What is known"]
    said = lines(open={"ues.count": 2}, other=named(50.0))["What is known"]
    assert said.startswith("With “open” nothing was measured; with “other” the server names")


def test_without_homes_the_error_stands_beside_a_guess():
    centre = {"baseline.area_centre.error_m.median": 508.0}
    said = lines(
        a=centre | {"attack.x.centroid_error_m.median": 220.0}, b=centre | {"attack.x.centroid_error_m.median": 600.0}
    )
    assert (
        said["What is known"]
        == "With “a” the server places UEs 220 m from where they are, in the median (a guess: 508 m)."
    )
    assert said["What prevents it"] == "“b” (600 m off)."


def test_without_attacks_models_are_compared_and_without_anything_nothing():
    said = lines(a=model(9.0), b=model(19.0), c=model(12.0))
    assert said["What is known"] == "Nothing was attacked, so nothing is said of leakage."
    assert said["The models"] == "Best with “a”: RMSE 9 dB (a constant: 18 dB); worst with “b”: RMSE 19 dB."
    assert said["Not better than a constant"] == "“b”."
    assert lines(a={"ues.count": 1})["The models"].startswith("Nothing was held out")


def test_equal_labels_have_no_worst():
    assert lines(a=model(9.0), b=model(9.0))["The models"] == "Best with “a”: RMSE 9 dB (a constant: 18 dB)."


def test_radio_studies_say_signal_and_handovers():
    def radio(sinr, rate):
        return {"radio.sinr_db.median": sinr, "radio.rsrp_dbm.q05": -110.0, "handover.per_ue_hour": rate}

    said = lines(low=radio(3.0, None), high=radio(9.0, 2.0))
    assert said == {
        "Signal and interference": "Median SINR highest with “high” (9 dB), lowest with “low” (3 dB).",
        "Coverage": "RSRP that 95 % of samples exceed -110 dBm with every label.",
        "Handovers": "“high”: handovers 2 a UE and hour.",
    }


def test_a_measure_that_the_strongest_attack_lacks_is_shown_of_another():
    from scenarios.app.results import summary_keys as keys

    far, near = "attack.far.centroid_error_m.median", "attack.near.centroid_error_m.median"
    runs = [named(90.0) | {far: 300.0, near: 20.0}]
    assert nearest(runs, keys.ERROR_MEDIAN) == "near" and nearest(runs, keys.ERROR_MEDIAN, most=True) == "far"
    assert nearest([named(90.0)], keys.ERROR_MEDIAN) == ""
    assert np.isnan(homes([named(90.0)]).since_day)
