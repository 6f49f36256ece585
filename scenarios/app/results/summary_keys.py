"""Every key of summary.json, declared once: its name, unit and meaning.

A key is GROUP[.NAME].QUANTITY[_unit][.SELECTION][.STATISTIC]:

NAME       a part of the study: an attack, a mechanism, a step of curation, ...
QUANTITY   what is measured, ending with its unit: sw1_m, sinr_db, energy_j
SELECTION  the part of the values that is taken: inside (estimates inside the area), last20 (the last 20 rounds), ever
           (at any time, not only at the end), round and day (number of the round, or of the day), shuffled (each UE
           with what was named of another one), less_baseline (each value less that of the baseline)
STATISTIC  mean, median, min, max, std, rms, q05, q95; last; low and high (ends of a 95 % interval); percent (share for
           which something holds)

A key without a statistic is a count, a total, a setting, or a single value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from scenarios.app.results.measures import NAME, Measure

# fmt: off
UES_COUNT = Measure("ues.count", "", "UEs in the world", "ues", "ue")
HOMES_NONE = Measure(
    "homes.none", "", "replayed UEs without a home: no place where they spend most of at least 3 nights and of more "
    "than half of all their nights", "nights", "none", "sum", headline="world: UEs without a home"
)
HOMES_FEW_NIGHTS = Measure(
    "homes.few_nights", "", "of these, UEs with a fix between 0 and 6 h by the wall clock on fewer than 3 nights",
    "nights", "few", "sum", headline="world: of these with fewer than 3 nights"
)
ROUNDS_PLAYED = Measure(
    "rounds.played", "", "rounds that were played: some UE had data, or the server adds noise in every round",
    "rounds", "round", "count"
)
ROUNDS_EMPTY = Measure(
    "rounds.empty", "", "rounds that were skipped because no UE had data", "manifest", "empty_rounds"
)
ROUNDS_HELD_OUT = Measure(
    "rounds.held_out", "", "played rounds without an update because all of their measurements are held out", "rounds",
    lambda of: (of["samples"] > 0) & (of["held_out"] == of["samples"]) & (of["ues"] == 0), "sum"
)
ROUNDS_STOPPED = Measure(
    "rounds.stopped_by_budget", "", "whether training stopped because the next round would have exceeded "
    "learning.privacy_budget", "manifest", "stopped_by_budget"
)
SAMPLES_COUNT = Measure(
    "samples.count", "", "measurements of all played rounds; a survey that is kept for all rounds counts once",
    "measured", "samples", "sum"
)
SAMPLES_SELECTED = Measure(
    "samples.selected", "", "samples used for training, summed over rounds", "rounds", "selected", "sum"
)

REFUSED_COUNT = Measure(
    "refused.count", "", "requests that the query policies of UEs refused, all rounds", "rounds", "refused", "sum",
    headline="refused: requests"
)
REFUSED_REQUESTED = Measure(
    "refused.requested", "", "requests that query policies decided on", "refusals", "requested", "sum"
)
REFUSED_BY_ALL = Measure(
    "refused.everybody_rounds", "", "rounds in which every requested UE refused", "refusals",
    lambda of: (of["refused"] > 0) & (of["refused"] == of["requested"]), "sum"
)
REFUSED_REASON = Measure(
    "refused.reason.NAME", "", "requests refused for this reason; one may have several reasons", "reason", "value",
    "sum"
)
WITHHELD_UPDATES = Measure(
    "withheld.NAME.updates.percent", "%", "share of the requests that UEs accepted in which this rule of withholding, "
    "by itself, lets them send nothing", "requests", "silent", "share", headline="withheld: updates"
)
WITHHELD_SAMPLES = Measure(
    "withheld.NAME.samples.percent", "%", "share of the samples that they would have learned from which this rule, by "
    "itself, holds back", "requests", "held_back", "share", headline="withheld: samples"
)
SUMS_UNOPENED = Measure(
    "sums.unopened.percent", "%", "share of the sums of groups that the server could not open", "sums", "unopened",
    "share", headline="sums: not opened"
)
SUMS_LOST = Measure(
    "sums.lost.percent", "%", "share of the UEs whose update was decoded in time that were in a sum not opened; null "
    "if none was decoded", "sums", "lost", "share", headline="sums: decoded UEs lost"
)
SUMS_SINGLE = Measure(
    "sums.single.percent", "%", "share of the sums opened that are the update of one UE, since no other of its group "
    "came", "opened sums", "single", "share", headline="sums: of one UE"
)

UPDATES_SENT = Measure("updates.sent", "", "updates that UEs sent", "updates", "ue", "count")
UPDATES_DECODED = Measure(
    "updates.decoded.percent", "%", "share of updates that the server decoded in time", "updates", "decoded"
)
UPDATES_LATE = Measure(
    "updates.late.percent", "%", "share of updates that were not complete at the deadline and are lost", "air", "late",
    headline="uplink: late"
)
UPDATES_NON_FINITE = Measure(
    "updates.non_finite", "", "updates that overflowed on the UE: replaced by zero, with no weight", "rounds",
    "non_finite", "sum"
)
UPLINK_SINR = Measure(
    "uplink.sinr_db.median", "dB", "uplink SINR, median over UEs and rounds; null for an ideal uplink", "links",
    "sinr_db", "known", headline="uplink: SINR (median)"
)
UPLINK_LATENCY = Measure(
    "uplink.latency_s.median", "s", "latency from the server's request to the last bit, median over UEs and rounds",
    "links", "latency_s", "known", headline="uplink: latency (median)"
)
UPLINK_ENERGY = Measure(
    "uplink.energy_j", "J", "energy of all uplinks and all training", "air", "energy_j", "total",
    headline="uplink: energy"
)
UPLINK_VAIN_ENERGY = Measure(
    "uplink.energy_in_vain.percent", "%", "share of the energy of uplinks and training that UEs spent on updates which "
    "the server did not decode in time; null where nothing was spent", "links", "lost", "share", "energy_j",
    headline="uplink: energy wasted"
)
UPLINK_VAIN_BITS = Measure(
    "uplink.bits_in_vain.percent", "%", "share of all bits sent that were of updates which the server did not decode "
    "in time; null for an ideal uplink", "links", "lost", "share", "bits"
)
UPLINK_HANDOVERS = Measure(
    "uplink.handovers", "", "handovers of all UEs; null where handover is not modelled (every UE is served by its "
    "strongest cell)", "cells", "handovers", headline="uplink: handovers"
)

UPLOADS_COUNT = Measure(
    "uploads.count", "", "uploads that the server asked for; this and what follows only where uploads take their time "
    "(transmissions.csv)", "uploads", "ue", headline="uploads: requested"
)
UPLOADS_ARRIVED = Measure(
    "uploads.arrived", "", "uploads whose last bit arrived in time", "uploads", "arrived", "sum",
    headline="uploads: arrived"
)
UPLOADS_LOST = {
    fate: Measure(f"uploads.{fate.replace('-', '_')}", "", says, "uploads", fate, "sum")
    for fate, says in (
        ("late", "uploads that were not complete at the deadline"),
        ("dropped", "uploads of UEs that left before the last bit"),
        ("undecoded", "uploads that were sent again too often, or were too weak"),
        ("exhausted", "uploads of UEs whose energy was spent"),
        ("no-cell", "uploads of UEs that no base station served"),
        ("stopped", "uploads that the server no longer needed"),
        ("under-way", "uploads that had not ended at the end of the run"),
    )
}
"""by fate"""
UPLOADS_TIME = {
    part: Measure(f"uploads.{quantity}.mean", "s", f"{says}, mean over uploads that arrived", "uploads", part)
    for part, quantity, says in (
        ("whole", "time_s", "time from the request to the last bit"),
        ("preparing", "preparing_s", "time from the request until the UE is ready to send: downlink and training"),
        ("waiting", "waiting_s", "time from then until it may send for the first time"),
        ("sending", "sending_s", "time from then to the last bit, pauses between grants included"),
    )
}
"""by part"""
UPLOADS_TIME_Q95 = Measure(
    "uploads.time_s.q95", "s", "95 % quantile of the time from the request to the last bit", "uploads", "whole",
    headline="uploads: time (95 %)"
)
UPLOADS_VAIN = Measure(
    "uploads.sent_in_vain.percent", "%", "share of all bits sent that were in tries that failed, or in uploads that "
    "did not arrive", "uploads", "in_vain", "share", headline="uploads: bits wasted"
)
STALENESS_MEAN = Measure(
    "uploads.staleness.mean", "", "merges between the model that an update began from and its own, mean over merged "
    "updates", "uploads", "staleness", headline="uploads: staleness (mean)"
)
STALENESS_MAX = Measure(
    "uploads.staleness.max", "", "the same, max over merged updates", "uploads", "oldest", "last"
)
MERGE_RATE = Measure(
    "merges.per_hour", "1/h", "merges of the server per hour of simulated time, mean up to the last one", "uploads",
    "merges_per_hour"
)
REACHED_TIME = Measure(
    "reached.NAME.time_s", "s", "simulated time from the first request until a classifier had an accuracy of NAME % "
    "(50, 70, 80, 85 or 90) on held-out images, on average over the last fifth of that time; null if it never had; "
    "only where uploads take time", "reached", "time_s"
)
REACHED_UPLOADS = Measure(
    "reached.NAME.uploads", "", "uploads that the server had asked for by then", "reached", "uploads"
)
PLAN_SWITCH = Measure(
    "plan.switch_round", "", "rounds after which the plan lets the channel's noise take over (T_th); plan.json has the "
    "rest", "plan", "switch_round"
)


def _final(name: str, unit: str, says: str, **shown: Any) -> Measure:
    """Of the final model: a metric of the table `final`."""
    return Measure(f"utility.{name}", unit, says, "final", name, "last", **shown)


RMSE = _final(
    "rmse_db", "dB", "RMSE of the final model on all held-out samples; with hold_out_by: [day, block] on those of "
    "held-out days outside held-out blocks", headline="map RMSE", rule="error",
    beside=(("constant", "utility.constant_rmse_db"), ("centralised", "utility.central_rmse_db"),
            ("three-number law", "utility.path_loss_rmse_db"))
)
CONSTANT_RMSE = _final("constant_rmse_db", "dB", "baseline: RMSE of the mean of the training labels")
RAW_UPLOAD_RMSE = _final("raw_upload_rmse_db", "dB", "baseline: RMSE of a nearest-neighbour map of raw uploads")
NEIGHBOURS_RMSE = _final(
    "neighbours_rmse_db", "dB", "reference: RMSE of a smoother nearest-neighbour map (learning.references)"
)
PATH_LOSS_RMSE = _final(
    "path_loss_rmse_db", "dB", "reference: RMSE of a law of three numbers fitted to each model: log-distance to the "
    "nearest base station, and an offset inside buildings; null of several cells at unknown places"
)
KRIGING_RMSE = _final(
    "kriging_rmse_db", "dB", "reference: RMSE of ordinary kriging, of what that law leaves where antennas are known"
)
CENTRAL_RMSE = _final(
    "central_rmse_db", "dB", "reference: RMSE of the same network trained centrally on the samples of all UEs"
)
FEDERATED_OVER_CENTRAL = _final(
    "federated_over_central", "", "utility.rmse_db / utility.central_rmse_db; null where that is above the constant: "
    "it failed"
)
_BLOCKS = "on held-out samples in blocks without a training sample"
BY_PLACE = {
    key: _final(f"{key.rest.removeprefix('utility.')}.place", "dB", f"by place: {what}, {_BLOCKS}",
                **dict[str, Any](shown))
    for key, what, shown in (
        (RMSE, "RMSE of the final model", {
            "headline": "map RMSE by place", "rule": "error", "beside": (
                ("constant", "utility.constant_rmse_db.place"), ("three-number law", "utility.path_loss_rmse_db.place"),
                ("kriging", "utility.kriging_rmse_db.place"),
        )}),
        (CONSTANT_RMSE, "the constant", {}),
        (PATH_LOSS_RMSE, "the law of three numbers", {}),
        (KRIGING_RMSE, "kriging", {}),
    )
}
"""the figures of a map by place, of 10 such blocks or more, by the figure on all held-out samples"""
PLACE_BLOCKS = Measure(
    "utility.place.blocks", "", "blocks (100 m) without a training sample", "final", "place.blocks", "sum"
)
GOOD = Measure(
    "utility.good", "", "whether a signal map is good: better than the law of three numbers, and by place at most 0.2 "
    "dB worse than it; null where one of the two is not scored", "scored by place", "good"
)
MAPE = _final("mape_percent", "%", "mean absolute percentage error of the final model, for labels in dBm")
CONSTANT_MAPE = _final("constant_mape_percent", "%", "baseline: the same of the mean of the training labels")
USEFUL_ROUND = Measure(
    "utility.useful_round", "", "first round with a useful model on the held-out samples so far; null if never",
    "useful rounds", "first"
)
USEFUL = Measure(
    "utility.useful", "", "whether the model is useful: a signal map with an error below a constant's, a density with "
    "a rank correlation of at least 0.2, a classifier better than the most frequent class. Without it, low leakage "
    "proves nothing; high leakage is still real", "worth", "useful"
)
RANK_CORRELATION = _final(
    "rank_correlation", "", "Spearman's rank correlation, over the grid, between the density and the exact kernel "
    "density of all places of the last round", headline="rank correlation", rule="ranks", better="high"
)
TRUTH_RANK_CORRELATION = _final(
    "truth_rank_correlation", "", "the same between the density and the true distribution of UEs, if known",
    headline="rank correlation with the truth", better="high",
    beside=(("exact kernel density", "utility.kde_truth_rank_correlation"),)
)
KDE_TRUTH_RANK_CORRELATION = _final(
    "kde_truth_rank_correlation", "", "baseline: the same between the exact kernel density and that truth"
)
KDE_RMSE = _final("kde_rmse", "", "RMSE against the exact kernel density, for a kernel with maximum 1")
ACCURACY = _final(
    "accuracy_percent", "%", "held-out images that the final model classifies correctly", headline="accuracy",
    rule="accuracy", better="high", beside=(("most frequent class", "utility.constant_accuracy_percent"),)
)
CONSTANT_ACCURACY = _final("constant_accuracy_percent", "%", "baseline: held-out images of the most frequent class")
CROSS_ENTROPY = _final("cross_entropy_nats", "nat", "mean loss of the final model on held-out images")
NEW_LINKS_MAE = _final(
    "mae_new_links_db", "dB", "mean absolute error of the final model on new links", headline="MAE on new links"
)
NEW_STATIONS_MAE = _final("mae_new_stations_db", "dB", "the same on links to new base stations")
NEW_POSITIONS_MAE = _final("mae_new_positions_db", "dB", "the same on links from new positions")
UTILITY = Measure(
    "utility.NAME", "", "another metric that the learner reports for the final model, with its unit", "another", "value"
)

EAVESDROPPER_DECODED = Measure(
    "eavesdropper.decoded.percent", "%", "share of updates that the eavesdropper decoded; null without one",
    "eavesdropper", "decoded", headline="eavesdropper: decoded"
)
FALLBACK = Measure(
    "curation.NAME.fallback.percent", "%", "share of batches for which a step of curation took its fallback",
    "batches of a step", "fallback"
)

GUESS_SW1 = Measure(
    "baseline.random_guess.sw1_m.mean", "m", "SW1 of as many uniformly random guesses as the first attack with "
    "centroid estimates made, mean over draws, UEs and models", "guesses", "guess_sw1_m"
)
GUESS_SW1_Q05 = Measure(
    "baseline.random_guess.sw1_m.q05", "m", "its 5 % quantile over draws, mean over UEs and models: an attack above it "
    "is no better than random guesses", "guesses", "guess_sw1_m_q05", "mean"
)
GUESS_SW1_Q95 = Measure(
    "baseline.random_guess.sw1_m.q95", "m", "its 95 % quantile over draws, mean over UEs and models", "guesses",
    "guess_sw1_m_q95", "mean"
)
GUESS_SQRT_SW1 = Measure(
    "baseline.random_guess.sqrt_sw1.mean", "m^0.5", "square root of the mean over draws, mean over UEs and models",
    "guesses", lambda of: np.sqrt(of["guess_sw1_m"])
)
AREA_CENTRE_ERROR = Measure(
    "baseline.area_centre.error_m.median", "m", "centroid error of always guessing the centre of the map, median over "
    "UEs and rounds", "centre", "centre_m", "known"
)
ANYWHERE_ERROR = Measure(
    "baseline.anywhere.error_m.mean", "m", "centroid error of a uniformly random guess in the area, mean over UEs and "
    "rounds; for an attacked density, of a random grid point in the area, which is what a constant answer leaves",
    "area", "anywhere_m", "last"
)
TRUE_CENTROIDS_SW1 = Measure(
    "baseline.true_centroids.sw1_m.mean", "m", "SW1 of answering the true batch centroids, mean over UEs and models; "
    "no bound: an attack may lie below it", "guesses", "true_centroids_sw1_m"
)
NEAR = Measure(
    "leakage.near_m", "m", "setting learning.leakage.near_m: a place is found within this distance", "area", "near_m"
)
STRONGEST_NAMED = Measure(
    "leakage.strongest_named_within_near.percent", "%", "mean of the shares of homes, of workplaces, and of UEs "
    "without a home of their places of most time, that an attack names within leakage.near_m at the end; of the attack "
    "for which it is largest", "strongest", "share", "max"
)


def _attack(rest: str, unit: str, says: str, *of: Any, **shown: Any) -> Measure:
    """Of an attack; of : rows, column and, where the key does not end with it, the statistic."""
    return Measure(f"attack.{NAME}.{rest}", unit, says, *of, **shown)


ERROR_MEDIAN = _attack(
    "centroid_error_m.median", "m", "centroid error, median over UEs and rounds; a diverged estimate counts as "
    "infinite", "heard", "error_m", headline="centroid error", rule="distance",
    beside=(("map centre", "baseline.area_centre.error_m.median"),)
)
ERROR_LESS = tuple(
    _attack(f"centroid_error_m.less_baseline.{end}", "m", says, "less centre", end, "last")
    for end, says in (
        ("mean", "centroid error less that of always guessing the centre of the map, mean over UEs; a diverged "
         "estimate counts as this baseline"),
        ("low", "lower end of its 95 % interval (Student; of UEs, or of their days if UEs are fewer than five)"),
        ("high", "upper end of its 95 % interval"),
    )
)
COMPARED_ROUNDS = _attack(
    "compared_rounds.count", "", "rounds in which it was compared with the truth: those of "
    "`learning.leakage.every_rounds`, and the last one", "compared", "round", "distinct"
)
ERROR_INSIDE_MEAN = _attack(
    "centroid_error_m.inside.mean", "m", "centroid error, mean over estimates inside the area", "heard", "error_m"
)
ERROR_INSIDE_RMS = _attack("centroid_error_m.inside.rms", "m", "root mean square of the same", "heard", "error_m")
PLACE_ERROR = _attack(
    "place_error_m.mean", "m", "mean distance of the places that it names, weighted by the attack, mean over UEs and "
    "rounds (Z of the density paper)", "places", "place_error_m", headline="distance of named places",
    beside=(("constant answer", "baseline.anywhere.error_m.mean"),)
)
PLACES = _attack("places.mean", "", "places that it names per UE and round, mean", "places", "places")
STEP_EXACT = _attack(
    "step_exact.percent", "%", "share of displacements between two answers, along the attack's direction, that are "
    "right to within 1 m", "steps", lambda of: of["step_error_m"] <= 1.0
)
WALK_ERROR = _attack(
    "walk_error_m.mean", "m", "error of a UE's displacement since its first answer, along the attack's direction, mean "
    "over UEs", "walks", "walk_error_m", headline="error of a whole walk",
    beside=(("no motion", "attack.NAME.walk_no_motion_m.mean"),)
)
WALK_NO_MOTION = _attack(
    "walk_no_motion_m.mean", "m", "baseline: the same of the guess that no UE moved", "walks", "walk_no_motion_m"
)
NEAR_AUC = _attack(
    "near_auc", "", "of an attack that says who is near a place, as a base station: probability that it puts a UE that "
    "was nearer when it was asked than the median of all UEs and rounds before one that was not; 0.5 is random "
    "guessing", "near", "auc", headline="AUC of being near (chance 0.5)", better="high"
)
MOVED_AUC = _attack(
    "moved_auc", "", "of an attack that says who has moved: probability that it puts a UE that has before one that has "
    "not, over all rounds; moved: it was more than leakage.near_m from where it was when it was asked for the update "
    "that the attack had heard of it before; 0.5 is random guessing", "moved", "auc",
    headline="AUC of having moved (chance 0.5)", better="high"
)
SELECTED_ERROR = _attack(
    "selected_error_m.median", "m", "error against the mean of the samples trained on, median over UEs and rounds",
    "heard", "selected_error_m"
)
DIVERGED = _attack(
    "diverged.percent", "%", "share of estimates that are not finite or outside the area", "heard", "diverged"
)
SW1 = _attack(
    "sw1_m.mean", "m", "SW1 between all points and all estimates, mean over UEs and models", "last", "sw1_m",
    headline="SW1", rule="sw1", beside=(
        ("random guesses", "baseline.random_guess.sw1_m.q05"), ("random guesses", "baseline.random_guess.sw1_m.q95"),
        ("true centroids", "baseline.true_centroids.sw1_m.mean"),
    )
)
SQRT_SW1 = _attack("sqrt_sw1.mean", "m^0.5", "square root of the SW1, mean over UEs and models", "last", "sqrt_sw1")
SELF_TEST = _attack(
    "self_test_m.median", "m", "error on updates that the attacker made itself, median; null if it cannot or all "
    "failed", "efforts", "self_test_m", "known"
)
FAILED = _attack(
    "failed.percent", "%", "share of estimates with a status other than ok", "efforts", lambda of: of["status"] != "ok"
)
HOME_MEDIAN = _attack(
    "home_m.median", "m", "distance from home to the nearest estimate of the UE, over all its models, median over the "
    "UEs that have a home; infinite for a UE without an estimate", "homes", "home_m"
)
HOME_MIN = _attack("home_m.min", "m", "the same of the most exposed UE", "homes", "home_m")
GUESS_HOME = _attack(
    "guess_home_m.median", "m", "baseline: expected home_m of as many uniformly random guesses, median over UEs",
    "homes", "guess_home_m", "known"
)
HOME_NEAR_PERCENT = _attack(
    "home_within_near.percent", "%", "share of UEs that ever have an estimate within leakage.near_m of home",
    "home ever", "estimated", "share"
)
NAMED_EVER_PERCENT = _attack(
    "home_named_within_near.ever.percent", "%", "share of UEs that ever have a named place within leakage.near_m of "
    "home", "home ever", "named", "share"
)


def _named(place: str, count: str, says: str, headline: str) -> tuple[Measure, ...]:
    """Share of UEs of which a place is found at the end by those that an attack names, with kinds of chance."""
    key, rest = f"attack.{NAME}.{place}_named_within_near", f"{place}_named_within_near.percent"
    beside = tuple(("chance", f"{of}.percent") for of in (
        f"baseline.uniform.{place}_named_within_near", f"baseline.others.{place}_named_within_near", f"{key}.shuffled",
    ))
    return (
        Measure(f"{key}.percent", "%", says, place, "hit", "share", headline=f"{headline} within {{near}} m",
                rule="share", better="high", beside=beside, count=f"attack.{NAME}.{count}.count"),
        Measure(f"{key}.shuffled.percent", "%", f"baseline: {rest} of the places that the attack names of another UE, "
                "mean over all other attacked UEs; null for one UE", place, "shuffled", "share"),
        Measure(f"baseline.uniform.{rest}", "%", f"baseline: {rest} of two uniformly random places in the area, "
                "expected", f"{place} by chance", "uniform", "share"),
        Measure(f"baseline.others.{rest}", "%", f"baseline: {rest} of the two highest density peaks of the true "
                "positions of all other UEs, each with the same weight; null for one UE", f"{place} by chance",
                "others", "share"),
    )


_HOME = _named(
    "home", "homes", "share of UEs with a home that has a named place within leakage.near_m at the end of the run: one "
    "of the (at most two) latest answers, or else of the two highest density peaks of its estimates", "homes"
)
_WORK = _named("work", "workplaces", "the same share, of workplaces", "workplaces")
_BOTH = _named(
    "both", "commuters", "share of UEs with a home and a workplace that both have a named place within leakage.near_m",
    "both"
)
_DENSEST = _named(
    "densest", "densest", "share of UEs of a trace without a home whose place of most time has a named place within "
    "leakage.near_m at the end of the run", "places of most time"
)
HOME_NAMED_PERCENT, WORK_NAMED_PERCENT, BOTH_NAMED_PERCENT, DENSEST_NAMED_PERCENT = (
    of[0] for of in (_HOME, _WORK, _BOTH, _DENSEST)
)
SHUFFLED, UNIFORM, OTHERS = (tuple(of[k] for of in (_HOME, _WORK, _BOTH)) for k in (1, 2, 3))
"""by home, work and both"""
HOME_NAMED_ROUND = _attack(
    "home_named_within_near.round.median", "", "round from which on home stays named in this way until the end, median "
    "over UEs; null if fewer than half of them are named at the end", "home", "since"
)
HOME_NAMED_DAY = _attack(
    "home_named_within_near.day.median", "", "day in which the window of that round ends, from 1, median over UEs",
    "home", "day", headline="half of the homes from day"
)
HOME_SPOKEN = _attack(
    "home_spoken.percent", "%", "share of UEs with a home of whom the attack names a place at the end: as home, where "
    "it says which place is which; the rest count as not named", "home said", "spoken", "share"
)
WORK_SPOKEN = _attack("work_spoken.percent", "%", "the same share, of workplaces", "work said", "spoken", "share")
HOME_AS_OFTEN = _attack(
    "home_named_within_near.as_often.percent", "%", "baseline: home_named_within_near.percent of as many uniformly "
    "random places for each UE as the attack names of it, expected", "home said", "as_often", "share"
)
WORK_AS_OFTEN = _attack(
    "work_named_within_near.as_often.percent", "%", "the same share, of workplaces", "work said", "as_often", "share"
)
STATED_COUNT = _attack(
    "stated.count", "", "places at the end that the attack says are home or work, with a probability; third places "
    "have no truth to compare with", "stated", "probability"
)
STATED_MEAN = _attack("stated_probability.mean", "", "that probability, mean", "stated", "probability")
STATED_RIGHT = _attack(
    "stated_right.percent", "%", "share of these places within leakage.near_m of the true home, or workplace", "stated",
    "right"
)
RELIABILITY_ERROR = _attack(
    "stated.error", "", "expected calibration error (ECE): mean distance between stated probability and share right, "
    "in ten bins of probability, weighted by their places; null where nothing is stated", "reliability", "error",
    headline="calibration error", beside=(("right probabilities", "attack.NAME.stated.error.by_chance"),)
)
RELIABILITY_CHANCE = _attack(
    "stated.error.by_chance", "", "baseline: its mean for an attack whose stated probabilities are right",
    "reliability", "by_chance_error"
)
HOMES_COUNT = _attack("homes.count", "", "attacked UEs with a home: what shares of homes are over", "home", "hit")
WORKPLACES_COUNT = _attack("workplaces.count", "", "the same with a workplace", "work", "hit")
COMMUTERS_COUNT = _attack("commuters.count", "", "the same with both", "both", "hit")
DENSEST_COUNT = _attack(
    "densest.count", "", "attacked UEs of a trace without a home; of them the place of most time counts", "densest",
    "hit"
)

LIST_NEAR = Measure(
    "leakage.list_near_m", "m", "setting learning.leakage.list_near_m: a place of a list is right within this distance",
    "lists", "near_m"
)
_LIST_RIGHT = "listed.precision.percent"
LISTED, COVERED, ASIDE, LIST_UNIFORM, LIST_BUILDINGS = (
    Measure(key, "%", says, "list", column, "last", **dict[str, Any](shown))
    for key, column, says, shown in (
        (f"attack.NAME.{_LIST_RIGHT}", "participants", "share of the places that the attack lists at the end, of sums, "
         "published models, or updates under names that change, within leakage.list_near_m of any home or workplace", {
            "headline": "listed places that are right", "rule": "list", "better": "high", "beside": (
                ("of others", "attack.NAME.listed.aside.precision.percent"),
                ("random", f"baseline.uniform.{_LIST_RIGHT}"),
                ("by floor area", f"baseline.buildings.{_LIST_RIGHT}"),
         )}),
        ("attack.NAME.listed.coverage.percent", "covered", "share of homes and workplaces within that distance of any "
         "of them", {}),
        ("attack.NAME.listed.aside.precision.percent", "aside", f"baseline: {_LIST_RIGHT} of the same list against as "
         "many residents of the town who do not take part; null where they are not known", {}),
        (f"baseline.uniform.{_LIST_RIGHT}", "uniform", f"baseline: {_LIST_RIGHT} of as many uniformly random places in "
         "the area, expected", {}),
        (f"baseline.buildings.{_LIST_RIGHT}", "buildings", f"baseline: {_LIST_RIGHT} of as many middles of buildings, "
         "drawn by floor area, expected; null for a city without buildings", {}),
    )
)

_BELIEFS = {
    "filter": "beliefs after each round in which the UE measured",
    "smoother": "beliefs of these rounds after the last one",
    "plain": "estimates of the tracked attack alone in these rounds; one without has no error, and is not near",
    "prior": "baseline: the best answers in these rounds without any estimate",
}
_LESS = "mean error less that of the plain attack, over the same rounds"
TRACKING = {
    (who, column): Measure(
        f"tracking.{NAME}.{who}_{rest}", unit, f"{says}; {_BELIEFS[who]}", who, column, statistic,
        **dict[str, Any](shown if who == "filter" else {}),
    )
    for whose, column, rest, unit, says, statistic, shown in (
        (_BELIEFS, "error_m", "error_m.median", "m", "distance of the answer from the truth, median", "known", {
            "headline": "tracking error", "beside": (
                ("one round", "tracking.NAME.plain_error_m.median"), ("prior", "tracking.NAME.prior_error_m.median"),
        )}),
        (_BELIEFS, "near", "near.percent", "%", "share of answers within leakage.near_m of the truth", "share", {
            "headline": "tracked within {near} m", "better": "high", "beside": (
                ("one round", "tracking.NAME.plain_near.percent"), ("prior", "tracking.NAME.prior_near.percent"),
        )}),
        (("filter", "smoother"), "disc_probability", "stated_near.percent", "%",
         "the share within leakage.near_m as stated", "share", {}),
        (("filter", "smoother"), "reliability_error", "reliability_error", "", "difference of stated and true shares "
         "in ten bins of stated probability, weighted mean", "", {}),
        (("filter", "smoother"), "in90", "in_ninety.percent", "%", "share of truths in the area of 90 %", "share", {}),
        (("filter", "smoother"), "less_m", "less_plain_m.mean", "m", f"{_LESS}, mean over UEs", "", {}),
        (("filter", "smoother"), "less_low_m", "less_plain_m.low", "m", "lower end of its 95 % interval (Student; of "
         "UEs, or of their days if UEs are fewer than five)", "last", {}),
        (("filter", "smoother"), "less_high_m", "less_plain_m.high", "m", "upper end of its 95 % interval", "last", {}),
    )
    for who in whose
}
"""by belief, and column"""


def _linking(key: str, unit: str, says: str, column: str, weight: str = "", **shown: Any) -> Measure:
    """Of an attack that links names, to each other or to people: means over updates, or values at the end."""
    statistic = "share" if unit == "%" else ""
    return Measure(key, unit, says, key.partition(".")[0], column, statistic, weight, **shown)


LINKED_RIGHT = _linking(
    "linking.NAME.right.percent", "%", "share of updates, whose UEs were seen before under another name, that the "
    "attack gave to the track that last held their UE; this and what follows where names change (linking.csv)",
    "right_share", "seen", headline="names linked", better="high",
    beside=(("chance", "linking.NAME.chance_right.percent"),)
)
LINKED_BY_CHANCE = _linking(
    "linking.NAME.chance_right.percent", "%", "baseline: the same share of random assignments", "chance_share", "seen"
)
ANONYMITY_SET = _linking(
    "linking.NAME.anonymity_set.mean", "", "2^H, mean over updates that were linked; H: entropy in bits of the name "
    "under which a track goes on", "anonymity_set", "linked"
)
CONFUSION = _linking(
    "linking.NAME.time_to_confusion_s", "s", "time between successive updates of a UE, summed, over the number of "
    "updates that were not linked right; null where there is none", "time_to_confusion_s",
    headline="time to confusion", better="high", beside=(("chance", "linking.NAME.chance_time_to_confusion_s"),)
)
CONFUSION_BY_ENTROPY = _linking(
    "linking.NAME.entropy_time_to_confusion_s", "s", "the same over the number of updates whose track had an entropy "
    "above 0.4 bit", "entropy_time_to_confusion_s"
)
CONFUSION_BY_CHANCE = _linking(
    "linking.NAME.chance_time_to_confusion_s", "s", "baseline: the same for random assignments",
    "chance_time_to_confusion_s"
)
IDENTIFIED = _linking(
    "identities.NAME.right.percent", "%", "of an attack that knows where people live: share of names, of all rounds, "
    "that it gave to the right person of its directory; names of people outside left out (identities.csv)",
    "right_share", "names", headline="names given to the right person", better="high",
    beside=(("chance", "identities.NAME.chance_right.percent"),)
)
IDENTIFIED_AT_END = _linking(
    "identities.NAME.right_at_end.percent", "%", "the same share in the last round with such names", "right_share",
    "names at the end"
)
IDENTIFIED_BY_CHANCE = _linking(
    "identities.NAME.chance_right.percent", "%", "baseline: people given at random, 1 / people", "chance_share", "names"
)
IDENTITY_STATED = _linking(
    "identities.NAME.stated.percent", "%", "probability that the person is right, as the attack states it, mean over "
    "names that it gave to a person", "probability", "given"
)
IDENTITY_STATED_RIGHT = _linking(
    "identities.NAME.stated_right.percent", "%", "share of these for which it is right", "given_right_share", "given"
)
UNICITY = Measure(
    f"unicity.{NAME}.unique.percent", "%", "share of draws of so many true points of a UE that no other UE has; NAME: "
    "points-metres, the side of the squares (unicity.csv)", "unicity", "unique_percent", "last"
)
"""NAME is no part of the study here"""

AUC_LAST = Measure(
    "membership.NAME.auc.last", "", "area under the ROC curve of the last audit, members against held-out records",
    "audits", "auc", headline="membership AUC", rule="area", better="high",
    beside=(("before training", "membership.NAME.auc_before.last"),)
)
AUC_LOW = Measure("membership.NAME.auc.low", "", "lower end of its 95 % interval", "audits", "auc_low", "last")
AUC_HIGH = Measure("membership.NAME.auc.high", "", "upper end of its 95 % interval", "audits", "auc_high", "last")
AUC_BEFORE = Measure(
    "membership.NAME.auc_before.last", "", "the same area of the models before any training, of the same records; null "
    "for an attack that compares with the model before the round", "audits", "auc_before"
)
AUC_DIFFERENCE = Measure(
    "membership.NAME.auc_difference.last", "", "auc.last less auc_before.last: what training adds", "audits",
    "auc_difference"
)
AUC_DIFFERENCE_LOW = Measure(
    "membership.NAME.auc_difference.low", "", "lower end of its 95 % interval", "audits", "auc_difference_low", "last"
)
AUC_DIFFERENCE_HIGH = Measure(
    "membership.NAME.auc_difference.high", "", "upper end of its 95 % interval", "audits", "auc_difference_high", "last"
)
TPR_LAST = Measure(
    "membership.NAME.tpr_percent.last", "%", "true-positive rate of the last audit at a false-positive rate of 1 %",
    "audits", "tpr_percent", headline="true positives at 1 % false", better="high"
)

METRIC_LAST = Measure(
    "metric.NAME.last", "", "metric PART.METRIC of the table metrics, in the last round that has it", "metric", "value"
)
METRIC_MEAN = Measure(
    "metric.NAME.last20.mean", "", "its mean over the last 20 rounds that have it", "metric", "late_mean", "last"
)
METRIC_STD = Measure(
    "metric.NAME.last20.std", "", "its standard deviation over the last 20 rounds that have it", "metric", "late_std",
    "last"
)

EPSILON_MAX = Measure(
    "privacy.NAME.epsilon.max", "", "epsilon that a UE has spent on this mechanism, all rounds composed, max over UEs; "
    "NAME all: on all mechanisms of one unit and relation", "account", "epsilon", headline="epsilon", rule="epsilon",
    better="high"
)
WITH_CHANNEL_MAX = Measure(
    "privacy.NAME.with_channel.max", "", "the same epsilon if the channel's noise counts; null without such noise, or "
    "where it is infinite", "account", "with_channel"
)
EPSILON_PER_M_MAX = Measure(
    "privacy.NAME.epsilon_per_m.max", "1/m", "epsilon of a UE's moved locations, all rounds summed, max over UEs",
    "locations", "epsilon", headline="epsilon per metre", better="high"
)

RADIO_SAMPLES = Measure(
    "radio.samples", "", "samples of a radio study: one for each UE that is present at a sampling time", "samples",
    "count"
)
RADIO_UE_HOURS = Measure(
    "radio.ue_hours", "h", "time that the samples stand for, summed over UEs", "samples", "ue_hours", "last"
)
RADIO_INDOOR = Measure(
    "radio.indoor.percent", "%", "share of samples in buildings", "samples", "indoor", "last",
    headline="samples: indoors"
)
RADIO_LOS = Measure(
    "radio.los.percent", "%", "share of samples whose serving cell is in line of sight", "samples", "los_percent",
    "last", headline="samples: in line of sight"
)
RADIO_QUANTITIES = tuple(
    Measure(
        f"radio.{name}.{selection}{statistic}", unit, f"{says}, {which} of {samples}",
        f"{name} {selection or 'all.'}", statistic, "last",
        **dict[str, Any](
            {"headline": headline, "rule": "quantiles", "better": "high"} if selection + statistic == "median" else {}
        ),
    )
    for name, unit, headline, says in (
        ("rsrp_dbm", "dBm", "RSRP", "RSRP of the serving cell"),
        ("gain_db", "dB", "coupling gain", "coupling gain of the serving cell"),
        ("geometry_db", "dB", "geometry", "power of the serving cell over the sum of all other cells'"),
        ("sinr_db", "dB", "SINR", "downlink SINR at full load"),
        ("rate_bps", "bit/s", "rate", "downlink rate of a UE that is given the whole band"),
    )
    for selection, samples in (("", "all samples"), ("indoor.", "samples in buildings"), ("outdoor.", "other samples"))
    for statistic, which in (("q05", "5 % quantile"), ("median", "median"), ("q95", "95 % quantile"))
)
HANDOVER_COUNT = Measure(
    "handover.count", "", "handovers of all UEs in a radio study; null where handover is not modelled", "moves",
    "count", "last"
)
HANDOVER_RATE = Measure(
    "handover.per_ue_hour", "1/h", "handovers of a UE per hour of a radio study, mean", "moves", "rate", "last",
    headline="handovers of a UE", better="high"
)
# fmt: on


def _keys_in(value: object) -> Iterator[Measure]:
    """The keys that a name of this page stands for: one, or several in a tuple or by name."""
    if isinstance(value, Measure):
        yield value
    elif isinstance(value, tuple | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _keys_in(one)


KEYS: tuple[Measure, ...] = tuple(dict.fromkeys(key for value in list(vars().values()) for key in _keys_in(value)))
"""all of them, in the order of this page; of a key that fits several the first counts"""


def declaration(key: str) -> Measure | None:
    """The declaration of a key of a summary; None for one that has none."""
    return next((one for one in KEYS if one.name_in(key) is not None), None)


_PARTIAL = ("final", "list", "plan")
"""rows that have only some of the columns"""


def measured(rows: Mapping[str, Mapping[str, np.ndarray]], name: str = "") -> dict[str, Any]:
    """Values of the measures of some rows, by key, of the part `name`; rows: columns by the name of the rows."""
    found = (key for key in KEYS if key.rows in rows and key.named == bool(name))
    some = (key for key in found if key.rows not in _PARTIAL or key.column in rows[key.rows])
    return {key.of(name): key.value(rows[key.rows]) for key in some}


def check_declared(keys: Iterable[str]) -> None:
    """Raise KeyError for keys of a summary that are not declared here."""
    if unknown := [key for key in keys if declaration(key) is None]:
        raise KeyError(f"summary: no key {', '.join(unknown)} is declared")
