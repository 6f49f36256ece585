"""Names in the records of earlier versions and what they are called now: keys, tables, columns and files of a sweep.

Old names are refused where a person types them, with the new one; NAME in a pattern stands for a part of the study.
"""

from __future__ import annotations

import re

KEYS: dict[str, str] = {
    "refused.asked": "refused.requested",
    "refused.most": "refused.max",
    "updates.decoded_percent": "updates.decoded.percent",
    "updates.late_percent": "updates.late.percent",
    "uplink.delay_s.median": "uplink.latency_s.median",
    "utility.round_rmse_db": "utility.rmse_db.last_round",
    "users.pair_emd_sqrt_m.median": "users.pair_sqrt_sw1.median",
    "users.pair_emd_sqrt_m.min": "users.pair_sqrt_sw1.min",
    "users.pair_emd_sqrt_m.max": "users.pair_sqrt_sw1.max",
    "overheard.decoded_percent": "eavesdropper.decoded.percent",
    "overheard.sinr_db.median": "eavesdropper.sinr_db.median",
    "curation.fallback_percent": "curation.fallback.percent",
    "curation.NAME.fallback_percent": "curation.NAME.fallback.percent",
    "theorem.bound_m.median": "attack.closed-form.theorem_bound_m.median",
    "baseline.random_guess.sw1_m": "baseline.random_guess.sw1_m.mean",
    "baseline.random_guess.sw1_low_m": "baseline.random_guess.sw1_m.q05",
    "baseline.random_guess.sw1_high_m": "baseline.random_guess.sw1_m.q95",
    "baseline.random_guess.emd_sqrt_m": "baseline.random_guess.sqrt_sw1.mean",
    "baseline.area_centre.error_m": "baseline.area_centre.error_m.median",
    "baseline.anywhere.error_m": "baseline.anywhere.error_m.mean",
    "baseline.floor.sw1_m": "baseline.true_centroids.sw1_m.mean",
    "baseline.perfect_attacker.sw1_m.mean": "baseline.true_centroids.sw1_m.mean",
    "attack.NAME.centroid_error_m.mean_inside": "attack.NAME.centroid_error_m.inside.mean",
    "attack.NAME.centroid_error_m.rms_inside": "attack.NAME.centroid_error_m.inside.rms",
    "attack.NAME.centroid_error_m.last_round": "attack.NAME.centroid_error_m.last_round.mean",
    "attack.NAME.centroid_error_m.first_round": "attack.NAME.centroid_error_m.first_round.median",
    "attack.NAME.gated_centroid_error_m": "attack.NAME.centroid_error_m.gated.median",
    "attack.NAME.gated_emd_sqrt_m": "attack.NAME.sqrt_sw1.gated.mean",
    "attack.NAME.place_error_m": "attack.NAME.place_error_m.mean",
    "attack.NAME.places_mean": "attack.NAME.places.mean",
    "attack.NAME.step_error_m": "attack.NAME.step_error_m.mean",
    "attack.NAME.step_still_m": "attack.NAME.step_no_motion_m.mean",
    "attack.NAME.step_exact_percent": "attack.NAME.step_exact.percent",
    "attack.NAME.walk_error_m": "attack.NAME.walk_error_m.mean",
    "attack.NAME.walk_still_m": "attack.NAME.walk_no_motion_m.mean",
    "attack.NAME.diverged_percent": "attack.NAME.diverged.percent",
    "attack.NAME.failed_percent": "attack.NAME.failed.percent",
    "attack.NAME.sw1_m": "attack.NAME.sw1_m.mean",
    "attack.NAME.emd_sqrt_m": "attack.NAME.sqrt_sw1.mean",
    "attack.NAME.w1_m": "attack.NAME.w1_m.mean",
    "attack.NAME.centroid_w1_m": "attack.NAME.centroid_w1_m.mean",
    "attack.NAME.centroid_sw1_m": "attack.NAME.centroid_sw1_m.mean",
    "attack.NAME.self_test_m": "attack.NAME.self_test_m.median",
    "attack.NAME.smoothed_error_m": "attack.NAME.smoothed_error_m.median",
    "attack.NAME.track_error_m": "attack.NAME.track_error_m.median",
    "attack.NAME.home_m": "attack.NAME.home_m.median",
    "attack.NAME.home_worst_m": "attack.NAME.home_m.min",
    "attack.NAME.guess_home_m": "attack.NAME.guess_home_m.median",
    "attack.NAME.work_m": "attack.NAME.work_m.median",
    "attack.NAME.home_named_m": "attack.NAME.home_named_m.median",
    "attack.NAME.home_named_worst_m": "attack.NAME.home_named_m.min",
    "attack.NAME.work_named_m": "attack.NAME.work_named_m.median",
    "attack.NAME.home_within_{near}m_round": "attack.NAME.home_within_near.round.median",
    "attack.NAME.home_within_{near}m_probability": "attack.NAME.home_within_near.percent",
    "attack.NAME.home_named_{near}m_round": "attack.NAME.home_named_within_near.ever.round.median",
    "attack.NAME.home_named_{near}m_probability": "attack.NAME.home_named_within_near.ever.percent",
    "attack.NAME.home_to_peak_m.median": "attack.NAME.home_named_m.median",
    "attack.NAME.home_to_peak_m.min": "attack.NAME.home_named_m.min",
    "attack.NAME.work_to_peak_m.median": "attack.NAME.work_named_m.median",
    "attack.NAME.home_to_peak_within_near.round.median": "attack.NAME.home_named_within_near.ever.round.median",
    "attack.NAME.home_to_peak_within_near.percent": "attack.NAME.home_named_within_near.ever.percent",
    "attack.NAME.iterations_mean": "attack.NAME.iterations.mean",
    "attack.NAME.evaluations_mean": "attack.NAME.evaluations.mean",
    "membership.NAME.auc": "membership.NAME.auc.last",
    "membership.NAME.auc_low": "membership.NAME.auc.low",
    "membership.NAME.auc_high": "membership.NAME.auc.high",
    "membership.NAME.auc_largest": "membership.NAME.auc.max",
    "membership.NAME.tpr_percent": "membership.NAME.tpr_percent.last",
    "figure.NAME.last": "metric.NAME.last",
    "figure.NAME.last20_mean": "metric.NAME.last20.mean",
    "figure.NAME.last20_std": "metric.NAME.last20.std",
    "privacy.NAME.epsilon_max": "privacy.NAME.epsilon.max",
    "privacy.NAME.naive_max": "privacy.NAME.naive.max",
    "privacy.NAME.zcdp_max": "privacy.NAME.zcdp.max",
    "privacy.NAME.rdp_max": "privacy.NAME.rdp.max",
    "privacy.NAME.with_channel_max": "privacy.NAME.with_channel.max",
    "privacy.NAME.epsilon_per_m_max": "privacy.NAME.epsilon_per_m.max",
}
"""keys of summary.json; {near} is the value of learning.leakage.near_m, and a probability is now a percentage"""

TABLES: dict[str, str] = {
    "figures": "metrics",
    "transport": "wasserstein",
    "pairs": "user_distances",
    "overheard": "eavesdropper",
    "exchange": "matched_privacy",
    "trade-off": "tradeoff",
}
"""names of CSV files, without their ending; the last two lie beside the page of a sweep"""

COLUMNS: dict[str, dict[str, str]] = {
    "rounds": {"delay_s": "latency_s"},
    "links": {"delay_s": "latency_s"},
    "estimates": {"what": "quantity"},
    "leakage": {
        "emd_sqrt_m": "sqrt_sw1",
        "floor_sw1_m": "true_centroids_sw1_m",
        "perfect_attacker_sw1_m": "true_centroids_sw1_m",
        "guess_sw1_low_m": "guess_sw1_m_q05",
        "guess_sw1_high_m": "guess_sw1_m_q95",
        "home_to_peak_m": "home_named_m",
        "work_to_peak_m": "work_named_m",
        "step_still_m": "step_no_motion_m",
        "walk_still_m": "walk_no_motion_m",
    },
    "membership": {"tpr_low_percent": "tpr_percent_low", "tpr_high_percent": "tpr_percent_high"},
    "user_distances": {"emd_sqrt_m": "sqrt_sw1"},
    "tradeoff": {
        "utility": "rank_correlation",
        "with_exact": "kde_rank_correlation",
        "score_m": "place_error_m",
        "guess_m": "centroid_error_m",
        "constant_m": "anywhere_error_m",
    },
}
"""columns of a table, which goes by its new name"""


def new_key(old: str) -> str | None:
    """What a key of an earlier version is called now; None where it kept its name, or never was one."""
    for pattern, new in KEYS.items():
        name = r"(?P<name>.+)" if pattern.startswith("figure.") else r"(?P<name>[^.]+)"
        text = re.escape(pattern).replace("NAME", name).replace(re.escape("{near}"), r"[0-9.e+]+")
        if match := re.fullmatch(text, old):
            return new.replace("NAME", match["name"]) if "NAME" in pattern else new
    return None
