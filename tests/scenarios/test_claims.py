"""Claims of publications: the rules, the three verdicts with their reasons, and the command."""

import json
import re
import shutil
from functools import cache
from math import inf, nan

import numpy as np
import pytest
from conftest import TINY
from pages import read_csv, read_json
from refused import catch_line
from rows import read_cells, read_yaml
from scipy import stats

from netsim.errors import BadInput
from netsim.radio.path_loss import UrbanMacro
from netsim.record import write_json
from scenarios.app.claims.claim import (
    BUNDLED_CLAIMS,
    FAILS,
    HOLDS,
    OPEN,
    UNLIKE,
    MedianBounds,
    Verdict,
    count_seeds_needed,
    read_claims,
    select_claims,
)
from scenarios.app.claims.evaluate import (
    evaluate_claim,
    read_labelled_summaries,
    select_quick_claims,
)
from scenarios.app.cli.commands import main
from scenarios.app.result import run
from scenarios.app.results.statistics import compute_median_interval
from scenarios.app.results.summary_keys import find_measure
from scenarios.app.run import clusters, runner
from scenarios.app.run.executor import OnProcesses, SerialJobs
from scenarios.app.run.sweep import plan_points
from scenarios.app.study.load import list_bundled, load
from scenarios.app.study.study import to_study_yaml

KEY = "attack.closed-form.centroid_error_m.median"
OTHER = "baseline.uniform_guess.error_m.mean"
NAMED = "attack.span.home_located.percent"
CHANCE = "attack.span.home_located.shuffled.percent"


def claim_file(tmp_path, *claims, name="claims.yaml"):
    path = tmp_path / name
    path.write_text(json.dumps({"claims": list(claims)}))
    return path


def entry(rule, **options):
    defaults = read_yaml("""
        id: one, paper: A paper, where: Fig. 1, says: it does, scenario: campus
    """)
    return defaults | {"rule": rule} | options


def claim(tmp_path, kind, value=None, key=KEY, **fields):
    options = {} if value is None else {"value": value}
    return read_claims(
        claim_file(tmp_path, entry({"kind": kind, "key": key, **fields}, **options))
    ).claims[0]


def order(tmp_path, first="a", second="b", **fields):
    """The claim that figures of one label are below those of another."""
    return claim(tmp_path, "order", labels=[first, second], **fields)


def runs(times=1, **labels):
    """label -> figures by seed, so many times each; None diverged."""
    return {
        label: dict(enumerate(map(summarise, list(values) * times)))
        for label, values in labels.items()
    }


def summarise(value):
    """The summary of a run of a useful model with a figure."""
    lost = 90.0 if value is None else 0.0
    summary = {KEY: value, "utility.rmse_db": value, "attack.closed-form.diverged.percent": lost}
    return summary | {OTHER: 50.0, "utility.useful": True}


VERDICTS = """
at-most       bound: 20                            a: [10, 20, 15]                            holds
at-most       bound: 19                            a: [20, 21, 90]                            does not hold
at-most       bound: 30                            a: [10, 11], b: [40, 41]                   does not hold
at-most       bound: 30, labels: [a]               a: [10, 11], b: [40, 41]                   holds
at-most       bound: 30                            a: [null, null]                            does not hold
at-least      bound: 20                            a: [20, 20]                                holds
at-least      bound: 21                            a: [20, 20]                                does not hold
between       bound: 10, upper: 20                 a: [10, 20]                                holds
between       bound: 11, upper: 20                 a: [5, 7]                                  does not hold
between       bound: 11, upper: 20                 a: [5, 25]                                 undecided
exceeds       other: OTHER, margin: 5              a: [55, 60], b: [55, 56]                   holds
exceeds       other: OTHER, margin: 6, labels: [a]  a: [55, 55]                               does not hold
exceeds       other: OTHER                         a: [49, 60]                                undecided
no-more-than  other: OTHER, margin: 5              a: [55, 40], b: [0, 0]                     holds
no-more-than  other: OTHER, margin: 4              a: [55, 55]                                does not hold
no-more-than  other: OTHER                         a: [49, 60]                                undecided
within        value: 15                            a: [14, 16]                                holds
within        value: 15                            a: [20, 21]                                does not hold
within        value: 15                            a: [12, 13]                                does not hold
within        value: 15                            a: [10, 20]                                undecided
order         labels: [a, b, c]                    c: [30, 90], b: [20, 50], a: [10, 40]      holds
order         labels: [a, b, c]                    c: [30, 30], b: [10, 10], a: [10, 10]      does not hold
order         labels: [a, b, c]                    a: [10, 30], b: [20, 20], c: [5, 6]        does not hold
order         labels: [a, b]                       a: [94.9, 93, 95], b: [94.93, 92, 96]      undecided
order         labels: [a, b]                       a: [10, 10, 10], b: [null, null, 20]       holds
curve         labels: [a, b, a, c]                 a: [1, 2], b: [2, 3], c: [3, 2.5]          holds
curve         labels: [a, b, c, a]                 a: [1, 2], b: [2, 3], c: [3, 2.5]          does not hold
ratio         labels: [a, b], bound: 2             a: [40, 4], b: [20, 2]                     holds
ratio         labels: [a, b], bound: 2.1           a: [40, 4], b: [20, 2]                     does not hold
ratio         labels: [a, b], bound: 2.1           a: [40, 5], b: [20, 2]                     undecided
ratio         labels: [a, b], bound: 2             a: [null, null], b: [20, 20]               holds
ratio         labels: [a, b], bound: 2             a: [20, 20], b: [null, null]               does not hold
ratio         labels: [a, b], bound: 2             a: [null, null], b: [null, null]           undecided
alike         labels: [a, b]                       a: [10, 100], b: [10.9, 91]                holds
alike         labels: [a, b]                       a: [10, 100], b: [11.1, 120]               does not hold
alike         labels: [a, b]                       a: [11.1, 120], b: [10, 100]               does not hold
alike         labels: [a, b]                       a: [10, 10], b: [10, 12]                   undecided
diminishing   labels: [a, b, c], share: 0.5        a: [1, 1], b: [3, 4], c: [3.9, 5]          holds
diminishing   labels: [a, b, c], share: 0.5        a: [1, 1], b: [3, 4], c: [4.1, 6]          does not hold
diminishing   labels: [a, b, c], share: 0.5        a: [1, 1], b: [1, 1], c: [1, 1]            does not hold
"""
"""kind of a rule, its settings, figures by label and seed, played eight times over, and the verdict;
seeds are paired; no gain diminishes nothing"""


@pytest.mark.parametrize("kind, fields, values, verdict", read_cells(VERDICTS))
def test_verdict(kind, fields, values, verdict, tmp_path):
    rule = claim(tmp_path, kind, **read_yaml(fields.replace("OTHER", OTHER)))
    assert evaluate_claim(rule, runs(8, **read_yaml(values))).verdict == verdict


@pytest.mark.parametrize("n_statements, n", [(1, 6), (2, 7), (3, 7), (4, 8), (6, 8), (7, 9)])
def test_a_verdict_needs_as_many_seeds_as_its_statements_ask_for(n_statements, n):
    """The range of n values misses the median with probability 2^(1-n): by hand, 1/32 of six."""
    assert count_seeds_needed(n_statements) == n
    assert 2.0 ** (1 - n) <= 0.05 / n_statements < 2.0 ** (2 - n)
    for seeds, verdict in ((n - 1, OPEN), (n, FAILS)):
        wrong = MedianBounds(np.full(seeds, -1.0), 0.0)
        assert wrong.decide(n_statements) == verdict
    assert MedianBounds(np.ones(6), 0.0).decide(n_statements) == HOLDS
    assert MedianBounds(np.ones(5), 0.0).decide(n_statements) == OPEN


def test_wrong_verdicts_are_as_rare_as_stated():
    """With a true median on the bound of each of three statements, either verdict is wrong."""
    rng = np.random.default_rng(5)
    for n in (7, 9, 20):
        words = [
            [MedianBounds(rng.normal(size=n), 0.0).decide(3) for _ in range(3)]
            for _ in range(2_000)
        ]
        assert np.mean([FAILS in three for three in words]) <= 0.06
        assert np.mean([three.count(HOLDS) == 3 for three in words]) <= 0.06


def test_an_outlier_needs_more_seeds():
    few = MedianBounds(np.array([10.0, 12, 11, 9, 8, 90]), -inf, 19)
    assert few.decide() == OPEN
    n = few.estimate_seeds(1)
    n_out = n // 6
    for n_seeds, verdict in ((n, HOLDS), (n - 1, OPEN)):
        values = np.r_[np.full(n_seeds - n_out, 10.0), np.full(n_out, 90.0)]
        assert MedianBounds(values, -inf, 19).decide() == verdict
    assert MedianBounds(np.array([1.0, -1, 1, -1]), 0.0).estimate_seeds(1) == 0
    assert MedianBounds(np.ones(2), 0.0).estimate_seeds(4) == 8


@pytest.mark.parametrize("n", [6, 9, 20])
def test_a_planted_effect_of_the_detectable_size_is_found_in_19_of_20_plays(n):
    rng = np.random.default_rng(7)
    noise = rng.normal(size=n)
    effect = MedianBounds(noise, 0.0).compute_detectable_effect() / np.std(noise, ddof=1)
    plays = rng.normal(effect, 1.0, size=(3_000, n))
    found = np.mean([MedianBounds(play, 0.0).decide() == HOLDS for play in plays])
    assert found == pytest.approx(0.95, abs=0.015)


def test_a_failure_says_what_would_have_been_found_or_is_none(tmp_path):
    def judge(value):
        ordered = claim(tmp_path, "order", value=value, labels=["a", "b"])
        return evaluate_claim(ordered, runs(a=[5, 6, 5, 6, 5, 6, 5], b=[4, 4, 3, 4, 4, 3, 4]))

    plain = judge(None)
    assert plain.verdict == FAILS
    assert re.fullmatch(r"an effect of [\d.]+ is found in 19 of 20 plays", plain.reason)
    large, small = judge([1, 9]), judge([1, 1.1])
    assert large.verdict == FAILS
    assert large.reason == f"{plain.reason}; printed 8"
    assert small.verdict == OPEN
    assert small.reason.startswith("one of the printed size could be missed")


def test_a_comparison_at_unequal_conditions_is_none(tmp_path):
    """More protection at the better map is fair, less of it is not; and the reverse."""
    given = order(tmp_path, key="utility.rmse_db", given=KEY)

    def judge(rmse_db, protection):
        outcome = runs(8, a=[1.0], b=[1.0])
        for label, error, by in zip("ab", rmse_db, protection, strict=True):
            for one in outcome[label].values():
                one |= {"utility.rmse_db": error, KEY: by}
        return evaluate_claim(given, outcome)

    assert judge((1, 2), (10, 30)).verdict == HOLDS
    assert judge((1, 2), (10, 9.5)).verdict == HOLDS  # up to a tenth
    unlike = judge((1, 2), (10, 5))
    assert unlike.verdict == UNLIKE
    assert unlike.reason == f"{KEY} is 10 at “a” and 5 at “b”"
    assert judge((2, 1), (10, 5)).verdict == FAILS
    assert judge((2, 1), (10, 30)).verdict == UNLIKE


def test_minutes_buy_the_scenarios_that_decide_most_for_them(tmp_path):
    """Of a (4 minutes, 2 claims), b (5, 1) and c (1, none that can be decided)."""
    names = {"a": "campus", "b": "town", "c": "city", "d": "replay"}
    order_of = {"kind": "order", "key": KEY, "labels": ["a", "b"]}
    known = []
    for n, (scenario, minutes, private) in enumerate(
        [("a", "4", ""), ("a", "4", ""), ("b", "5", ""), ("c", "1", "its data"), ("d", "", "")]
    ):
        missing = {"missing": private} if private else {}
        path = claim_file(
            tmp_path, entry(order_of, id=f"n{n}", scenario=names[scenario], **missing)
        )
        known.append(Verdict(read_claims(path).claims[0], HOLDS, minutes=minutes))
    for minutes, chosen in ((10, "aabc"), (9, "aab"), (8.9, "aac"), (4.5, "aa"), (1.5, "c")):
        quick = select_quick_claims(known, minutes)
        assert [one.scenario for one in quick] == [names[letter] for letter in chosen]
    with pytest.raises(BadInput, match="no scenario is known to be played in so few"):
        select_quick_claims(known, 0.5)


def test_what_is_missing_in_print_makes_a_claim_not_comparable(tmp_path):
    path = claim_file(tmp_path, entry(GOOD, missing="its data are private"))
    private = read_claims(path).claims[0]
    for outcome in (runs(8, a=[1]), {}):
        verdict = evaluate_claim(private, outcome)
        assert (verdict.verdict, verdict.reason) == (UNLIKE, "its data are private")
    assert evaluate_claim(private, runs(8, a=[1])).ours == "a: 1 [1, 1]"


def test_a_failure_that_hangs_on_an_unprinted_setting_is_not_comparable(tmp_path):
    """What holds with ours holds; what does not may be ours."""
    rule = {"kind": "order", "key": KEY, "labels": ["a", "b"]}
    path = claim_file(tmp_path, entry(rule, unprinted="the network"))
    hanging = read_claims(path).claims[0]
    assert evaluate_claim(hanging, runs(8, a=[1], b=[2])).verdict == HOLDS
    verdict = evaluate_claim(hanging, runs(8, a=[2, 2.1], b=[1, 1.2]))
    assert verdict.verdict == UNLIKE
    assert verdict.reason.startswith("not printed: the network; with ours it does not hold (an eff")


def test_no_verdict_rests_on_a_model_that_is_not_useful(tmp_path):
    """That b errs more than a asks for a useful model of b only; open, it is doubted where no
    number of seeds would help: where b is useless for sure, and that hangs on what is unprinted.
    """
    rule = {"kind": "order", "key": KEY, "labels": ["a", "b"]}

    def judge(values, useless, n_useless, **settings):
        outcome = runs(8 // len(values[useless]), **values)
        for one in [*outcome[useless].values()][:n_useless]:
            one["utility.useful"] = False
        verdict = evaluate_claim(
            read_claims(claim_file(tmp_path, entry(rule, **settings))).claims[0], outcome
        )
        return verdict.verdict, "not useful" in verdict.reason

    holds = {"a": [1], "b": [2]}
    for neither in ({"a": [1, 4], "b": [2, 3.4]}, {"a": [1.6, 4], "b": [2, 3.0]}):
        for n_useless, hanging, known in (
            (8, (UNLIKE, True), (OPEN, False)),
            (6, (OPEN, False), (OPEN, False)),
        ):
            assert judge(neither, "b", n_useless, unprinted="the network") == hanging
            assert judge(neither, "b", n_useless) == known
            assert judge(neither, "a", n_useless, unprinted="the network") == (OPEN, False)
    for n_useless, hanging, known in (
        (8, (UNLIKE, True), (OPEN, True)),
        (6, (OPEN, True), (OPEN, True)),
        (3, (HOLDS, False), (HOLDS, False)),
    ):
        assert judge(holds, "b", n_useless, unprinted="the network") == hanging
        assert judge(holds, "b", n_useless) == known
        assert judge(holds, "a", n_useless, unprinted="the network") == (HOLDS, False)


@pytest.mark.parametrize(
    ("kind", "key", "bound", "value", "verdict"),
    [
        ("at-most", KEY, 30, 10, HOLDS),
        ("at-most", KEY, 30, 100, OPEN),
        ("at-least", KEY, 30, 100, OPEN),
        ("at-least", KEY, 30, 10, FAILS),
        ("at-most", NAMED, 30, 10, OPEN),
        ("at-most", NAMED, 30, 100, FAILS),
        ("at-least", NAMED, 30, 100, HOLDS),
        ("at-least", NAMED, 30, 10, OPEN),
        ("within", KEY, 30, 30, OPEN),
        ("within", KEY, 30, 100, OPEN),
        ("within", KEY, 30, 10, FAILS),
    ],
)
def test_a_useless_model_makes_low_leakage_doubtful(kind, key, bound, value, verdict, tmp_path):
    """Errors are low leakage where they are large, shares of homes where they are small."""
    rule = {"kind": kind, "key": key, "labels": ["a"]}
    rule |= {} if kind == "within" else {"bound": bound}
    checked = read_claims(claim_file(tmp_path, entry(rule, value=float(bound)))).claims[0]

    def judge(useful):
        run = {key: value, "utility.useful": useful}
        return evaluate_claim(checked, {"a": dict.fromkeys(range(8), run)}).verdict

    assert judge(useful=False) == verdict
    assert judge(useful=True) in (HOLDS, FAILS)


def test_one_sound_statement_refutes_and_one_doubted_leaves_open(tmp_path):
    rule = {"kind": "order", "key": KEY, "labels": ["a", "b", "c"]}

    def judge(values, n_useless, n_seeds=8, **settings):
        outcome = runs(n_seeds, **values)
        for label, n in n_useless.items():
            for one in [*outcome[label].values()][:n]:
                one["utility.useful"] = False
        path = claim_file(tmp_path, entry(rule, **settings))
        return evaluate_claim(read_claims(path).claims[0], outcome).verdict

    falling, rising = ({"a": [9], "b": [5], "c": [1]}, {"a": [1], "b": [5], "c": [9]})
    assert judge(falling, {"a": 8}) == FAILS
    assert judge(falling, {"a": 8, "b": 8}) == OPEN
    assert judge({"a": [9], "b": [5], "c": [7]}, {"a": 8}) == OPEN
    for n in (0, 3, 6, 8):
        assert judge(falling, {"a": n, "b": n}, unprinted="the network") == UNLIKE
    for n_b, n_c in ((6, 8), (8, 6)):
        assert judge(rising, {"b": n_b, "c": n_c}, unprinted="the network") == UNLIKE
    assert judge(rising, {"b": 6}, unprinted="the network") == OPEN
    assert judge(rising, {"b": 12, "c": 9}, n_seeds=12, unprinted="the network") == UNLIKE


def test_only_seeds_that_all_labels_share_count(tmp_path):
    """Another claim had b played with 32 seeds more, whose models are useful."""
    path = claim_file(tmp_path, entry({"kind": "order", "key": KEY, "labels": ["a", "b"]}))
    outcome = runs(8, a=[1], b=[2])
    for one in outcome["b"].values():
        one["utility.useful"] = False
    outcome["b"] |= {seed: summarise(0.5) for seed in range(8, 40)}
    verdict = evaluate_claim(read_claims(path).claims[0], outcome)
    assert (verdict.verdict, verdict.seeds) == (OPEN, "8")
    assert "8 of 8 runs of “b”" in verdict.reason
    assert verdict.ours == "a: 1 [1, 1]; b: 2 [2, 2]"


def test_a_gain_is_compared_per_unit_of_what_it_costs(tmp_path):
    """Gains of 4 and 2, at costs of 10 and 5, then of 10 and 1 metres."""
    rule = claim(
        tmp_path, "diminishing", key="utility.rmse_db", share=1, other=KEY, labels=["a", "b", "c"]
    )
    outcome = runs(8, a=[20.0], b=[10.0], c=[4.9])
    for label, value in {"a": 1.0, "b": 5.0, "c": 7.0}.items():
        for one in outcome[label].values():
            one["utility.rmse_db"] = value
    assert evaluate_claim(rule, outcome).verdict == HOLDS
    for one in outcome["c"].values():
        one[KEY] = 9.0
    assert evaluate_claim(rule, outcome).verdict == FAILS


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 8, 9, 20, 100])
def test_the_interval_of_a_median_covers_it_as_often_as_stated(n):
    low, high, k, coverage = compute_median_interval(np.arange(1.0, n + 1))
    assert (low, high) == (k, n + 1 - k)
    assert coverage == pytest.approx(1 - 2 * stats.binom(n, 0.5).cdf(k - 1))
    assert coverage >= 0.95 or k == 1
    assert 1 - 2 * stats.binom(n, 0.5).cdf(k) < 0.95  # a narrower one would not


def test_the_interval_of_a_median_leaves_nan_out_and_takes_infinities():
    assert compute_median_interval(np.array([nan, 3.0, inf])) == (3.0, inf, 1, 0.5)
    assert np.isnan(compute_median_interval(np.array([nan]))[0])


def test_few_seeds_settle_nothing(tmp_path):
    result = evaluate_claim(order(tmp_path), runs(a=[1] * 5, b=[2] * 5))
    assert result.verdict == OPEN
    assert result.reason == "median between 1 and 1 (94 % interval); about 6 seeds would decide it"


def test_seeds_are_paired_by_number(tmp_path):
    """Only seeds that were played for every label count."""
    result = runs(a=range(1, 13), b=range(2, 14))
    assert evaluate_claim(order(tmp_path), result).verdict == HOLDS
    for seed in range(6):
        result["b"][seed + 3][KEY] = 1.0
    assert evaluate_claim(order(tmp_path), result).verdict == OPEN
    result = runs(a=[1, 2, 3, 4], b=[2, 3, 4, 5])
    for seed in (0, 1):
        del result["a"][seed], result["b"][seed + 2]
    assert evaluate_claim(order(tmp_path), result).reason == "no seed has runs of every label"


def test_what_cannot_be_judged_says_why(tmp_path):
    ordered = order(tmp_path)
    assert evaluate_claim(ordered, {}).reason == "no run: campus"
    assert evaluate_claim(ordered, {}, "no disk").reason == "no run: no disk"
    assert evaluate_claim(ordered, runs(a=[1])).reason == "no run: no label “b” in campus"
    silent = runs(4, a=[1, 1, 1], b=[2, 3])
    silent["b"][0].pop(KEY)
    assert evaluate_claim(ordered, silent).verdict == HOLDS  # most of them are enough
    for seed in (1, 2, 3):
        silent["b"][seed].pop(KEY)
    assert evaluate_claim(ordered, silent).reason == f"{KEY} is null in 4 of 8 runs of “b”"


def test_privacy_of_useless_models_is_not_judged_but_told(tmp_path):
    outcome = runs(4, a=[1, 1], b=[2, 3], c=[1, 1])
    for seed in (1, 3, 5, 7):
        outcome["b"][seed]["utility.useful"] = False
    result = evaluate_claim(order(tmp_path), outcome)
    assert result.verdict == OPEN
    assert (
        result.reason == "the model is not useful in 4 of 8 runs of “b”; with all models it holds"
    )
    result = evaluate_claim(order(tmp_path, "b", "a"), outcome)
    assert result.reason.endswith("with all models it does not hold")
    # what a model is worth can be said of any model, and what leaks has leaked; of two attacks
    for rule, verdict in (
        (order(tmp_path, key="utility.rmse_db"), HOLDS),
        (claim(tmp_path, "at-most", bound=9), HOLDS),
        (claim(tmp_path, "at-least", bound=1, labels=["b"]), OPEN),
        (claim(tmp_path, "alike", labels=["a", "c"]), HOLDS),
    ):
        assert evaluate_claim(rule, outcome).verdict == verdict
    lost = "attack.closed-form.diverged.percent"
    few = {
        label: {seed: run | {lost: 20.0} for seed, run in values.items()}
        for label, values in outcome.items()
    }
    assert evaluate_claim(claim(tmp_path, "at-most", key=lost, bound=30), few).verdict == HOLDS


def test_in_an_order_only_the_side_with_less_leakage_needs_a_useful_model(tmp_path):
    """Errors of an attack: the low one is real with any model; shares of homes: the high one."""
    outcome = runs(8, a=[1], b=[2])
    for one in outcome["a"].values():
        one |= {"utility.useful": False, NAMED: 10.0}
    for one in outcome["b"].values():
        one[NAMED] = 60.0
    assert evaluate_claim(order(tmp_path), outcome).verdict == HOLDS
    assert evaluate_claim(order(tmp_path, key=NAMED), outcome).verdict == OPEN
    for one in outcome["a"].values():
        one["utility.useful"] = None  # nothing was held out to say it
    assert evaluate_claim(order(tmp_path, key=NAMED), outcome).verdict == HOLDS


POSITIVE = read_yaml("kind: at-least, key: utility.rmse_db, bound: 0")
GOOD = {"kind": "at-most", "key": KEY, "bound": 1}
BAD = """
kind: eval                                        kind
bound: __import__('os')                           bound: expected a number
key: utility.rmse                                 utility.rmse_db
key: attack.sw1_m                                 no summary has a key
bond: 1                                           bond
bound: null                                       bound
kind: order, bound: null, labels: [a]             labels
kind: ratio, labels: [a, b, c]                    labels
kind: curve, bound: null, labels: [a, b, c]       pairs
kind: ratio, bound: 0, labels: [a, b]             above 0
kind: between                                     upper
kind: between, upper: 1                           upper: must be above the bound of 1
kind: alike, bound: null, labels: [a, a]          one stands twice
kind: within, bound: null                         value
kind: order, bound: null, labels: [a, b], given: a.b  no summary has a key 'a.b'
kind: exceeds, bound: null, key: NAMED, other: KEY  KEY is in m, and NAMED in %
kind: exceeds, bound: null, other: a.b            no summary has a key 'a.b'
"""
"""what is wrong with a rule, and a word of the refusal"""


@pytest.mark.parametrize("changes, word", read_cells(BAD))
def test_mistakes_are_refused_in_one_line(changes, word, tmp_path):
    changes, word = (text.replace("KEY", KEY).replace("NAMED", NAMED) for text in (changes, word))
    rule = {k: v for k, v in (GOOD | read_yaml(changes)).items() if v is not None}
    line = catch_line(read_claims, claim_file(tmp_path, entry(rule)))
    assert word in line
    assert re.search(r"claims\.yaml:\d+: claims\[0\]", line)


@pytest.mark.parametrize("field, value", [("id", "a b"), ("paper", ""), ("seeds", 500)])
def test_mistakes_of_a_claim_are_refused_in_one_line(field, value, tmp_path):
    assert field in catch_line(read_claims, claim_file(tmp_path, entry(GOOD, **{field: value})))


def test_ids_are_unique_and_there_is_one_claim_at_least(tmp_path):
    with pytest.raises(BadInput, match="the id 'one' stands 2 times"):
        read_claims(claim_file(tmp_path, entry(GOOD), entry(GOOD)))
    with pytest.raises(BadInput, match="at least 1 entries"):
        read_claims(claim_file(tmp_path))


def test_what_is_not_played_is_of_a_publication_of_the_claims(tmp_path):
    path = claim_file(tmp_path, entry(GOOD))
    text = read_json(path) | read_yaml(
        "unplayed: [{paper: Another, where: Fig. 2, why: a drawing}]"
    )
    path.write_text(json.dumps(text))
    with pytest.raises(BadInput, match="no claim is of 'Another'"):
        read_claims(path)


def test_claims_of_one_paper(tmp_path):
    path = claim_file(tmp_path, entry(GOOD), entry(GOOD, id="two", paper="Another One"))
    assert [c.id for c in select_claims(read_claims(path).claims, "another")] == ["two"]
    with pytest.raises(BadInput, match="there are: A paper, Another One"):
        select_claims(read_claims(path).claims, "nobody")


# -- the bundled claims


def test_bundled_claims_are_sound():
    claims = read_claims(BUNDLED_CLAIMS).claims
    assert len({c.id for c in claims}) == len(claims) >= 15
    assert all(find_measure(key) is not None for c in claims for key in c.rule.keys)
    assert not any("claims" in name for name in list_bundled())  # it is no scenario


def test_bundled_claims_can_be_played(monkeypatch):
    monkeypatch.setenv("NETSIM_DATA", "/nowhere")  # only labels and keys are looked at
    claims = read_claims(BUNDLED_CLAIMS).claims
    for scenario in {claim.scenario for claim in claims}:
        study = load(scenario)
        if study.vary is not None:
            labels = {p.label for p in plan_points(study, {})}
        else:
            labels = set()
        assert {
            label for c in claims if c.scenario == scenario for label in c.rule.labels
        } <= labels


@pytest.mark.slow
def test_a_broken_constant_flips_rules_of_the_bundled_claims(tmp_path, monkeypatch):
    claims = [c for c in read_claims(BUNDLED_CLAIMS).claims if c.id.startswith("uma-")]
    seeds = range(1, 41)  # as many as the claims are played with

    def verdicts(name):
        values = {}
        for seed in seeds:
            study = load("radio/calibration", {"vary": None, "seed": seed})
            values[seed] = run(study, tmp_path / name / f"seed-{seed}").summary
        return [evaluate_claim(c, {"uma": values}).verdict for c in claims]

    right = verdicts("right")
    monkeypatch.setattr(
        UrbanMacro, "hidden_db", (UrbanMacro.hidden_db[0] + 10.0, *UrbanMacro.hidden_db[1:])
    )
    broken = verdicts("broken")
    flipped = sum(a == HOLDS != b for a, b in zip(right, broken, strict=True))
    assert right.count(HOLDS) == len(claims) == 9
    assert flipped >= 3
    assert broken.count(FAILS) >= 3


def test_claims_that_no_scenario_plays_are_refused(tmp_path):
    two = entry(GOOD, id="two", scenario="campsu")
    own_rows = entry(GOOD, id="own", scenario="own.yaml")
    with pytest.raises(BadInput) as error:
        read_claims(claim_file(tmp_path, entry(GOOD), two, own_rows))
    first, second = error.value.lines
    assert "claims[1].scenario: no bundled scenario 'campsu'; did you mean 'campus'?" in first
    assert f"claims[2].scenario: there is no scenario file {tmp_path / 'own.yaml'}" in second


def test_a_scenario_file_counts_from_the_file_of_claims(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine").mkdir()
    scenario = tmp_path / "mine/own.yaml"
    scenario.write_text(json.dumps(TINY))
    claim_file(tmp_path / "mine", entry(POSITIVE, scenario="own.yaml"))
    monkeypatch.chdir(tmp_path)
    command = "claims --file mine/claims.yaml --out out"
    assert main([*command.split(), "--jobs", "1", "--quiet"]) == 0
    assert "holds" in capsys.readouterr().out
    assert (tmp_path / "out/own/runs.csv").exists()
    two = [
        entry(POSITIVE, scenario="own.yaml"),
        entry(POSITIVE, id="two", scenario="../mine/../own.yaml"),
    ]
    (tmp_path / "own.yaml").write_text(scenario.read_text())
    claim_file(tmp_path / "mine", *two)
    assert main(command.split()) == 2
    assert "would be played there" in capsys.readouterr().err


# -- folders and the command

MANIFEST = read_yaml("""
    title: A fake, command: netsim sweep, versions: {}, warnings: [], channel_card: {},
    timing: {}, trace: null, cells: [], first_day: "2026-01-05", clock_changes: [],
    start_unix_s: null, duration_s: 60.0, round_s: 60.0, tracks: {every_s: 60.0}, area_m:
    [0.0, 0.0, 1.0, 1.0], origin_deg: null
""")


@pytest.fixture
def folder(tmp_path):
    """A fake sweep of two labels and six seeds."""
    out = tmp_path / "w"
    rows = ["folder,label,seed"]
    for label, group in read_yaml("a: [10.0, 20.0], b: [40.0, 60.0]").items():
        for i, summary in runs(3, **{label: group})[label].items():
            item = out / f"{label}{i}"
            item.mkdir(parents=True)
            write_json(item / "summary.json", summary)
            write_json(item / "manifest.json", MANIFEST | {"seed": i})
            rows.append(f"{label}{i},{label},{i}")
    (out / "runs.csv").write_text("\n".join(rows) + "\n")
    return out


@pytest.fixture
def file(tmp_path):
    (tmp_path / "fake.yaml").write_text("title: A fake\n")
    (tmp_path / "absent.yaml").write_text("title: Absent\n")
    ordered = {"kind": "order", "key": KEY, "labels": ["a", "b"]}
    first = entry(ordered, scenario="fake.yaml", value=[12, 50])
    second = entry(GOOD, id="other", scenario="absent.yaml", paper="Another")
    return claim_file(tmp_path, first, second)


def test_folders_are_read_by_label_and_unfinished_runs_left_out(folder):
    def list_seeds():
        """List the seeds of every label."""
        return [(label, *values) for label, values in read_labelled_summaries(folder).items()]

    assert list_seeds() == [("a", *range(6)), ("b", *range(6))]
    (folder / "b1/summary.json").unlink()
    assert list_seeds() == [("a", *range(6)), ("b", 0, 2, 3, 4, 5)]
    write_json(folder / "a0/summary.json", {KEY: "<b>"})
    with pytest.raises(BadInput, match="is not a number"):
        read_labelled_summaries(folder)


@pytest.fixture
def claims_folder(folder, tmp_path, monkeypatch):
    """The folder of claims in which one of two scenarios has been played."""

    def play(claims, places, *_):
        return {name: f"{name} is missing" for name, place in places.items() if not place.exists()}

    monkeypatch.setattr("scenarios.app.claims.evaluate.play_claims", play)
    out = tmp_path / "out"
    out.mkdir()
    folder.rename(out / "fake")
    return out


def test_the_command_prints_verdicts_and_keeps_them(claims_folder, file, capsys):
    command = ["claims", "--file", str(file), "--out", str(claims_folder)]
    assert main([*command, "--paper", "paper"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "printed 12, 50" in text
    assert "ours a: 15 [10, 20]" in text
    assert "other" not in text
    assert main(command) == 0
    rows = read_csv(claims_folder / "claims.csv")
    assert [(r["id"], r["verdict"]) for r in rows] == [("one", HOLDS), ("other", OPEN)]
    assert re.match(r"no run: .*absent\.yaml is missing", rows[1]["reason"])
    assert rows[0]["value"] == "12, 50"
    assert rows[0]["key"] == KEY


def test_kept_verdicts_stay_while_their_claims_state_the_same(
    claims_folder, file, tmp_path, capsys
):
    kept = tmp_path / "kept.csv"
    page = tmp_path / "papers.md"
    command = ["claims", "--file", str(file), "--keep", str(kept), "--page", str(page)]
    assert main([*command, "--out", str(claims_folder)]) == 0
    rows = read_csv(kept)
    assert [(row["id"], row["verdict"], row["seeds"]) for row in rows] == [("one", HOLDS, "6")]
    text = page.read_text()
    assert "| Fig. 1 | it does | 12, 50 | a: 15 [10, 20]<br>b: 50 [40, 60] |  | holds | 6 |" in text
    assert "1 statement: 1 not played" in text.partition("## Another")[2]

    shutil.rmtree(claims_folder)  # hours of playing are not asked for again
    capsys.readouterr()
    text = text.replace(f"no run: {tmp_path / 'absent.yaml'} is missing", "not played")
    assert main([*command, "--paper", "A paper"]) == 0
    assert page.read_text() == text
    assert re.search(r"(?m) holds$", capsys.readouterr().out)

    stated = read_json(file)
    stated["claims"][0] |= {"differs": "its <b>town</b> | is\nanother", "value": [12, 51]}
    file.write_text(json.dumps(stated))
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "left out, as their claims state something else now: one" in " ".join(out.split())
    assert "not played" in out
    assert "(one): its &lt;b&gt;town&lt;/b&gt; \\|" in page.read_text()
    assert len(kept.read_text().splitlines()) == 2

    for text in ("a,b\n1,2\n", "a,b\n", ""):
        kept.write_text(text)
        assert main(command) == 2
        assert "is no table of verdicts" in capsys.readouterr().err
        assert kept.read_text() == text


WORDS = """
at-most       bound: 3                          KEY: at most 3
between       bound: 1, upper: 2                KEY: between 1 and 2
within        labels: [a]                       KEY: the printed value up to a factor of 1.1 (a)
no-more-than  other: KEY, margin: 2             KEY: at most 2 above KEY
order         labels: [a, b, c], given: KEY     KEY: a < b < c, given KEY
curve         labels: [a, b, c, d]              KEY: a < b, c < d
ratio         labels: [a, b], bound: 0.9        KEY: “a” at least 0.9 times “b”
alike         labels: [a, b]                    KEY: “a” and “b” within a factor of 1.1
diminishing   labels: [a, b, c], share: 0.3     KEY: from “b” to “c” at most 0.3 of the gain since “a”
"""


@pytest.mark.parametrize("kind, fields, words", read_cells(WORDS))
def test_a_rule_says_in_words_what_must_be_true(kind, fields, words, tmp_path):
    fields = read_yaml(fields.replace("KEY", KEY))
    rule = claim(tmp_path, kind, 1.0 if kind == "within" else None, **fields).rule
    assert rule.words == words.replace("KEY", KEY)


def test_claims_leave_folders_of_others_alone(file, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "dear.txt").write_text("dear")
    assert main(["claims", "--file", str(file), "--out", str(out)]) == 2
    assert "'dear.txt', which does not belong to these claims" in capsys.readouterr().err
    assert [p.name for p in out.iterdir()] == ["dear.txt"]


def test_bad_commands_are_one_line_and_2(file, tmp_path, capsys):
    for options in (["--jobs", "0"], ["--page", ""], ["--paper", "nobody"]):
        assert main(["claims", "--file", str(file), *options]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["claims", "--file", str(tmp_path / "none.yaml")]) == 2
    assert "No such file" in capsys.readouterr().err
    (tmp_path / "taken").write_text("a file")
    assert main(["claims", "--page", str(tmp_path / "taken/papers.md")]) == 2
    assert "taken/papers: cannot be made (Not a directory)" in capsys.readouterr().err


def test_minutes_leave_a_tenth_for_starting(capsys):
    """Of three minutes on one core and on two; what a scenario took stands with its verdicts."""
    for jobs in (1, 2):
        assert main(["claims", "--minutes", "3", "--jobs", str(jobs), "--json"]) == 0
        rows = json.loads(capsys.readouterr().out.splitlines()[-1])["verdicts"]
        took = {row["scenario"]: float(row["minutes"]) for row in rows}
        assert 0 < sum(took.values()) <= 0.9 * 3 * jobs


def test_printed_values_are_one_for_each_label(tmp_path):
    rule = {"kind": "order", "key": KEY, "labels": ["a", "b"]}
    with pytest.raises(BadInput, match="value: give one number, or one for each label"):
        read_claims(claim_file(tmp_path, entry(rule, value=[1, 2, 3])))


def test_the_command_lists_claims(capsys):
    assert main(["claims"]) == 0
    out = capsys.readouterr().out
    assert "Fig. 4a" in out
    assert "printed 7.25" in out
    assert max(map(len, out.splitlines())) <= 100


def test_missing_scenarios_are_played_once(tmp_path, monkeypatch, capsys):
    expected = {name: tmp_path / f"{name}.yaml" for name in ("mine", "single")}
    expected["mine"].write_text(
        json.dumps(TINY | read_yaml("vary: {values: {learning.learner.hidden: [[4], [8]]}}"))
    )
    expected["single"].write_text(json.dumps(TINY))
    monkeypatch.setattr("scenarios.app.claims.claim.list_bundled", lambda: expected)
    monkeypatch.setattr("scenarios.app.study.load.list_bundled", lambda: expected)
    file = claim_file(
        tmp_path,
        entry(POSITIVE | {"labels": ["hidden=[4]", "hidden=[8]"]}, scenario="mine"),
        entry(POSITIVE, id="two", scenario="single"),
    )
    command = ["claims", "--file", str(file), "--out", str(tmp_path / "out"), "--jobs", "1"]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert "2 hold" in out
    assert re.search(r"mine: run 14/14, hidden=\[8\], seed \d", err)
    assert "single: run 6/6" in err
    played = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("summary.json")}
    assert len(played) == 2 * 7 + 6
    assert main(command) == 0
    assert capsys.readouterr() == (out, "")
    assert all(p.stat().st_mtime_ns == mark for p, mark in played.items())
    shutil.rmtree(tmp_path / "out/single")
    assert main([*command, "--quiet"]) == 0
    assert capsys.readouterr() == (out, "")


LEAK = "attack.nu-{}.centroid_error_m.inside.rms"
MAE = "metric.learner.mae_new_positions_db.last20.mean"


@cache
def find_bundled_claim(name):
    return next(c for c in read_claims(BUNDLED_CLAIMS).claims if c.id == name)


def judge_bundled(name, key, **figures):
    """The verdict on a bundled claim of runs with these figures, label by label and seed by
    seed."""
    group = {
        label: dict(enumerate({key: v, "utility.useful": True} for v in values))
        for label, values in figures.items()
    }
    return evaluate_claim(find_bundled_claim(name), group).verdict


@pytest.mark.slow
@pytest.mark.parametrize("nu", ["1", "2", "5", "10", "inf"])
def test_a_first_gradient_leaks_less_than_ten_metres_or_not(nu):
    for typical_m, expected in ((8.5, HOLDS), (11.5, UNLIKE)):
        figures = {"as written": (typical_m + np.linspace(-1, 1, 9)).tolist()}
        assert judge_bundled(f"map-leak-nu-{nu}", LEAK.format(nu), **figures) == expected


def test_what_aligned_noise_costs_a_map_is_judged_against_uniform_noise():
    around = np.linspace(-0.02, 0.02, 9)

    def verdict(uniform, aligned):
        figures = {"uniform, mu 50": uniform + around, "aligned, mu 50": aligned + around}
        return judge_bundled(
            "map-headline-cost", MAE, **{label: v.tolist() for label, v in figures.items()}
        )

    assert verdict(4.1, 4.25) == HOLDS
    assert verdict(3.8, 4.25) == UNLIKE  # its learning rates are not printed
    assert verdict(9.9, 10.0) == HOLDS  # another error, and less than the printed cost


def shares(named, chance, useful=False):
    """Runs of one label by seed."""
    rows = ({NAMED: v, CHANCE: chance, "utility.useful": useful} for v in named * 3)
    return {"a": dict(enumerate(rows))}


def test_a_share_is_compared_with_chance_of_the_same_run(tmp_path):
    """That homes are found is real with any model; that they are not is not."""
    exceeds = claim(tmp_path, "exceeds", key=NAMED, other=CHANCE, margin=50)
    verdict = evaluate_claim(exceeds, shares([90, 95, 100], 5.0))
    assert verdict.verdict == HOLDS
    assert verdict.ours == "a: 95 [90, 100] against 5 [5, 5]"
    assert evaluate_claim(exceeds, shares([50, 51, 52], 5.0)).verdict == OPEN
    assert evaluate_claim(exceeds, shares([50, 51, 52], 5.0, useful=True)).verdict == FAILS
    hidden = claim(tmp_path, "no-more-than", key=NAMED, other=CHANCE, margin=5)
    assert evaluate_claim(hidden, shares([3, 4, 5], 5.0)).verdict == OPEN
    assert evaluate_claim(hidden, shares([3, 4, 5], 5.0, useful=True)).verdict == HOLDS
    none = evaluate_claim(exceeds, shares([90, 95], None))
    assert none.verdict == OPEN
    assert none.reason == f"{CHANCE} is null in 6 of 6 runs of “a”"


@pytest.fixture
def two_runs(tmp_path, tiny):
    """A file of claims about two scenarios that are no sweeps."""
    for name, seed in (("a", 3), ("b", 4)):
        (tmp_path / f"{name}.yaml").write_text(
            to_study_yaml(tiny({"title": f"tiny {name}", "seed": seed}))
        )
    claims = [entry(POSITIVE, id=name, scenario=f"{name}.yaml") for name in "ab"]
    return claim_file(tmp_path, *claims)


def test_runs_that_are_no_sweep_are_played_by_the_engine(two_runs, tmp_path, monkeypatch, capsys):
    requested = []

    def executor(self, jobs, place):
        requested.append(place)
        return SerialJobs(1, 0)

    monkeypatch.setattr(OnProcesses, "make_executor", executor)
    command = ["claims", "--file", str(two_runs), "--out", str(tmp_path / "out"), "--jobs", "2"]
    assert main(command) == 0
    assert requested == [tmp_path / "out" / name for name in "ab"]
    err = capsys.readouterr().err
    assert re.search(
        r"(?s)a.yaml: run 1/6, as written, seed 3.*b.yaml: run 6/6, as written, seed 9", err
    )
    done = (tmp_path / "out/b/as-written/seed-4/summary.json").read_text()
    assert main(command) == 0
    alone = run(load(tmp_path / "b.yaml"), tmp_path / "alone")
    assert json.loads(done) == alone.summary


def test_a_run_that_fails_leaves_its_claims_undecided_and_is_played_by_the_same_command(
    two_runs, tmp_path, monkeypatch, capsys
):
    real = runner.play_job

    def break_one(job, *options):
        if "a" in job.folder.parts:
            raise RuntimeError("it broke")
        return real(job, *options)

    monkeypatch.setattr(runner, "play_job", break_one)
    out = tmp_path / "out"
    command = f"claims --file {two_runs} --out {out} --jobs 1 --json --quiet".split()
    assert main(command) == 1
    result, error = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    verdicts = {row["id"]: row for row in result["verdicts"]}
    assert "6 runs failed: as written, seed 3: RuntimeError: it broke" in verdicts["a"]["reason"]
    assert not verdicts["b"]["reason"].startswith("no run")
    assert f"6 runs failed, see {out / 'a/failures.csv'}" in json.dumps(error)
    assert "it broke" in (out / "a/as-written/seed-3/error.txt").read_text()
    monkeypatch.setattr(runner, "play_job", real)
    assert main(command) == 0
    assert sorted(p.name for p in out.iterdir() if p.name[0] != ".") == ["a", "b", "claims.csv"]


def test_an_engine_that_is_not_there_is_one_line(two_runs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(clusters, "find_spec", lambda name: None)
    out = tmp_path / "out"
    assert main(["claims", "--file", str(two_runs), "--out", str(out), "--on", "slurm"]) == 2
    assert "submitit is not installed" in capsys.readouterr().err
    assert not out.exists()


def test_the_page_of_publications_is_what_the_command_prints(tmp_path):
    """A claim that states something else than when it was played stands as not played, here and
    there."""
    page = tmp_path / "papers.md"
    assert main(["claims", "--page", str(page)]) == 0
    text = page.read_text()
    papers = {claim.paper for claim in read_claims(BUNDLED_CLAIMS).claims}
    assert [paper for paper in papers if f"## {paper}" not in text] == []


def test_a_page_of_somebody_else_is_left_alone_before_anything_is_played(file, tmp_path, capsys):
    page = tmp_path / "mine.md"
    page.write_text("mine")
    assert main(f"claims --file {file} --out {tmp_path / 'out'} --page {page}".split()) == 2
    assert "is not a file of ours" in capsys.readouterr().err
    assert page.read_text() == "mine"
    assert not (tmp_path / "out").exists()
