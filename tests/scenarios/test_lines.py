"""The lines of results, of one run and over seeds; the map by day and by place, beside the law of
three numbers."""

import math

import pytest
from rows import read_cells, read_yaml
from screens import sweep_lines
from tabled import cases

from scenarios.app.report.compare_page import draw_tradeoff
from scenarios.app.results.shown import COLUMNS, build_headline, group_by_label
from scenarios.app.results.summary import _collect_list_scores, is_good_map
from scenarios.app.results.table import (
    _pool_interval,
    build_lines,
    find_model_verdict,
    format_group_row,
)

RUN = read_yaml("""
    leakage.hit_radius_m: 100.0, utility.rmse_db: 11.2, utility.constant_rmse_db: 19.7,
    utility.central_rmse_db: 9.05, attack.span.home_located.percent: 97.5,
    attack.span.homes.count: 40, attack.fit.home_located.percent: 10.0,
    attack.fit.homes.count: 40, baseline.uniform.home_located.percent: 1.7,
    attack.span.home_located.shuffled.percent: 1.1, attack.span.centroid_error_m.median:
    null, attack.fit.centroid_error_m.median: 220.0, attack.span.diverged.percent: 100.0,
    baseline.area_centre.error_m.median: 508.0,
    attack.fit.centroid_error_m.less_baseline.mean: -280.0,
    attack.fit.centroid_error_m.less_baseline.low: -300.0,
    attack.fit.centroid_error_m.less_baseline.high: -260.0, attack.fit.sw1_m.mean: 298.0,
    baseline.random_guess.sw1_m.q05: 260.0, baseline.random_guess.sw1_m.q95: 400.0,
    baseline.true_centroids.sw1_m.mean: 301.0, uplink.sinr_db.median: -9.78,
    uplink.latency_s.median: 3.13
""")


MEMBERSHIP = """
    membership.loss.auc.last: 0.6, membership.loss.auc.low: 0.55, membership.loss.auc.high: 0.65
"""


def show_lines(summaries):
    return {
        line.title: (line.result, line.baseline, line.verdict, line.attack)
        for line in build_lines(summaries)
    }


def test_lines_of_a_run():
    assert show_lines([RUN]) == {
        "map RMSE, dB": ("11.2", "constant 19.7, centralised 9.05", "good", ""),
        "centroid error, m": ("220", "map centre 508", "found", "fit"),
        "SW1, m": ("298", "random guesses 260-400, true centroids 301", "inconclusive", "fit"),
        "homes within 100 m": ("39/40 [87.1, 99.6 %]", "chance 1.1-1.7 %", "found", "span"),
    }
    assert format_group_row([RUN], "uplink") == "SINR (median) -9.78 dB, latency (median) 3.13 s"
    assert format_group_row([RUN], "uploads") == ""
    assert find_model_verdict(build_lines([RUN])) == "good"


NOISY = "attacks: [{kind: span}], defenses: [{kind: clip}, {kind: gaussian}]"
SUMS = "attacks: [{kind: span}], threat: {observes: aggregate, pseudonyms: {kind: permanent}}"
NOTHING_FOUND = """
    utility.rmse_db: 20.0, attack.span.home_located.percent: 0.0,
    attack.fit.home_located.percent: 0.0, attack.fit.centroid_error_m.median: null
"""
HEADLINES = """
"", "attacks: [1]", ["Good map (RMSE 11.2 dB; guessing 19.7 dB).",
    "Found: homes 39 of 40 (chance at most 1.7 %), centroid error 220 m (map centre 508 m); "
    "inconclusive: error over all positions.", "Nothing protects the updates."]
"$nothing", "$sums", ["Map not useful (RMSE 20 dB; guessing 19.7 dB).",
    "No attack has found anything; inconclusive: homes, centroid error, "
    "error over all positions.", "No privacy guarantee: only sums of updates."]
"privacy.gaussian.epsilon.max: 9.2", "$noisy", ["Privacy guarantee: epsilon (gaussian) 9.2."]
"privacy.gaussian.epsilon.max: 21.0", "$noisy",
    ["No meaningful guarantee: epsilon (gaussian) 21."]
"privacy.gaussian.epsilon.max: null", "$noisy",
    ["No meaningful guarantee: epsilon (gaussian) ∞."]
"", "$noisy, curation: [{kind: farthest-batch}], request_policy: {kind: 'off'}",
    ["No privacy guarantee: only farthest-batch, clip, gaussian."]
"""
"""changes of the run, settings of learning, and the last sentences"""


@pytest.mark.parametrize(
    "changes, learning, message", cases(HEADLINES, nothing=NOTHING_FOUND, sums=SUMS, noisy=NOISY)
)
def test_the_headline_of_a_run(changes, learning, message):
    lines = build_lines([RUN | read_yaml(changes)])
    result = [text for _, text in build_headline(lines, read_yaml(learning))]
    assert result[-len(message) :] == message


def test_headlines_without_attacks_of_images_and_of_the_radio():
    """Nothing that was not measured is judged."""

    def tell(summary, learning):
        """Tell the sentences of the headline."""
        lines = build_lines([read_yaml(summary)])
        return [text for _, text in build_headline(lines, read_yaml(learning))]

    message = tell(
        "utility.accuracy_percent: 92.4, utility.constant_accuracy_percent: 10.1",
        "defenses: [{kind: top-k}]",
    )
    assert message[0] == "Useful classifier (accuracy 92.4 %; guessing 10.1 %)."
    assert message[1:] == ["No attack was played.", "No privacy guarantee: only top-k."]
    radio = read_yaml("""
        radio.rsrp_dbm.median: -113.0, radio.sinr_db.median: 5.73, radio.samples: 400
    """)
    [(_, text)] = build_headline(build_lines([radio]), {}, radio)
    assert text == "400 samples of the radio, medians: RSRP -113 dBm, SINR 5.73 dB."
    assert tell(MEMBERSHIP, "membership: {kind: test}")[1] == "Found: membership AUC 0.6."
    message = tell("utility.rank_correlation: 0.1", "attacks: [{kind: wave}]")
    assert message[:2] == [
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
    share, day = build_lines([run])
    assert (share.attack, day.attack, day.value) == ("span", "span", 6.0)
    text = dict(build_headline([share, day], {"attacks": [1]}, run))["leakage"]
    assert text.startswith(
        "Found, of few UEs: places of most time 3 of 3 (chance at most 3 %). No home: 3 UEs ("
    )
    assert text.endswith(
        "2 with fewer than 3 nights, 1 without a place of most nights); the place of most time "
        "counts instead, and no workplace is scored."
    )


def test_of_one_ue_the_headline_has_figures_where_nothing_is_found():
    run = {"attack.span.home_located.percent": 0.0, "attack.span.homes.count": 1}
    run |= {"baseline.uniform.home_located.percent": 3.0}
    text = dict(build_headline(build_lines([run]), {"attacks": [1]}, run))["leakage"]
    assert text == (
        "No attack has found anything; inconclusive: homes 0 of 1 (chance at most 3 %)."
    )


def test_lines_over_seeds():
    """A share is of the UEs of all seeds, anything else a mean with its range."""
    none = RUN | read_yaml(NOTHING_FOUND) | {"utility.rmse_db": 11.2}
    assert show_lines([none])["homes within 100 m"][2] == "inconclusive"
    assert show_lines([none] * 3)["homes within 100 m"][0::2] == ("0/120 [0, 3.1 %]", "at chance")
    # the largest of its kinds of chance
    town = RUN | {"attack.span.home_located.shuffled.percent": 90.0}
    assert show_lines([town])["homes within 100 m"][1:3] == ("chance 1.7-90 %", "inconclusive")
    assert show_lines([RUN, (RUN | {"utility.rmse_db": 21.2})])["map RMSE, dB"][0::2] == (
        "16.2 [11.2, 21.2]",
        "useful",
    )


def test_membership_is_held_against_the_model_before_training():
    result = read_yaml(MEMBERSHIP)
    assert show_lines([result])["membership AUC"][0::2] == ("0.6 [0.55, 0.65]", "found")
    result |= read_yaml("""
        membership.loss.auc_difference.last: 0.0, membership.loss.auc_difference.low: -0.04,
        membership.loss.auc_difference.high: 0.04, membership.loss.auc_before.last: 0.6
    """)
    assert show_lines([result])["membership AUC"][1:3] == ("before training 0.6", "at chance")


def test_an_epsilon_of_moved_locations_is_that_within_the_hit_radius():
    """20 within 100 m are 0.2 per metre."""
    judged = [
        show_lines([{"leakage.hit_radius_m": 100.0} | {"privacy.geo.epsilon_per_m.max": e}])[
            "epsilon (geo), 1/m"
        ][2]
        for e in (0.19, 0.21)
    ]
    assert judged == ["", "no meaningful guarantee"]


@pytest.mark.parametrize(
    "law_db, verdict",
    cases("""
11.3, "good"
11.1, "useful"
None, "good"
"""),
)
def test_a_good_map_beats_the_law_of_three_numbers_where_only_days_are_scored(law_db, verdict):
    assert show_lines([RUN | {"utility.path_loss_rmse_db": law_db}])["map RMSE, dB"][2] == verdict


def test_a_rate_is_in_megabits():
    rate = read_yaml("""
        radio.rate_bps.median: 45.9e+6, radio.rate_bps.q05: 7.57e+6, radio.rate_bps.q95: 88e+6
    """)
    assert show_lines([rate])["rate, Mbit/s"][0] == "45.9 [7.57, 88]"


# -- a map by day and by place

FIGURES = ("rmse_db", "path_loss_rmse_db", "rmse_db.place", "path_loss_rmse_db.place")


def score_map(*four, **options):
    own_rows = dict(zip(FIGURES, four, strict=True))
    rest = read_yaml("constant_rmse_db: 19.0, useful: true, place.blocks: 64")
    rest |= own_rows | options | {"good": is_good_map(own_rows)}
    return {f"utility.{k}": v for k, v in rest.items()}


@pytest.mark.parametrize(
    "four, good",
    [
        ((8.6, 13.9, 14.0, 13.8), True),  # by place within 0.2 dB
        ((8.6, 13.9, 14.1, 13.8), False),
        ((14.0, 13.9, 12.0, 13.8), False),
        ((8.6, float("nan"), 12.0, 13.8), None),
    ],
)
def test_a_good_map_beats_the_law_by_day_and_is_no_worse_by_place(four, good):
    assert is_good_map(dict(zip(FIGURES, four, strict=True))) is good
    assert is_good_map({"rmse_db": 8.6, "path_loss_rmse_db": 13.9}) is None


def test_a_map_of_few_held_out_blocks_is_inconclusive_with_every_error():
    """By blocks alone: the rule of shares of few UEs, 12, over the mean of all seeds."""
    for n, words in (([3, 20], "Map inconclusive"), ([11, 13], "Good map"), ([12], "Good map")):
        runs = [score_map(8.0, 13.9, 8.0, 13.8, **{"held_out.blocks": k}) for k in n]
        [(_, text), *_] = build_headline(build_lines(runs), {"attacks": []}, runs[0])
        assert text.startswith(words)
        assert ("; held-out blocks: 3, fewer than 12)" in text) == (n[0] == 3)


def test_both_scores_stand_beside_the_law_and_a_map_that_adds_nothing_is_not_good():
    more = read_yaml("""
        kriging_rmse_db: 7.4, kriging_rmse_db.place: 13.3, constant_rmse_db.place: 19.1
    """)
    good, worse = (
        build_lines([score_map(8.6, 13.9, place, 13.8, **more)]) for place in (14.0, 15.7)
    )
    assert [(item.title, item.result, item.verdict) for item in good] == [
        ("map RMSE, dB", "8.6", "good"),
        ("map RMSE by place, dB", "14", "useful"),
    ]
    assert good[1].baseline == "constant 19.1, three-number law 13.8, kriging 13.3"
    assert [item.verdict for item in worse] == ["useful", "useful"]


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
    assert (text.count("chance 66.7 %"), text.count("chance 1.7 %")) == (1, 2)
    assert all(f" {cell} " in text for cell in ("1.7-66.7 %", "6,726", "7.14"))
    chances = [
        values["y"]
        for values in draw_tradeoff(group_by_label(rows)).figure["data"]
        if values["name"] == "baseline: chance"
    ]
    assert chances == [[1.7, 1.7], [66.7, 66.7]]
    assert "and no variant hides more; most with “none” (39 of 40)" in " ".join(
        sweep_lines(rows[::-1][0:1] + rows[:1])
    )
    message = " ".join(
        " ".join(
            sweep_lines([(label, run | {"attack.span.homes.count": 3}) for label, run in rows[:2]])
        ).split()
    )
    assert (
        "(2 of 3; map RMSE 11.2 dB; not proven, the 95 % intervals overlap; few: 3 UEs)" in message
    )


NOISE = "privacy.gaussian.epsilon.max"
TIED = [
    ("less noise", {NOISE: 20852.0}, {}),
    ("better model", {"utility.rmse_db": 11.3}, {"utility.rmse_db": 11.2}),
    ("better model", {NOISE: 9.0, "utility.rmse_db": 11.3}, {NOISE: 2.0, "utility.rmse_db": 11.2}),
    ("larger epsilon", {NOISE: 2.0}, {NOISE: 9.0, "utility.rmse_db": 11.2001}),
    ("useful", {"utility.rmse_db": 25.0}, {NOISE: 2.0, "utility.rmse_db": 12.0}),
    ("as written", {}, {}),
]


@pytest.mark.parametrize("why, worse, better", TIED)
def test_a_tie_goes_to_less_noise_then_to_the_better_model(why, worse, better):
    hidden = RUN | {"attack.span.home_located.percent": 10.0}
    tied = [("worse", hidden | worse), ("better", hidden | better)]
    for rows in (tied, tied[::-1]):
        text = " ".join(" ".join(sweep_lines([("none", RUN), *rows])).split())
        first = rows[0][0] if why == "as written" else "better"
        assert f"fewest with “{first}” (4 of 40" in text


def test_what_does_not_fit_a_terminal_is_named_below_the_table():
    named = {f"attack.span.{item}_located.percent": 50.0 for item in ("work", "both")}
    named |= {f"attack.span.{item}.count": 40 for item in ("workplaces", "commuters")}
    named |= {f"attack.span.{item}_located.shuffled.percent": 2.5 for item in ("work", "both")}
    rows = [
        ("largest noise that keeps the map", RUN | named),
        ("b", RUN | named | {"privacy.geo.epsilon.max": 9.0}),
    ]
    rows[1][1]["attack.span.home_located.shuffled.percent"] = 5.0
    messages = sweep_lines(rows)
    assert max(map(len, messages)) <= COLUMNS
    assert messages[-1] == "also on the page: SW1"
    words = {word for line in messages for word in line.split()}
    assert (
        set(
            *read_cells("workplaces  within  centroid  epsilon  constant  found  20/40  1.7-5  220")
        )
        <= words
    )


def test_seeds_of_a_trace_are_the_same_people():
    """Twelve seeds of one person are no twelve people, as they are of a town that is drawn anew."""
    key = "attack.span.home_located"
    drawn = read_yaml(f"""
        {key}.percent: 100.0, attack.span.homes.count: 1,
        baseline.uniform.home_located.percent: 3.0
    """)
    traced = drawn | {"homes.none": 0}

    def find_share(runs):
        """Find the line of the share."""
        (line,) = (item for item in build_lines(runs) if item.key.startswith(key))
        return line.hits, line.n, line.verdict_text

    assert find_share([drawn] * 12) == (12, 12, "found")
    *person, verdict = find_share([traced] * 12)
    assert person == [1, 1]
    assert verdict != "found"
    mixed = [
        traced | {"attack.span.homes.count": 4, f"{key}.percent": p} for p in (100.0, 50.0, 75.0)
    ]
    assert find_share(mixed)[:2] == (3, 4)


def test_an_interval_over_seeds_is_that_of_a_mean_of_independent_figures():
    """Half widths 2 and 4 of two seeds: sqrt(4 + 16) / 2 around the mean of their values; of one
    seed its own."""
    runs = [
        read_yaml("x.mean: 10.0, x.low: 9.0, x.high: 13.0"),
        read_yaml("x.mean: 20.0, x.low: 16.0, x.high: 24.0"),
    ]
    half = 20**0.5 / 2
    assert _pool_interval([*runs, {"x.mean": 1.0}], "x") == pytest.approx((15 - half, 15 + half))
    assert _pool_interval(runs[:1], "x") == (9.0, 13.0)
    assert all(map(math.isnan, _pool_interval([], "x")))


def test_scores_of_lists_are_those_of_the_attack_and_of_chance_about_participants():
    """Chance knows neither those who take part nor those aside, so it is said once."""
    rows = cases("""
"span", "span", "participants", 40.0, 30.0
"span", "span", "aside", 10.0, 20.0
"uniform", "", "participants", 5.0, 7.0
"uniform", "", "aside", 6.0, 8.0
""")
    names = read_cells("source  attack  residents  precision_percent  coverage_percent")[0]
    result = _collect_list_scores(dict(zip(names, zip(*rows, strict=True), strict=True)), 150.0)
    assert set(result) == {"span", ""}
    assert set(result["span"]) == {"list"}
    assert set(result[""]) == {"list", "lists"}
    own_rows = read_yaml("""
        participants: 40.0, participants covered: 30.0, aside: 10.0, aside covered: 20.0
    """)
    assert result["span"]["list"] == own_rows
    assert result[""]["list"] == {"uniform": 5.0}
