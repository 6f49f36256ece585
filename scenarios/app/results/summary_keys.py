"""Every key of summary.json, declared once: its name, unit and meaning.

A key is GROUP[.NAME].QUANTITY[_unit][.SELECTION][.STATISTIC]:

NAME       a part of the study: an attack, a mechanism, a step of curation, ...
QUANTITY   what is measured, ending with its unit: sw1_m, sinr_db, energy_j
SELECTION  the part of the values that is taken: inside (estimates inside the area), first_round, last_round, last20
           (the last 20 rounds), gated (only if the model is useful), ever (at any time, not only at the end), round
           and day (number of the round, or of the day), shuffled (each UE with what was named of another one)
STATISTIC  mean, median, min, max, std, rms, q05, q25, q75, q95; last; low and high (ends of a 95 % interval);
           percent (share for which something holds)

A key without a statistic is a count, a total, a setting, or a single value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from scenarios.app.results.measures import NAME, Measure

UES_COUNT = Measure("ues.count", "", "UEs in the world", False, "ue", "ues")
HOMES_NONE = Measure(
    "homes.none",
    "",
    "replayed UEs without a home: no place where they spend most of at least 3 nights and of more "
    "than half of all their nights",
)
HOMES_FEW_NIGHTS = Measure(
    "homes.few_nights", "", "of these, UEs with a fix between 0 and 6 h by the wall clock on fewer than 3 nights"
)
ROUNDS_PLAYED = Measure(
    "rounds.played",
    "",
    "rounds that were played: some UE had data, or the server adds noise in every round",
    False,
    "round",
    "rounds",
    "count",
)
ROUNDS_EMPTY = Measure("rounds.empty", "", "rounds that were skipped because no UE had data")
ROUNDS_HELD_OUT = Measure(
    "rounds.held_out", "", "played rounds without an update because all of their measurements are held out"
)
ROUNDS_STOPPED = Measure(
    "rounds.stopped_by_budget",
    "",
    "whether training stopped because the next round would have exceeded learning.privacy_budget",
)
SAMPLES_COUNT = Measure(
    "samples.count", "", "measurements of all played rounds; a survey that is kept for all rounds counts once"
)
SAMPLES_SELECTED = Measure(
    "samples.selected", "", "samples used for training, summed over rounds", False, "selected", "rounds", "sum"
)

REFUSED_COUNT = Measure(
    "refused.count",
    "",
    "requests that the query policies of UEs refused, all rounds",
    False,
    "refused",
    "rounds",
    "sum",
)
REFUSED_REQUESTED = Measure(
    "refused.requested", "", "requests that query policies decided on", False, "requested", "refusals", "sum"
)
REFUSED_ROUNDS = Measure(
    "refused.rounds", "", "rounds in which at least one UE refused", False, "some", "refusals", "sum"
)
REFUSED_BY_ALL = Measure(
    "refused.everybody_rounds", "", "rounds in which every requested UE refused", False, "everybody", "refusals", "sum"
)
REFUSED_MAX = Measure(
    "refused.max", "", "UEs that refused in one round, max over rounds", False, "most", "refusals", "last"
)
REFUSED_REASON = Measure("refused.reason.NAME", "", "requests refused for this reason; one may have several reasons")

WITHHELD_UPDATES = Measure(
    "withheld.NAME.updates.percent",
    "%",
    "share of the requests that UEs accepted in which this rule of withholding, by itself, lets them send nothing",
    False,
    "silent",
    "requests",
    "share",
)
WITHHELD_SAMPLES = Measure(
    "withheld.NAME.samples.percent",
    "%",
    "share of the samples that they would have learnt from which this rule, by itself, holds back",
    False,
    "held_back",
    "requests",
    "share",
)
SUMS_UNOPENED = Measure(
    "sums.unopened.percent",
    "%",
    "share of the sums of groups that the server could not open",
    False,
    "unopened",
    "sums",
    "share",
)
SUMS_LOST = Measure(
    "sums.lost.percent",
    "%",
    "share of the UEs whose update was decoded in time that were in a sum not opened; null if none was decoded",
    False,
    "lost",
    "sums",
    "share",
)
SUMS_SINGLE = Measure(
    "sums.single.percent",
    "%",
    "share of the sums opened that are the update of one UE, since no other of its group came",
    False,
    "single",
    "opened sums",
    "share",
)

UPDATES_SENT = Measure("updates.sent", "", "updates that UEs sent", False, "ue", "updates", "count")
UPDATES_DECODED = Measure(
    "updates.decoded.percent", "%", "share of updates that the server decoded in time", False, "decoded", "updates"
)
UPDATES_LATE = Measure(
    "updates.late.percent",
    "%",
    "share of updates that were not complete at the deadline and are lost",
    headline="uplink: late",
)
UPDATES_NO_RATE = Measure(
    "updates.without_rate.percent",
    "%",
    "share of updates whose UE got no rate, on the uplink or to receive the model, and sent nothing",
)
UPDATES_NON_FINITE = Measure(
    "updates.non_finite",
    "",
    "updates that overflowed on the UE: replaced by zero, with no weight",
    False,
    "non_finite",
    "rounds",
    "sum",
)

UPLINK_SINR = Measure(
    "uplink.sinr_db.median",
    "dB",
    "uplink SINR, median over UEs and rounds; null for an ideal uplink",
    False,
    "sinr_db",
    "links",
    "known",
    headline="uplink: SINR (median)",
)
UPLINK_LATENCY = Measure(
    "uplink.latency_s.median",
    "s",
    "latency from the server's request to the last bit, median over UEs and rounds",
    False,
    "latency_s",
    "links",
    "known",
    headline="uplink: latency (median)",
)
UPLINK_ENERGY = Measure(
    "uplink.energy_j",
    "J",
    "energy of all uplinks and all training",
    headline="uplink: energy",
)
UPLINK_VAIN_ENERGY = Measure(
    "uplink.energy_in_vain.percent",
    "%",
    "share of the energy of uplinks and training that UEs spent on updates which "
    "the server did not decode in time; null where nothing was spent",
    headline="uplink: energy wasted",
)
UPLINK_VAIN_BITS = Measure(
    "uplink.bits_in_vain.percent",
    "%",
    "share of all bits sent that were of updates which the server did not decode in time; null for an ideal uplink",
)
UPLINK_NOISE = Measure(
    "uplink.noise_std.median",
    "",
    "standard deviation of the noise that decoding adds to each number of an update, median over UEs and rounds",
    False,
    "noise_std",
    "links",
    "known",
)
UPLINK_HANDOVERS = Measure(
    "uplink.handovers",
    "",
    "handovers of all UEs; null where handover is not modelled (every UE is served by its strongest cell)",
)

UPLOADS_COUNT = Measure(
    "uploads.count",
    "",
    "uploads that the server asked for; this and what follows only where uploads take their time (transmissions.csv)",
    False,
    "ue",
    "uploads",
    headline="uploads: requested",
)
UPLOADS_ARRIVED = Measure(
    "uploads.arrived",
    "",
    "uploads whose last bit arrived in time",
    False,
    "arrived",
    "uploads",
    "sum",
    headline="uploads: arrived",
)
UPLOADS_LOST = {
    fate: Measure(f"uploads.{fate.replace('-', '_')}", "", meaning, False, fate, "uploads", "sum")
    for fate, meaning in (
        ("late", "uploads that were not complete at the deadline"),
        ("dropped", "uploads of UEs that left before the last bit"),
        ("undecoded", "uploads that were sent again too often, or were too weak"),
        ("exhausted", "uploads of UEs whose energy was spent"),
        ("no-cell", "uploads of UEs that no base station served"),
        ("stopped", "uploads that the server no longer needed"),
    )
}
"""by fate"""
UPLOADS_UNDER_WAY = Measure(
    "uploads.under_way", "", "uploads that had not ended at the end of the run", False, "under-way", "uploads", "sum"
)
UPLOADS_TIME = {
    part: (
        Measure(f"uploads.{quantity}.mean", "s", f"{meaning}, mean over uploads that arrived", False, part, "uploads"),
        Measure(f"uploads.{quantity}.q95", "s", "its 95 % quantile", False, part, "uploads"),
    )
    for part, quantity, meaning in (
        ("whole", "time_s", "time from the request to the last bit"),
        ("preparing", "preparing_s", "time from the request until the UE is ready to send: downlink and training"),
        ("waiting", "waiting_s", "time from then until it may send for the first time"),
        ("sending", "sending_s", "time from then to the last bit, pauses between grants included"),
    )
}
"""mean and 95 % quantile by part"""
UPLOADS_VAIN = Measure(
    "uploads.sent_in_vain.percent",
    "%",
    "share of all bits sent that were in tries that failed, or in uploads that did not arrive",
    False,
    "in_vain",
    "uploads",
    "share",
)
STALENESS_MEAN = Measure(
    "uploads.staleness.mean",
    "",
    "merges between the model that an update began from and its own, mean over merged updates",
    False,
    "staleness",
    "uploads",
    headline="uploads: merges behind (mean)",
)
STALENESS_MAX = Measure(
    "uploads.staleness.max", "", "the same, max over merged updates", False, "oldest", "uploads", "last"
)
MERGE_RATE = Measure(
    "merges.per_hour",
    "1/h",
    "merges of the server in an hour of simulated time, mean up to the last one",
    False,
    "merges_per_hour",
    "uploads",
)
REACHED_TIME = Measure(
    "reached.NAME.time_s",
    "s",
    "simulated time from the first request until a classifier had an accuracy of NAME % "
    "(50, 70, 80, 85 or 90) on held-out images, on average over the last fifth of that time; null if it never had; "
    "only where uploads take time",
)
REACHED_UPLOADS = Measure("reached.NAME.uploads", "", "uploads that the server had asked for by then")

PLAN = tuple(
    Measure(f"plan.{name}", unit, meaning)
    for name, unit, meaning in (
        ("switch_round", "", "rounds after which the plan lets the channel's noise take over (T_th)"),
        ("objective", "", "convergence bound at the planned powers"),
        ("total_w", "W", "planned power, sum over UEs"),
        ("noise_w", "W", "noise power of the receiver"),
        ("own_switch_round", "", "T_th at the powers of the reference run"),
        ("own_objective", "", "convergence bound at the powers of the reference run"),
        ("own_total_w", "W", "power in the reference run, sum over UEs"),
        ("evaluations", "", "evaluations of the bound during the search"),
    )
)

RMSE = Measure(
    "utility.rmse_db",
    "dB",
    "RMSE of the final model on all held-out samples; with hold_out_by: [day, block] on those "
    "of held-out days outside held-out blocks",
    headline="map RMSE",
    verdict="error",
    beside=(("constant", "utility.constant_rmse_db"), ("centralised", "utility.central_rmse_db")),
)
CONSTANT_RMSE = Measure("utility.constant_rmse_db", "dB", "baseline: RMSE of the mean of the training labels")
RAW_UPLOAD_RMSE = Measure(
    "utility.raw_upload_rmse_db", "dB", "baseline: RMSE of a nearest-neighbour map of raw uploads"
)
NEIGHBOURS_RMSE = Measure(
    "utility.neighbours_rmse_db", "dB", "reference: RMSE of a smoother nearest-neighbour map (learning.references)"
)
PATH_LOSS_RMSE = Measure(
    "utility.path_loss_rmse_db",
    "dB",
    "reference: RMSE of a law of three numbers fitted to each model: log-distance "
    "to the nearest base station, and an offset inside buildings; null of several cells at unknown places",
)
KRIGING_RMSE = Measure(
    "utility.kriging_rmse_db",
    "dB",
    "reference: RMSE of ordinary kriging, of what that law leaves where antennas are known",
)
CENTRAL_RMSE = Measure(
    "utility.central_rmse_db", "dB", "reference: RMSE of the same network trained centrally on the samples of all UEs"
)
FEDERATED_OVER_CENTRAL = Measure(
    "utility.federated_over_central",
    "",
    "utility.rmse_db / utility.central_rmse_db; null where that is above the constant: it failed",
)
BY_PLACE = {
    key: Measure(f"{key.key}.place", "dB", f"by place: {what}, on held-out samples in blocks without a training sample")
    for key, what in (
        (RMSE, "RMSE of the final model"),
        (CONSTANT_RMSE, "the constant"),
        (NEIGHBOURS_RMSE, "nearest neighbours"),
        (PATH_LOSS_RMSE, "the law of three numbers"),
        (KRIGING_RMSE, "kriging"),
        (CENTRAL_RMSE, "the network trained centrally"),
    )
}
"""the figures of a map by place, of 10 such blocks or more, by the figure on all held-out samples"""
PLACE_SAMPLES = Measure("utility.place.samples", "", "held-out samples in blocks (100 m) without a training sample")
PLACE_BLOCKS = Measure("utility.place.blocks", "", "blocks in which these lie")
GOOD = Measure(
    "utility.good",
    "",
    "whether a signal map is good: better than the law of three numbers, and by place at most 0.2 "
    "dB worse than it; null where one of the two is not scored",
)
LAST_ROUND_RMSE = Measure(
    "utility.rmse_db.last_round", "dB", "RMSE of the final model on the held-out samples of the last round", places=True
)
MAPE = Measure("utility.mape_percent", "%", "mean absolute percentage error of the final model, for labels in dBm")
CONSTANT_MAPE = Measure("utility.constant_mape_percent", "%", "baseline: the same of the mean of the training labels")
USEFUL_ROUND = Measure(
    "utility.useful_round",
    "",
    "first round with a useful model on the held-out samples so far; null if never",
    places=True,
)
USEFUL = Measure(
    "utility.useful",
    "",
    "whether the model is useful: a signal map at most 2 dB worse than a constant, a density "
    "with a rank correlation of at least 0.2, a classifier better than the most frequent class. Without it, low "
    "leakage proves nothing; high leakage is still real",
)
RANK_CORRELATION = Measure(
    "utility.rank_correlation",
    "",
    "Spearman's rank correlation, over the grid, between the density and the exact "
    "kernel density of all places of the last round",
    headline="rank correlation with the exact density",
    verdict="ranks",
    better="high",
)
TRUTH_RANK_CORRELATION = Measure(
    "utility.truth_rank_correlation", "", "the same between the density and the true distribution of UEs, if known"
)
KDE_TRUTH_RANK_CORRELATION = Measure(
    "utility.kde_truth_rank_correlation", "", "baseline: the same between the exact kernel density and that truth"
)
KDE_RMSE = Measure("utility.kde_rmse", "", "RMSE against the exact kernel density, for a kernel with maximum 1")
ACCURACY = Measure(
    "utility.accuracy_percent",
    "%",
    "held-out images that the final model classifies correctly",
    headline="accuracy",
    verdict="accuracy",
    better="high",
    beside=(("most frequent class", "utility.constant_accuracy_percent"),),
)
CONSTANT_ACCURACY = Measure(
    "utility.constant_accuracy_percent", "%", "baseline: held-out images of the most frequent class"
)
CROSS_ENTROPY = Measure("utility.cross_entropy_nats", "nat", "mean loss of the final model on held-out images")
NEW_LINKS_MAE = Measure("utility.mae_new_links_db", "dB", "mean absolute error of the final model on new links")
NEW_STATIONS_MAE = Measure("utility.mae_new_stations_db", "dB", "the same on links to new base stations")
NEW_POSITIONS_MAE = Measure("utility.mae_new_positions_db", "dB", "the same on links from new positions")
UTILITY = Measure("utility.NAME", "", "another metric that the learner reports for the final model, with its unit")

PAIR_SQRT_SW1_MEDIAN = Measure(
    "users.pair_sqrt_sw1.median",
    "m^0.5",
    "how alike UEs are: square root of the SW1 between the points of two UEs, median over pairs; null for one UE",
    True,
    "sqrt_sw1",
    "pairs",
    "known",
)
PAIR_SQRT_SW1_MIN = Measure(
    "users.pair_sqrt_sw1.min", "m^0.5", "the same of the most similar pair", True, "sqrt_sw1", "pairs"
)
PAIR_SQRT_SW1_MAX = Measure(
    "users.pair_sqrt_sw1.max", "m^0.5", "the same of the least similar pair", True, "sqrt_sw1", "pairs"
)

EAVESDROPPER_DECODED = Measure(
    "eavesdropper.decoded.percent",
    "%",
    "share of updates that the eavesdropper decoded; null without one",
    False,
    "decoded",
    "eavesdropper",
    headline="eavesdropper: decoded",
)
EAVESDROPPER_SINR = Measure(
    "eavesdropper.sinr_db.median",
    "dB",
    "SINR of the uplinks at the eavesdropper, median over updates; null without one",
    False,
    "sinr_db",
    "eavesdropper",
    "known",
)

ALL_FALLBACKS = Measure(
    "curation.fallback.percent",
    "%",
    "share of batches for which a step of curation took its fallback, all steps",
    False,
    "fallback",
    "batches",
)
FALLBACK = Measure(
    "curation.NAME.fallback.percent", "%", "the same of one step", False, "fallback", "batches of a step"
)

GUESS_SW1 = Measure(
    "baseline.random_guess.sw1_m.mean",
    "m",
    "SW1 of as many uniformly random guesses as the first attack with "
    "centroid estimates made, mean over draws, UEs and models",
    True,
    "guess_sw1_m",
    "guesses",
)
GUESS_SW1_Q05 = Measure(
    "baseline.random_guess.sw1_m.q05",
    "m",
    "its 5 % quantile over draws, mean over UEs and models: an attack above it is no better than random guesses",
    True,
    "guess_sw1_m_q05",
    "guesses",
    "mean",
)
GUESS_SW1_Q95 = Measure(
    "baseline.random_guess.sw1_m.q95",
    "m",
    "its 95 % quantile over draws, mean over UEs and models",
    True,
    "guess_sw1_m_q95",
    "guesses",
    "mean",
)
GUESS_SQRT_SW1 = Measure(
    "baseline.random_guess.sqrt_sw1.mean",
    "m^0.5",
    "square root of the mean over draws, mean over UEs and models",
    True,
    "guess_sqrt_sw1",
    "guesses",
)
AREA_CENTRE_ERROR = Measure(
    "baseline.area_centre.error_m.median",
    "m",
    "centroid error of always guessing the centre of the map, median over UEs and rounds",
    places=True,
)
ANYWHERE_ERROR = Measure(
    "baseline.anywhere.error_m.mean",
    "m",
    "centroid error of a uniformly random guess in the area, mean over UEs and "
    "rounds; for an attacked density, of a random grid point in the area, which is what a constant answer leaves",
    places=True,
)
TRUE_CENTROIDS_SW1 = Measure(
    "baseline.true_centroids.sw1_m.mean",
    "m",
    "SW1 of answering the true batch centroids, mean over UEs and models; no bound: an attack may lie below it",
    True,
    "true_centroids_sw1_m",
    "guesses",
)
NEAR = Measure(
    "leakage.near_m", "m", "setting learning.leakage.near_m: a place is found within this distance", places=True
)

STRONGEST_NAMED = Measure(
    "leakage.strongest_named_within_near.percent",
    "%",
    "mean of the shares of homes, of workplaces, and of UEs "
    "without a home of their places of most time, that an attack names within leakage.near_m at the end; of the attack "
    "for which it is largest",
    places=True,
)


def _attack(rest: str, unit: str, says: str, *of: str, **shown: Any) -> Measure:
    """Of an attack; of : column, rows and, where the key does not end with it, the statistic."""
    return Measure(f"attack.{NAME}.{rest}", unit, says, False, *of, **shown)


def _chances(what: str) -> tuple[tuple[str, str], ...]:
    """Baselines of what an attack names: uniformly random places, others' density, and places named of other UEs."""
    kinds = ("baseline.uniform.{}", "baseline.others.{}", "attack.NAME.{}.shuffled")
    return tuple(("chance", f"{kind.format(what)}.percent") for kind in kinds)


ERROR_MEDIAN = _attack(
    "centroid_error_m.median",
    "m",
    "centroid error, median over UEs and rounds; a diverged estimate counts as infinite",
    "error_m",
    "heard",
    headline="centroid error",
    verdict="distance",
    beside=(("map centre", "baseline.area_centre.error_m.median"),),
)
COMPARED_ROUNDS = _attack(
    "compared_rounds.count",
    "",
    "rounds in which it was compared with the truth: those of `learning.leakage.every_rounds`, and the last one",
    "round",
    "compared",
    "distinct",
)
ERROR_Q25 = _attack("centroid_error_m.q25", "m", "its lower quartile", "error_m", "heard")
ERROR_Q75 = _attack("centroid_error_m.q75", "m", "its upper quartile", "error_m", "heard")
ERROR_INSIDE_MEAN = _attack(
    "centroid_error_m.inside.mean", "m", "centroid error, mean over estimates inside the area", "error_m", "heard"
)
ERROR_INSIDE_RMS = _attack("centroid_error_m.inside.rms", "m", "root mean square of the same", "error_m", "heard")
ERROR_LAST_ROUND = _attack(
    "centroid_error_m.last_round.mean",
    "m",
    "centroid error in the last round, mean over estimates inside the area",
    "error_m",
    "last round",
)
ERROR_FIRST_ROUND = _attack(
    "centroid_error_m.first_round.median",
    "m",
    "error of the first estimate, median over UEs and models",
    "error_m",
    "first estimates",
)
ERROR_GATED = _attack(
    "centroid_error_m.gated.median",
    "m",
    "centroid_error_m.median if the model is useful; null if it is not",
    "error_m",
    "heard if useful",
)
PLACE_ERROR = _attack(
    "place_error_m.mean",
    "m",
    "mean distance of the places that it names, weighted by the attack, mean over UEs and "
    "rounds (Z of the density paper)",
    "place_error_m",
    "places",
    headline="distance of named places",
    beside=(("constant answer", "baseline.anywhere.error_m.mean"),),
)
PLACES = _attack("places.mean", "", "places that it names per UE and round, mean", "places", "places")
STEP_ERROR = _attack(
    "step_error_m.mean",
    "m",
    "error of the displacement between two answers, along the attack's direction, mean",
    "step_error_m",
    "steps",
)
STEP_NO_MOTION = _attack(
    "step_no_motion_m.mean", "m", "baseline: the same of the guess that no UE moved", "step_no_motion_m", "steps"
)
STEP_EXACT = _attack(
    "step_exact.percent", "%", "share of these displacements that are right to within 1 m", "exact", "steps"
)
WALK_ERROR = _attack(
    "walk_error_m.mean",
    "m",
    "error of a UE's displacement since its first answer, along the attack's direction, mean over UEs",
    "walk_error_m",
    "walks",
    headline="error of a whole walk",
    beside=(("no motion", "attack.NAME.walk_no_motion_m.mean"),),
)
WALK_NO_MOTION = _attack(
    "walk_no_motion_m.mean", "m", "baseline: the same of the guess that no UE moved", "walk_no_motion_m", "walks"
)
NEAR_AUC = _attack(
    "near_auc",
    "",
    "of an attack that says who is near a place, as a base station: probability that it puts a UE that "
    "was nearer when it was asked than the median of all UEs and rounds before one that was not; 0.5 is random "
    "guessing",
    "auc",
    "near",
    headline="AUC of being near",
    verdict="area",
    better="high",
)
MOVED_AUC = _attack(
    "moved_auc",
    "",
    "of an attack that says who has moved: probability that it puts a UE that has before one that has "
    "not, over all rounds; moved: it was more than leakage.near_m from where it was when it was asked for the update "
    "that the attack had heard of it before; 0.5 is random guessing",
    "auc",
    "moved",
    headline="AUC of having moved",
    verdict="area",
    better="high",
)
SELECTED_ERROR = _attack(
    "selected_error_m.median",
    "m",
    "error against the mean of the samples trained on, median over UEs and rounds",
    "selected_error_m",
    "heard",
)
DIVERGED = _attack(
    "diverged.percent", "%", "share of estimates that are not finite or outside the area", "diverged", "heard"
)
SW1 = _attack(
    "sw1_m.mean",
    "m",
    "SW1 between all points and all estimates, mean over UEs and models",
    "sw1_m",
    "last",
    headline="SW1",
    verdict="sw1",
    beside=(
        ("random guesses", "baseline.random_guess.sw1_m.q05"),
        ("random guesses", "baseline.random_guess.sw1_m.q95"),
        ("true centroids", "baseline.true_centroids.sw1_m.mean"),
    ),
)
SQRT_SW1 = _attack("sqrt_sw1.mean", "m^0.5", "square root of the SW1, mean over UEs and models", "sqrt_sw1", "last")
SQRT_SW1_GATED = _attack(
    "sqrt_sw1.gated.mean",
    "m^0.5",
    "sqrt_sw1.mean if the model is useful; null if it is not",
    "sqrt_sw1",
    "last if useful",
)
W1 = _attack(
    "w1_m.mean",
    "m",
    "exact Wasserstein distance between points and estimates at the end, mean over UEs and models",
    "w1_m",
    "exact",
)
CENTROID_W1 = _attack(
    "centroid_w1_m.mean", "m", "the same between the true batch centroids and the estimates", "centroid_w1_m", "exact"
)
CENTROID_SW1 = _attack(
    "centroid_sw1_m.mean",
    "m",
    "SW1 between the true batch centroids and the estimates, mean over UEs and models",
    "centroid_sw1_m",
    "last",
)
SMOOTHED_ERROR = _attack(
    "smoothed_error_m.median",
    "m",
    "error of the median of all estimates, median over UEs",
    "smoothed_error_m",
    "last",
    "known",
)
TRACK_ERROR = _attack(
    "track_error_m.median",
    "m",
    "error of the most recent estimate, mean over rounds, median over UEs and models",
    "track_error_m",
    "last",
    "known",
)
THEOREM_BOUND = Measure(
    "attack.NAME.theorem_bound_m.median",
    "m",
    "Theorem 1's bound of the closed-form attack's error against the "
    "samples trained on, median over UEs and rounds; null unless FedSGD",
    True,
    "bound_m",
    "bounds",
    "known",
)
SELF_TEST = _attack(
    "self_test_m.median",
    "m",
    "error on updates that the attacker made itself, median; null if it cannot or all failed",
    "self_test_m",
    "efforts",
    "known",
)
FAILED = _attack("failed.percent", "%", "share of estimates with a status other than ok", "failed", "efforts")
HOME_MEDIAN = _attack(
    "home_m.median",
    "m",
    "distance from home to the nearest estimate of the UE, over all its models, median over the "
    "UEs that have a home; infinite for a UE without an estimate",
    "home_m",
    "homes",
)
HOME_MIN = _attack("home_m.min", "m", "the same of the most exposed UE", "home_m", "homes")
GUESS_HOME = _attack(
    "guess_home_m.median",
    "m",
    "baseline: expected home_m of as many uniformly random guesses, median over UEs",
    "guess_home_m",
    "homes",
    "known",
)
WORK_MEDIAN = _attack(
    "work_m.median", "m", "distance from the workplace to the nearest estimate, median over UEs", "work_m", "homes"
)
HOME_NAMED_MEDIAN = _attack(
    "home_named_m.median",
    "m",
    "distance from home to the nearer of the (at most two) places that the attack names at "
    "the end: its latest answers, or else the two highest density peaks of its estimates; median over UEs",
    "home_named_m",
    "homes",
)
HOME_NAMED_MIN = _attack("home_named_m.min", "m", "the same of the most exposed UE", "home_named_m", "homes")
WORK_NAMED_MEDIAN = _attack(
    "work_named_m.median", "m", "the same from the workplace, median over UEs", "work_named_m", "homes"
)
HOME_NEAR_ROUND = _attack(
    "home_within_near.round.median",
    "",
    "first round with an estimate within leakage.near_m of home, median over UEs; "
    "null if fewer than half of them have one",
    "round",
    "home ever",
)
HOME_NEAR_PERCENT = _attack(
    "home_within_near.percent", "%", "share of UEs that ever have such an estimate", "found", "home ever", "share"
)
NAMED_EVER_ROUND = _attack(
    "home_named_within_near.ever.round.median",
    "",
    "first round with a named place within leakage.near_m of home, "
    "median over UEs; null if fewer than half of them have one",
    "round",
    "home named ever",
)
NAMED_EVER_PERCENT = _attack(
    "home_named_within_near.ever.percent",
    "%",
    "share of UEs that ever have such a place",
    "found",
    "home named ever",
    "share",
)
HOME_NAMED_PERCENT = _attack(
    "home_named_within_near.percent",
    "%",
    "share of UEs with a home that has a named place within leakage.near_m at the end of the run",
    "hit",
    "home",
    "share",
    headline="homes within {near} m",
    verdict="share",
    better="high",
    beside=_chances("home_named_within_near"),
    count="attack.NAME.homes.count",
)
HOME_NAMED_LOW = _attack(
    "home_named_within_near.low", "%", "lower end of its 95 % interval (Wilson, over UEs)", "hit", "home"
)
HOME_NAMED_HIGH = _attack("home_named_within_near.high", "%", "upper end of its 95 % interval", "hit", "home")
HOME_NAMED_ROUND = _attack(
    "home_named_within_near.round.median",
    "",
    "round from which on home stays named in this way until the end, median "
    "over UEs; null if fewer than half of them are named at the end",
    "since",
    "home",
)
HOME_NAMED_DAY = _attack(
    "home_named_within_near.day.median",
    "",
    "day in which the window of that round ends, from 1, median over UEs",
    "day",
    "home",
)
WORK_NAMED_PERCENT = _attack(
    "work_named_within_near.percent",
    "%",
    "the same share, of workplaces",
    "hit",
    "work",
    "share",
    headline="workplaces within {near} m",
    verdict="share",
    better="high",
    beside=_chances("work_named_within_near"),
    count="attack.NAME.workplaces.count",
)
WORK_NAMED_LOW = _attack("work_named_within_near.low", "%", "lower end of its 95 % interval", "hit", "work")
WORK_NAMED_HIGH = _attack("work_named_within_near.high", "%", "upper end of its 95 % interval", "hit", "work")
BOTH_NAMED_PERCENT = _attack(
    "both_named_within_near.percent",
    "%",
    "share of UEs with a home and a workplace that both have a named place within leakage.near_m",
    "hit",
    "both",
    "share",
    headline="both within {near} m",
    verdict="share",
    better="high",
    beside=_chances("both_named_within_near"),
    count="attack.NAME.commuters.count",
)
BOTH_NAMED_LOW = _attack("both_named_within_near.low", "%", "lower end of its 95 % interval", "hit", "both")
BOTH_NAMED_HIGH = _attack("both_named_within_near.high", "%", "upper end of its 95 % interval", "hit", "both")
FIRST_NAMED_PERCENT = _attack(
    "first_named_within_near.percent",
    "%",
    "share of UEs whose home or workplace lies within leakage.near_m of the place that the attack names first",
    "hit",
    "first",
    "share",
)
HOME_SPOKEN = _attack(
    "home_spoken.percent",
    "%",
    "share of UEs with a home of whom the attack names a place at the end: as home, where "
    "it says which place is which; the rest count as not named",
    "spoken",
    "home said",
)
WORK_SPOKEN = _attack("work_spoken.percent", "%", "the same share, of workplaces", "spoken", "work said")
HOME_AS_OFTEN = _attack(
    "home_named_within_near.as_often.percent",
    "%",
    "baseline: home_named_within_near.percent of as many uniformly "
    "random places for each UE as the attack names of it, expected",
    "as_often",
    "home said",
)
WORK_AS_OFTEN = _attack(
    "work_named_within_near.as_often.percent", "%", "the same share, of workplaces", "as_often", "work said"
)
STATED_COUNT = _attack(
    "stated.count",
    "",
    "places at the end that the attack says are home or work, with a probability; third places "
    "have no truth to compare with",
    "probability",
    "stated",
)
STATED_MEAN = _attack("stated_probability.mean", "", "that probability, mean", "probability", "stated")
STATED_RIGHT = _attack(
    "stated_right.percent",
    "%",
    "share of these places within leakage.near_m of the true home, or workplace",
    "right",
    "stated",
)
RELIABILITY_ERROR = _attack(
    "stated.error",
    "",
    "mean distance between stated probability and share right, in ten bins of probability, "
    "weighted by their places; null where nothing is stated",
    "error",
    "reliability",
)
RELIABILITY_LOW = _attack(
    "stated.error.low", "", "lower end of its 95 % interval (bootstrap over UEs)", "error_low", "reliability", "last"
)
RELIABILITY_HIGH = _attack(
    "stated.error.high", "", "upper end of its 95 % interval", "error_high", "reliability", "last"
)
RELIABILITY_CHANCE = _attack(
    "stated.error.by_chance",
    "",
    "baseline: its mean for an attack whose stated probabilities are right",
    "by_chance_error",
    "reliability",
)
BRIER = _attack(
    "stated.brier",
    "",
    "mean squared difference between stated probability and 1 (right) or 0 (wrong)",
    "brier",
    "reliability",
)
HOMES_COUNT = _attack("homes.count", "", "attacked UEs with a home: what shares of homes are over", "hit", "home")
WORKPLACES_COUNT = _attack("workplaces.count", "", "the same with a workplace", "hit", "work")
COMMUTERS_COUNT = _attack("commuters.count", "", "the same with both", "hit", "both")

DENSEST_COUNT = _attack(
    "densest.count",
    "",
    "attacked UEs of a trace without a home; of them the place of most time counts",
    "hit",
    "densest",
)
DENSEST_MEDIAN = _attack("densest_m.median", "m", "home_m.median, from this place of these UEs", "densest_m", "densest")
GUESS_DENSEST = _attack(
    "guess_densest_m.median",
    "m",
    "baseline: expected densest_m of as many uniformly random guesses, median over UEs",
    "guess_densest_m",
    "densest",
    "known",
)
DENSEST_NAMED_MEDIAN = _attack(
    "densest_named_m.median", "m", "home_named_m.median, from this place of these UEs", "densest_named_m", "densest"
)
DENSEST_NAMED_PERCENT = _attack(
    "densest_named_within_near.percent",
    "%",
    "share of these UEs that have a named place within leakage.near_m of it at the end of the run",
    "hit",
    "densest",
    "share",
    headline="places of most time within {near} m",
    verdict="share",
    better="high",
    beside=_chances("densest_named_within_near"),
    count="attack.NAME.densest.count",
)
DENSEST_NAMED_LOW = _attack(
    "densest_named_within_near.low", "%", "lower end of its 95 % interval (Wilson, over UEs)", "hit", "densest"
)
DENSEST_NAMED_HIGH = _attack("densest_named_within_near.high", "%", "upper end of its 95 % interval", "hit", "densest")
DENSEST_NAMED_ROUND = _attack(
    "densest_named_within_near.round.median",
    "",
    "round from which on it stays named in this way until the end, "
    "median over these UEs; null if fewer than half of them are named at the end",
    "since",
    "densest",
)
DENSEST_NAMED_DAY = _attack(
    "densest_named_within_near.day.median",
    "",
    "day in which the window of that round ends, from 1, median over UEs",
    "day",
    "densest",
)
DENSEST_SHUFFLED = _attack(
    "densest_named_within_near.shuffled.percent",
    "%",
    "baseline: densest_named_within_near.percent of the places that "
    "the attack names of another UE, mean over all other attacked UEs; null for one UE",
    "shuffled",
    "densest",
)
DENSEST_UNIFORM = Measure(
    "baseline.uniform.densest_named_within_near.percent",
    "%",
    "baseline: densest_named_within_near.percent of two uniformly random places in the area, expected",
    True,
    "uniform",
    "densest by chance",
)
DENSEST_OTHERS = Measure(
    "baseline.others.densest_named_within_near.percent",
    "%",
    "baseline: the same of the two highest density peaks of the true positions of all other UEs; null for one UE",
    True,
    "others",
    "densest by chance",
)


def _chance(name: str, meaning: str, column: str, rows: str) -> tuple[Measure, ...]:
    """Shares of home, work, both and the first place that are found by places named by chance."""
    same = "the same share, "
    return tuple(
        Measure(
            f"{name.format(f'{place}_named_within_near')}.percent", "%", what, True, column, rows.format(place=place)
        )
        for place, what in (
            ("home", f"baseline: {meaning}"),
            ("work", f"{same}of workplaces"),
            ("both", f"{same}of both"),
            ("first", f"{same}by the first place"),
        )
    )


LIST_NEAR = Measure(
    "leakage.list_near_m",
    "m",
    "setting learning.leakage.list_near_m: a place of a list is right within this distance",
    places=True,
)
LISTED = {
    "participants": (
        Measure(
            "attack.NAME.listed.precision.percent",
            "%",
            "share of the places that the attack lists at the end, of "
            "sums, published models, or updates under names that change, within leakage.list_near_m of any home or "
            "workplace",
        ),
        Measure(
            "attack.NAME.listed.coverage.percent",
            "%",
            "share of homes and workplaces within that distance of any of them",
        ),
    ),
    "aside": (
        Measure(
            "attack.NAME.listed.aside.precision.percent",
            "%",
            "baseline: listed.precision.percent of the same list against as "
            "many residents of the town who do not take part; null where they are not known",
        ),
        Measure(
            "attack.NAME.listed.aside.coverage.percent",
            "%",
            "baseline: listed.coverage.percent against these residents",
        ),
    ),
}
LIST_CHANCE = {
    source: (
        Measure(
            f"baseline.{source}.listed.precision.percent",
            "%",
            f"baseline: listed.precision.percent of as many {what}",
            places=True,
        ),
        Measure(f"baseline.{source}.listed.coverage.percent", "%", "the same, listed.coverage.percent", places=True),
    )
    for source, what in (
        ("uniform", "uniformly random places in the area, expected"),
        ("buildings", "middles of buildings, drawn by floor area, expected; null for a city without buildings"),
    )
}

SHUFFLED = _chance(
    f"attack.{NAME}.{{}}.shuffled",
    "home_named_within_near.percent of the places that the attack names of another UE, "
    "mean over all other attacked UEs; null for one UE",
    "shuffled",
    "{place}",
)
UNIFORM = _chance(
    "baseline.uniform.{}",
    "home_named_within_near.percent of two uniformly random places in the area, expected",
    "uniform",
    "{place} by chance",
)
OTHERS = _chance(
    "baseline.others.{}",
    "home_named_within_near.percent of the two highest density peaks of the true positions of "
    "all other UEs, each with the same weight; null for one UE",
    "others",
    "{place} by chance",
)
ITERATIONS = _attack("iterations.mean", "", "iterations per estimate, mean", "iterations", "efforts")
EVALUATIONS = _attack("evaluations.mean", "", "gradient evaluations per estimate, mean", "evaluations", "efforts")

WHO = {
    "filter": "beliefs after each round in which the UE measured",
    "smoother": "beliefs of these rounds after the last one",
    "plain": "estimates of the tracked attack alone in these rounds; one without has no error, and is not near",
    "prior": "baseline: the best answers in these rounds without any estimate",
}
"""who is asked where UEs are"""
_BELIEFS = ("filter", "smoother")
_LESS = "mean error less that of the plain attack, over the same rounds"
TRACKING = {
    (who, column): Measure(f"tracking.{NAME}.{who}_{rest}", unit, f"{meaning}; {of}", False, column, who, statistic)
    for who, of in WHO.items()
    for whose, column, rest, unit, meaning, statistic in (
        (WHO, "error_m", "error_m.median", "m", "distance of the answer from the truth, median", "known"),
        (WHO, "mean_error_m", "error_m.mean", "m", "the same, mean", ""),
        (WHO, "near", "near.percent", "%", "share of answers within leakage.near_m of the truth", "share"),
        (WHO, "known_h", "known_h.mean", "h", "time during which that holds, mean over UEs", ""),
        (
            (*_BELIEFS, "prior"),
            "expected_distance_m",
            "expected_distance_m.mean",
            "m",
            "location privacy: expected distance from the truth",
            "",
        ),
        (
            _BELIEFS,
            "disc_probability",
            "stated_near.percent",
            "%",
            "the share within leakage.near_m as stated",
            "share",
        ),
        (_BELIEFS, "stated_error_m", "stated_error_m.mean", "m", "the mean error as stated", ""),
        (
            _BELIEFS,
            "reliability_error",
            "reliability_error",
            "",
            "difference of stated and true shares in ten bins of stated probability, weighted mean",
            "",
        ),
        (_BELIEFS, "in50", "in_half.percent", "%", "share of truths in the area of 50 %", "share"),
        (_BELIEFS, "in90", "in_ninety.percent", "%", "share of truths in the area of 90 %", "share"),
        (_BELIEFS, "area90_m2", "ninety_area_m2.median", "m2", "smallest area that holds 90 % of the belief", "known"),
        (_BELIEFS, "entropy_bits", "entropy_bits.mean", "bit", "entropy of the belief over cells", ""),
        (_BELIEFS, "less_m", "less_plain_m.mean", "m", f"{_LESS}, mean over UEs", ""),
        (
            _BELIEFS,
            "less_low_m",
            "less_plain_m.low",
            "m",
            "lower end of its 95 % interval (Student; of UEs, or of their days if UEs are fewer than five)",
            "last",
        ),
        (_BELIEFS, "less_high_m", "less_plain_m.high", "m", "upper end of its 95 % interval", "last"),
        (
            ("filter",),
            "useful_error_m",
            "error_m.gated.median",
            "m",
            "the median error if the model is useful, else null",
            "known",
        ),
        (
            ("prior",),
            "draw_near",
            "draw_near.percent",
            "%",
            "probability that a place drawn from the prior is within leakage.near_m",
            "share",
        ),
    )
    if who in whose
}
"""by who is asked, and column"""


def _linking(pattern: str, unit: str, meaning: str, column: str, weight: str = "", **shown: Any) -> Measure:
    """Of an attack that links names, to each other or to people: means over updates, or values at the end."""
    statistic = "share" if unit == "%" else ""
    return Measure(pattern, unit, meaning, False, column, pattern.partition(".")[0], statistic, weight, **shown)


LINKED_RIGHT = _linking(
    "linking.NAME.right.percent",
    "%",
    "share of updates, whose UEs were seen before under another name, that the "
    "attack gave to the track that last held their UE; this and what follows where names change (linking.csv)",
    "right_share",
    "seen",
    headline="names linked",
    better="high",
    beside=(("chance", "linking.NAME.chance_right.percent"),),
)
LINKED_BY_CHANCE = _linking(
    "linking.NAME.chance_right.percent", "%", "baseline: the same share of random assignments", "chance_share", "seen"
)
ANONYMITY_SET = _linking(
    "linking.NAME.anonymity_set.mean",
    "",
    "2^H, mean over updates that were linked; H: entropy in bits of the name under which a track goes on",
    "anonymity_set",
    "linked",
)
CONFUSION = _linking(
    "linking.NAME.time_to_confusion_s",
    "s",
    "time between successive updates of a UE, summed, over the number of "
    "updates that were not linked right; null where there is none",
    "time_to_confusion_s",
)
CONFUSION_BY_ENTROPY = _linking(
    "linking.NAME.entropy_time_to_confusion_s",
    "s",
    "the same over the number of updates whose track had an entropy above 0.4 bit",
    "entropy_time_to_confusion_s",
)
CONFUSION_BY_CHANCE = _linking(
    "linking.NAME.chance_time_to_confusion_s",
    "s",
    "baseline: the same for random assignments",
    "chance_time_to_confusion_s",
)
IDENTIFIED = _linking(
    "identities.NAME.right.percent",
    "%",
    "of an attack that knows where people live: share of names, of all rounds, "
    "that it gave to the right person of its directory; names of people outside left out (identities.csv)",
    "right_share",
    "names",
    headline="names given to the right person",
    better="high",
    beside=(("chance", "identities.NAME.chance_right.percent"),),
)
IDENTIFIED_AT_END = _linking(
    "identities.NAME.right_at_end.percent",
    "%",
    "the same share in the last round with such names",
    "right_share",
    "names at the end",
)
IDENTIFIED_BY_CHANCE = _linking(
    "identities.NAME.chance_right.percent", "%", "baseline: people given at random, 1 / people", "chance_share", "names"
)
IDENTITY_STATED = _linking(
    "identities.NAME.stated.percent",
    "%",
    "probability that the person is right, as the attack states it, mean over names that it gave to a person",
    "probability",
    "given",
)
IDENTITY_STATED_RIGHT = _linking(
    "identities.NAME.stated_right.percent", "%", "share of these for which it is right", "given_right_share", "given"
)
IDENTITY_SET = _linking(
    "identities.NAME.anonymity_set.mean",
    "",
    "2^H, mean over names of which it says anything; H: entropy in bits over people",
    "anonymity_set",
    "told",
)
OTHERS_IDENTIFIED = _linking(
    "identities.NAME.others_given.percent",
    "%",
    "share of names of people outside the directory that were given to a "
    "person, all of them falsely; null where everybody is in it",
    "others_given_share",
    "others",
)

UNICITY = Measure(
    f"unicity.{NAME}.unique.percent",
    "%",
    "share of draws of so many true points of a UE that no other UE has; NAME: "
    "points-metres, the side of the squares (unicity.csv)",
)
"""NAME is no part of the study here"""

AUC_LAST = Measure(
    "membership.NAME.auc.last",
    "",
    "area under the ROC curve of the last audit, members against held-out records",
    False,
    "auc",
    "audits",
    headline="membership AUC",
    verdict="area",
    better="high",
    beside=(("before training", "membership.NAME.auc_before.last"),),
)
AUC_LOW = Measure("membership.NAME.auc.low", "", "lower end of its 95 % interval", False, "auc_low", "audits", "last")
AUC_HIGH = Measure(
    "membership.NAME.auc.high", "", "upper end of its 95 % interval", False, "auc_high", "audits", "last"
)
AUC_MAX = Measure(
    "membership.NAME.auc.max", "", "area under the ROC curve, max over audits", False, "auc", "scored audits"
)
AUC_BEFORE = Measure(
    "membership.NAME.auc_before.last",
    "",
    "the same area of the models before any training, of the same records; null "
    "for an attack that compares with the model before the round",
    False,
    "auc_before",
    "audits",
)
AUC_DIFFERENCE = Measure(
    "membership.NAME.auc_difference.last",
    "",
    "auc.last less auc_before.last: what training adds",
    False,
    "auc_difference",
    "audits",
)
AUC_DIFFERENCE_LOW = Measure(
    "membership.NAME.auc_difference.low",
    "",
    "lower end of its 95 % interval",
    False,
    "auc_difference_low",
    "audits",
    "last",
)
AUC_DIFFERENCE_HIGH = Measure(
    "membership.NAME.auc_difference.high",
    "",
    "upper end of its 95 % interval",
    False,
    "auc_difference_high",
    "audits",
    "last",
)
TPR_LAST = Measure(
    "membership.NAME.tpr_percent.last",
    "%",
    "true-positive rate of the last audit at a false-positive rate of 1 %",
    False,
    "tpr_percent",
    "audits",
)

METRIC_LAST = Measure("metric.NAME.last", "", "metric PART.METRIC of the table metrics, in the last round that has it")
METRIC_MEAN = Measure("metric.NAME.last20.mean", "", "its mean over the last 20 rounds that have it")
METRIC_STD = Measure("metric.NAME.last20.std", "", "its standard deviation over the last 20 rounds that have it")

EPSILON_MAX = Measure(
    "privacy.NAME.epsilon.max",
    "",
    "epsilon that a UE has spent on this mechanism, all rounds composed, max over UEs; "
    "NAME all: on all mechanisms of one unit and relation",
    False,
    "epsilon",
    "account",
    headline="epsilon",
    verdict="epsilon",
    better="high",
)
DELTA = Measure("privacy.NAME.delta", "", "delta of that epsilon", False, "delta", "account")
NAIVE_MAX = Measure("privacy.NAME.naive.max", "", "the same epsilon by basic composition", False, "naive", "account")
ZCDP_MAX = Measure("privacy.NAME.zcdp.max", "", "the same epsilon by zCDP", False, "zcdp", "account")
RDP_MAX = Measure("privacy.NAME.rdp.max", "", "the same epsilon by Renyi DP", False, "rdp", "account")
WITH_CHANNEL_MAX = Measure(
    "privacy.NAME.with_channel.max",
    "",
    "the same epsilon if the channel's noise counts; null without such noise, or where it is infinite",
    False,
    "with_channel",
    "account",
)
EPSILON_PER_M_MAX = Measure(
    "privacy.NAME.epsilon_per_m.max",
    "1/m",
    "epsilon of a UE's moved locations, all rounds summed, max over UEs",
    False,
    "epsilon",
    "locations",
)

RADIO_SAMPLES = Measure(
    "radio.samples", "", "samples of a radio study: one for each UE that is present at a sampling time"
)
RADIO_UE_HOURS = Measure("radio.ue_hours", "h", "time that the samples stand for, summed over UEs")
RADIO_INDOOR = Measure("radio.indoor.percent", "%", "share of samples in buildings")
RADIO_LOS = Measure("radio.los.percent", "%", "share of samples whose serving cell is in line of sight")
RADIO_QUANTITIES = tuple(
    Measure(f"radio.{name}.{selection}{statistic}", unit, f"{quantity}, {which} of {samples}")
    for name, unit, quantity in (
        ("rsrp_dbm", "dBm", "RSRP of the serving cell"),
        ("gain_db", "dB", "coupling gain of the serving cell"),
        ("geometry_db", "dB", "power of the serving cell over the sum of all other cells'"),
        ("sinr_db", "dB", "downlink SINR at full load"),
        ("rate_bps", "bit/s", "downlink rate of a UE that is given the whole band"),
    )
    for selection, samples in (("", "all samples"), ("indoor.", "samples in buildings"), ("outdoor.", "other samples"))
    for statistic, which in (("q05", "5 % quantile"), ("median", "median"), ("q95", "95 % quantile"))
)
HANDOVER_COUNT = Measure(
    "handover.count", "", "handovers of all UEs in a radio study; null where handover is not modelled"
)
HANDOVER_RATE = Measure(
    "handover.per_ue_hour",
    "1/h",
    "handovers of a UE in an hour of a radio study, mean",
    headline="handovers per UE-hour",
    better="high",
)


def _keys_in(value: object) -> Iterator[Measure]:
    """The keys that a name of this page stands for: one, or several in a tuple or by name."""
    if isinstance(value, Measure):
        yield value
    elif isinstance(value, tuple | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _keys_in(one)


KEYS: tuple[Measure, ...] = tuple(key for value in list(vars().values()) for key in _keys_in(value))
"""all of them, in the order of this page; of a key that fits several the first counts"""


def declaration(key: str) -> Measure | None:
    """The declaration of a key of a summary; None for one that has none."""
    return next((one for one in KEYS if one.name_in(key) is not None), None)


def measured(rows: Mapping[str, Mapping[str, np.ndarray]], name: str = "") -> dict[str, Any]:
    """Values of the measures of some rows, by key, of the part `name`; rows: columns by the name of the rows."""
    return {key.of(name): key.value(rows[key.rows]) for key in KEYS if isinstance(key, Measure) and key.rows in rows}


def check_declared(keys: Iterable[str]) -> None:
    """Raise KeyError for keys of a summary that are not declared here."""
    if unknown := [key for key in keys if declaration(key) is None]:
        raise KeyError(f"summary: no key {', '.join(unknown)} is declared")
