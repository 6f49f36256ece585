"""The lines of results, of one run and over seeds; the map by day and by place, beside the law of
three numbers."""

import math

import numpy as np
import pytest
from screens import sweep_lines

from scenarios.app.report.compare_page import tradeoff_panel
from scenarios.app.results.shown import COLUMNS, headline, labels_of
from scenarios.app.results.summary import _lists, good_map
from scenarios.app.results.table import _pooled, lines, model_verdict, row

RUN = {
    "leakage.hit_radius_m": 100.0,
    "utility.rmse_db": 11.2,
    "utility.constant_rmse_db": 19.7,
    "utility.central_rmse_db": 9.05,
    "attack.span.home_located.percent": 97.5,
    "attack.span.homes.count": 40,
    "attack.fit.home_located.percent": 10.0,
    "attack.fit.homes.count": 40,
    "baseline.uniform.home_located.percent": 1.7,
    "attack.span.home_located.shuffled.percent": 1.1,
    "attack.span.centroid_error_m.median": None,
    "attack.fit.centroid_error_m.median": 220.0,
    "attack.span.diverged.percent": 100.0,
    "baseline.area_centre.error_m.median": 508.0,
    "attack.fit.centroid_error_m.less_baseline.mean": -280.0,
    "attack.fit.centroid_error_m.less_baseline.low": -300.0,
    "attack.fit.centroid_error_m.less_baseline.high": -260.0,
    "attack.fit.sw1_m.mean": 298.0,
    "baseline.random_guess.sw1_m.q05": 260.0,
    "baseline.random_guess.sw1_m.q95": 400.0,
    "baseline.true_centroids.sw1_m.mean": 301.0,
    "uplink.sinr_db.median": -9.78,
    "uplink.latency_s.median": 3.13,
}


def shown(summaries):
    return {
        line.title: (line.result, line.baseline, line.verdict, line.attack)
        for line in lines(summaries)
    }


def test_lines_of_a_run():
    assert shown([RUN]) == {
        "map RMSE, dB": ("11.2", "constant 19.7, centralised 9.05", "good", ""),
        "centroid error, m": ("220", "map centre 508", "found", "fit"),
        "SW1, m": ("298", "random guesses 260-400, true centroids 301", "inconclusive", "fit"),
        "homes within 100 m": ("39/40 [87.1, 99.6 %]", "chance 1.1-1.7 %", "found", "span"),
    }
    assert row([RUN], "uplink") == "SINR (median) -9.78 dB, latency (median) 3.13 s"
    assert row([RUN], "uploads") == ""
    assert model_verdict(lines([RUN])) == "good"


NOISY = {"attacks": [{"kind": "span"}], "defenses": [{"kind": "clip"}, {"kind": "gaussian"}]}
SUMS = {
    "attacks": [{"kind": "span"}],
    "threat": {"observes": "aggregate", "pseudonyms": {"kind": "permanent"}},
}
NO_HOMES = {"attack.span.home_located.percent": 0.0, "attack.fit.home_located.percent": 0.0}


@pytest.mark.parametrize(
    ("changes", "learning", "said"),
    [
        (
            {},
            {"attacks": [1]},
            [
                "Good map (RMSE 11.2 dB; guessing 19.7 dB).",
                "Found: homes 39 of 40 (chance at most 1.7 %), centroid error 220 m (map centre "
                "508 m); inconclusive: error over all positions.",
                "Nothing protects the updates.",
            ],
        ),
        (
            {"utility.rmse_db": 20.0, **NO_HOMES, "attack.fit.centroid_error_m.median": None},
            SUMS,
            [
                "Map not useful (RMSE 20 dB; guessing 19.7 dB).",
                "No attack has found anything; inconclusive: homes, centroid error, "
                "error over all positions.",
                "No privacy guarantee: only sums of updates.",
            ],
        ),
        (
            {"privacy.gaussian.epsilon.max": 9.2},
            NOISY,
            [..., ..., "Privacy guarantee: epsilon (gaussian) 9.2."],
        ),
        (
            {"privacy.gaussian.epsilon.max": 21.0},
            NOISY,
            [
                ...,
                ...,
                "No meaningful guarantee: epsilon (gaussian) 21.",
            ],
        ),
        (
            {"privacy.gaussian.epsilon.max": None},
            NOISY,
            [
                ...,
                ...,
                "No meaningful guarantee: epsilon (gaussian) ∞.",
            ],
        ),
        (
            {},
            NOISY | {"curation": [{"kind": "farthest-batch"}], "request_policy": {"kind": "off"}},
            [
                ...,
                ...,
                "No privacy guarantee: only farthest-batch, clip, gaussian.",
            ],
        ),
    ],
)
def test_the_headline_of_a_run(changes, learning, said):
    found = [text for _, text in headline(lines([RUN | changes]), learning)]
    assert [text if text is ... else one for one, text in zip(found, said, strict=True)] == said


def test_headlines_without_attacks_of_images_and_of_the_radio():
    """Nothing that was not measured is judged."""
    images = {"utility.accuracy_percent": 92.4, "utility.constant_accuracy_percent": 10.1}
    said = [text for _, text in headline(lines([images]), {"defenses": [{"kind": "top-k"}]})]
    assert said[0] == "Useful classifier (accuracy 92.4 %; guessing 10.1 %)."
    assert said[1:] == ["No attack was played.", "No privacy guarantee: only top-k."]
    radio = {"radio.rsrp_dbm.median": -113.0, "radio.sinr_db.median": 5.73, "radio.samples": 400}
    [(_, text)] = headline(lines([radio]), {}, radio)
    assert text == "400 samples of the radio, medians: RSRP -113 dBm, SINR 5.73 dB."
    found = {
        "membership.loss.auc.last": 0.6,
        "membership.loss.auc.low": 0.55,
        "membership.loss.auc.high": 0.65,
    }
    assert (
        headline(lines([found]), {"membership": {"kind": "test"}})[1][1]
        == "Found: membership AUC 0.6."
    )
    density = {"utility.rank_correlation": 0.1}
    said = [text for _, text in headline(lines([density]), {"attacks": [{"kind": "wave"}]})]
    assert said[:2] == [
        "Density map not useful (rank correlation 0.1).",
        "No result of an attack can be judged.",
    ]


def test_what_few_ues_show_is_said_with_why_they_have_no_home():
    """A day is of the attack of the share above it, not of the one that was first."""
    run = {"homes.none": 3, "homes.few_nights": 2, "baseline.uniform.densest_located.percent": 3.0}
    for name, hits, day in (("span", 100.0, 6), ("fit", 0.0, 2)):
        densest = f"attack.{name}.densest"
        run |= {
            f"{densest}_located.percent": hits,
            f"{densest}.count": 3,
            f"{densest}_located.day.median": day,
        }
    share, day = lines([run])
    assert (share.attack, day.attack, day.value) == ("span", "span", 6.0)
    said = dict(headline([share, day], {"attacks": [1]}, run))["leakage"]
    assert said.startswith(
        "Found, of few UEs: places of most time 3 of 3 (chance at most 3 %). No home: 3 UEs ("
    )
    assert said.endswith(
        "2 with fewer than 3 nights, 1 without a place of most nights); the place of most time "
        "counts instead, and no workplace is scored."
    )


def test_lines_over_seeds():
    """A share is of the UEs of all seeds, anything else a mean with its range."""
    none = RUN | {f"attack.{n}.home_located.percent": 0.0 for n in ("span", "fit")}
    assert shown([none])["homes within 100 m"][2] == "inconclusive"
    assert shown([none] * 3)["homes within 100 m"][0::2] == ("0/120 [0, 3.1 %]", "at chance")
    town = RUN | {
        "attack.span.home_located.shuffled.percent": 90.0
    }  # the largest of its kinds of chance
    assert shown([town])["homes within 100 m"][1:3] == ("chance 1.7-90 %", "inconclusive")
    worse = RUN | {"utility.rmse_db": 21.2}
    assert shown([RUN, worse])["map RMSE, dB"][0::2] == ("16.2 [11.2, 21.2]", "useful")


@pytest.mark.parametrize(
    ("rmse", "verdict"), [(None, "diverged"), (19.7, "not useful"), (2000.0, "diverged")]
)
def test_models_of_no_use(rmse, verdict):
    assert shown([RUN | {"utility.rmse_db": rmse}])["map RMSE, dB"][2] == verdict


def test_membership_is_held_against_the_model_before_training():
    found = {
        "membership.loss.auc.last": 0.6,
        "membership.loss.auc.low": 0.55,
        "membership.loss.auc.high": 0.65,
    }
    assert shown([found])["membership AUC"][0::2] == ("0.6 [0.55, 0.65]", "found")
    ends = {"last": 0.0, "low": -0.04, "high": 0.04}
    more = found | {f"membership.loss.auc_difference.{end}": value for end, value in ends.items()}
    more["membership.loss.auc_before.last"] = 0.6
    assert shown([more])["membership AUC"][1:3] == ("before training 0.6", "at chance")


def test_an_epsilon_of_moved_locations_is_that_within_the_hit_radius():
    """20 within 100 m are 0.2 per metre."""
    run = {"leakage.hit_radius_m": 100.0}
    judged = [
        shown([run | {"privacy.geo.epsilon_per_m.max": e}])["epsilon (geo), 1/m"][2]
        for e in (0.19, 0.21)
    ]
    assert judged == ["", "no meaningful guarantee"]


@pytest.mark.parametrize(("law_db", "verdict"), [(11.3, "good"), (11.1, "useful"), (None, "good")])
def test_a_good_map_beats_the_law_of_three_numbers_where_only_days_are_scored(law_db, verdict):
    assert shown([RUN | {"utility.path_loss_rmse_db": law_db}])["map RMSE, dB"][2] == verdict


def test_a_rate_is_in_megabits():
    rate = {
        f"radio.rate_bps.{end}": value
        for end, value in (("median", 4.59e7), ("q05", 7.57e6), ("q95", 8.8e7))
    }
    assert shown([rate])["rate, Mbit/s"][0] == "45.9 [7.57, 88]"


def test_an_epsilon_that_says_nothing():
    assert [shown([{"privacy.dp.epsilon.max": e}])["epsilon (dp)"][2] for e in (3.0, 21.0)] == [
        "",
        "no meaningful guarantee",
    ]
    assert shown([RUN]).keys().isdisjoint({"epsilon (dp)"})


# -- a map by day and by place

FIGURES = ("rmse_db", "path_loss_rmse_db", "rmse_db.place", "path_loss_rmse_db.place")


def scored(*four, **more):
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
    good, worse = (lines([scored(8.6, 13.9, place, 13.8, **more)]) for place in (14.0, 15.7))
    assert [(one.title, one.result, one.verdict) for one in good] == [
        ("map RMSE, dB", "8.6", "good"),
        ("map RMSE by place, dB", "14", "useful"),
    ]
    assert good[1].baseline == "constant 19.1, three-number law 13.8, kriging 13.3"
    assert [one.verdict for one in worse] == ["useful", "useful"]


def test_a_comparison_states_what_reduces_a_share_with_each_chance_and_breaks_no_word():
    key = "attack.span.home_located"
    sums = {f"{key}.percent": 70.0, f"{key}.shuffled.percent": 66.7}
    noise = {
        f"{key}.percent": 20.0,
        "utility.rmse_db": 25.0,
        "privacy.gaussian.epsilon.max": 6726.0,
    }
    rows = [
        ("none", RUN),
        ("sum of all", RUN | sums),
        ("noise", RUN | noise | {"privacy.geo.epsilon_per_m.max": 7.14}),
    ]
    text = " ".join(" ".join(sweep_lines(rows)).split())
    assert text.startswith(
        "map RMSE: 11.2 dB with “none”, 25 dB with “noise” homes within 100 m: 39 of 40 with "
        "“none”; fewest with “noise” (8 of 40; map RMSE 25 dB instead of 11.2 dB, not useful); "
        "fewest of useful models with “sum of all” (28 of 40; map RMSE 11.2 dB); found with "
        "“none” (39/40), “noise” (8/40); inconclusive with “sum of all” (28/40)"
    )
    assert text.count("chance 66.7 %") == 1
    assert text.count("chance 1.7 %") == 2
    assert " 1.7-66.7 % " in text
    assert " 6,726 " in text
    assert " 7.14 " in text
    chances = [
        of["y"]
        for of in tradeoff_panel(labels_of(rows)).figure["data"]
        if of["name"] == "baseline: chance"
    ]
    assert chances == [[1.7, 1.7], [66.7, 66.7]]
    assert "and no variant hides more; most with “none” (39 of 40)" in " ".join(
        sweep_lines(rows[::-1][0:1] + rows[:1])
    )
    few = [(label, run | {"attack.span.homes.count": 3}) for label, run in rows[:2]]
    said = " ".join(" ".join(sweep_lines(few)).split())
    assert "(2 of 3; map RMSE 11.2 dB; not proven, the 95 % intervals overlap; few: 3 UEs)" in said


def test_what_does_not_fit_a_terminal_is_named_below_the_table():
    named = {f"attack.span.{one}_located.percent": 50.0 for one in ("work", "both")}
    named |= {f"attack.span.{one}.count": 40 for one in ("workplaces", "commuters")}
    named |= {f"attack.span.{one}_located.shuffled.percent": 2.5 for one in ("work", "both")}
    rows = [
        ("largest noise that keeps the map", RUN | named),
        ("b", RUN | named | {"privacy.geo.epsilon.max": 9.0}),
    ]
    rows[1][1]["attack.span.home_located.shuffled.percent"] = 5.0
    told = sweep_lines(rows)
    assert max(map(len, told)) <= COLUMNS
    assert told[-1] == "also on the page: SW1"
    words = {word for line in told for word in line.split()}
    assert {
        "workplaces",
        "within",
        "centroid",
        "epsilon",
        "constant",
        "found",
        "20/40",
        "1.7-5",
        "220",
    } <= words


def test_seeds_of_a_trace_are_the_same_people():
    """Twelve seeds of one person are no twelve people, as they are of a town that is drawn anew."""
    key = "attack.span.home_located"
    drawn = {
        f"{key}.percent": 100.0,
        "attack.span.homes.count": 1,
        "baseline.uniform.home_located.percent": 3.0,
    }
    (town,) = (one for one in lines([drawn] * 12) if one.key.startswith(key))
    assert (town.hits, town.n, town.told) == (12, 12, "found")
    (person,) = (one for one in lines([drawn | {"homes.none": 0}] * 12) if one.key.startswith(key))
    assert (person.hits, person.n) == (1, 1)
    assert person.told != "found"
    mixed = [
        drawn | {"homes.none": 0, "attack.span.homes.count": 4, f"{key}.percent": p}
        for p in (100.0, 50.0, 75.0)
    ]
    (four,) = (one for one in lines(mixed) if one.key.startswith(key))
    assert (four.hits, four.n) == (3, 4)


def test_an_interval_over_seeds_is_that_of_a_mean_of_independent_figures():
    """Half widths 2 and 4 of two seeds: sqrt(4 + 16) / 2 around the mean of their values; of one
    seed its own."""
    runs = [
        {"x.mean": 10.0, "x.low": 9.0, "x.high": 13.0},
        {"x.mean": 20.0, "x.low": 16.0, "x.high": 24.0},
    ]
    half = 20**0.5 / 2
    assert _pooled([*runs, {"x.mean": 1.0}], "x") == pytest.approx((15 - half, 15 + half))
    assert _pooled(runs[:1], "x") == (9.0, 13.0)
    assert all(map(math.isnan, _pooled([], "x")))


def test_scores_of_lists_are_those_of_the_attack_and_of_chance_about_participants():
    """Chance knows neither those who take part nor those aside, so it is said once."""
    scores = {
        "source": np.array(["span", "span", "uniform", "uniform"], dtype=object),
        "attack": np.array(["span", "span", "", ""], dtype=object),
        "residents": np.array(["participants", "aside"] * 2, dtype=object),
        "precision_percent": np.array([40.0, 10.0, 5.0, 6.0]),
        "coverage_percent": np.array([30.0, 20.0, 7.0, 8.0]),
    }
    found = _lists(scores, 150.0)
    assert set(found) == {"span", ""}
    assert set(found["span"]) == {"list"}
    assert set(found[""]) == {"list", "lists"}
    own = {"participants": 40.0, "participants covered": 30.0, "aside": 10.0, "aside covered": 20.0}
    assert found["span"]["list"] == own
    assert found[""]["list"] == {"uniform": 5.0}
