"""Every record table of a run, column by column: meaning, unit and type. The reference is generated from this.

A column's name ends with its unit (`_m`, `_s`, `_db`, `_percent`, ...), followed by the statistic where a cell is one
(`_max`, `_q05`, `_low`). A cell is empty where a value does not exist or is not finite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Column:
    """Column of one table. A flag is 1 (yes) or 0 (no); an integer is below 2^53."""

    meaning: str
    unit: str = ""
    type: Literal["number", "integer", "text", "flag"] = "number"


def _text(meaning: str) -> Column:
    return Column(meaning, type="text")


def _whole(meaning: str) -> Column:
    return Column(meaning, type="integer")


def _flag(meaning: str) -> Column:
    return Column(meaning, type="flag")


_ROUND = _whole("number of the round, from 1")
_REQUEST = Column("when the server requested updates: the end of the round's time window", "s")
_MERGE = Column("when the server merged the last update that counts", "s")
_ATTACK_TIME = Column("when the attack ran: at the merge; of an eavesdropper, after the last transmission", "s")
_PHASE = _text("phase of the learner")
_ATTACK = _text("name of the attack")
_UE = _whole("index of the UE in ues.csv")
_MODEL = _whole("index of the model (cell) in manifest.json")
_UNIT = _text("privacy unit, whose data a neighbouring data set may change: user, record or location")
_RELATION = _text("neighbouring relation: add-remove or replace; of a location: per metre")

TABLES: dict[str, dict[str, Column]] = {
    "rounds": {
        "round": _whole("number of the round, from 1; without data only where the server adds noise in every round"),
        "time_s": Column(
            "when the server merged the last update that counts, and published the model; from local midnight of the "
            "first day",
            "s",
        ),
        "requested_s": _REQUEST,
        "ues": _whole("UEs that took part"),
        "samples": _whole("measurements of the round, held-out ones included"),
        "held_out": _whole(
            "of these, measurements that score the model and train nothing; 0 in merges of a server without rounds, "
            "which have no window"
        ),
        "selected": _whole("samples used for training, after hold-out and curation"),
        "refused": _whole("UEs whose query policy refused"),
        "decoded": _whole("updates that the server decoded in time"),
        "non_finite": _whole("updates that overflowed on the UE: replaced by zero, with no weight"),
        "update_norm": Column("L2 norm of the updates before any defense, median over updates"),
        "step_stability": Column(
            "learning rate * 2 * mean |dF/dw|^2 over at most 20,000 samples; full-batch descent is unstable above 2"
        ),
        "rmse_db": Column("RMSE of the model on held-out samples so far (at most 2,000, evenly thinned)", "dB"),
        "rmse_round_db": Column(
            "RMSE of the model on the held-out samples of this round; empty for a merge without rounds", "dB"
        ),
        "constant_rmse_db": Column("baseline: RMSE of the mean of all training labels so far", "dB"),
        "raw_upload_rmse_db": Column(
            "baseline: RMSE of a nearest-neighbour map of the raw training samples; like `constant_rmse_db` it is "
            "measured in every round up to 5,000 samples, then whenever they have grown by a fiftieth",
            "dB",
        ),
        "epsilon_max": Column(
            "largest epsilon of any UE so far, over mechanisms and their composition; empty without noise"
        ),
        "epsilon_per_m_max": Column("largest epsilon of any UE's moved locations so far, summed", "1/m"),
        "energy_j": Column("energy of all uplinks and all training in the round", "J"),
        "late": _whole("updates that arrived after the deadline and are lost"),
        "latency_s": Column("latency from the server's request to the last bit of an update, max over updates", "s"),
    },
    "withholding": {
        "round": _ROUND,
        "time_s": _REQUEST,
        "rule": _text("name of the rule of withholding"),
        "ue": _whole("index of a UE that was asked and has accepted"),
        "model": _MODEL,
        "before": _whole("samples that it would have learnt from"),
        "after": _whole("samples that the rule, by itself, lets it learn from; 0: it sends nothing for the model"),
    },
    "curation": {
        "round": _ROUND,
        "time_s": _REQUEST,
        "step": _text("name of the curation step"),
        "ue": _UE,
        "model": _MODEL,
        "before": _whole("samples before the step"),
        "after": _whole("samples after the step"),
        "clusters": _whole("clusters of the samples; -1 for a step that does not cluster"),
        "noise": _whole("samples that belong to no cluster; -1 for a step that does not cluster"),
        "fallback": _flag("whether the step could not be applied and took its fallback (see its description)"),
    },
    "updates": {
        "round": _ROUND,
        "time_s": Column("when its last bit arrived; empty if it never did", "s"),
        "phase": _PHASE,
        "ue": _UE,
        "model": _MODEL,
        "samples": _whole("measurements of the UE in the round, held-out ones included"),
        "selected": _whole("samples that the UE trained on"),
        "x_m": Column(
            "true mean of the positions measured in the round, or of those trained on where there are none, east", "m"
        ),
        "y_m": Column("the same, north", "m"),
        "selected_x_m": Column("mean of the positions that the UE trained on, east", "m"),
        "selected_y_m": Column("mean of the positions that the UE trained on, north", "m"),
        "norm": Column("L2 norm of the update before any defense"),
        "sent_norm": Column("L2 norm of the update as the server received it"),
        "bias_rms": Column("root mean square of the first layer's bias update, divided by the learning rate"),
        "bound_m": Column(
            "Theorem 1's bound of the closed-form error against the samples trained on; FedSGD only", "m"
        ),
        "decoded": _flag("whether the server decoded it in time"),
        "weight": Column("its weight in the merge"),
    },
    "sums": {
        "round": _ROUND,
        "time_s": _MERGE,
        "phase": _PHASE,
        "group": _whole("number of the group of UEs whose updates are summed (`threat: observes: aggregate`)"),
        "ues": _whole("UEs of the group that had an update to send"),
        "decoded": _whole("UEs of the group that the server decoded in time, whose updates are the sum"),
        "opened": _flag("whether the server could open the sum; if not, no attack observes it and it is not merged"),
    },
    "links": {
        "round": _ROUND,
        "time_s": _REQUEST,
        "ue": _UE,
        "x_m": Column("position at the request, east", "m"),
        "y_m": Column("position at the request, north", "m"),
        "base_station": _text("name of the serving base station; empty where a trace replaces the radio"),
        "distance_m": Column("three-dimensional distance to the serving base station", "m"),
        "rsrp_dbm": Column("RSRP of the serving base station", "dBm"),
        "power_w": Column("transmit power, mean over the airtime", "W"),
        "sinr_db": Column("uplink SINR; empty for an ideal uplink", "dB"),
        "noise_std": Column("standard deviation of the noise that decoding adds to each number of the update"),
        "rate_bps": Column("uplink rate; empty for an ideal uplink", "bit/s"),
        "airtime_s": Column(
            "duration of the transmission: 32 bits a number at the uplink rate, with noisy decoding as well; up to the "
            "deadline for a late one; empty for a UE without a rate",
            "s",
        ),
        "latency_s": Column(
            "latency from the server's request to the last bit, or to the deadline; empty for a UE without a rate", "s"
        ),
        "energy_j": Column("energy of uplink (transmit power times airtime) and training", "J"),
        "decoded": _flag("whether the server decoded the update in time"),
        "late": _flag("whether the update had a sufficient SINR, but was not complete at the deadline"),
    },
    "transmissions": {
        "round": _whole("number of the round that its update was merged in, or would have been"),
        "ue": _UE,
        "requested_s": Column("when the server asked", "s"),
        "ready_s": Column("when the UE had received the model and trained; empty if it never had", "s"),
        "granted_s": Column("when it was first allowed to send; empty if it never was", "s"),
        "ended_s": Column("when its last bit arrived, or when it was lost; empty if it could not send at all", "s"),
        "fate": _text(
            "what became of it: arrived, undecoded (sent again too often, or too weak), late (not complete at the "
            "deadline), dropped (the UE left), exhausted (its energy was spent), no-cell (no cell served it), stopped "
            "(the server had enough), under-way (not ended when the world did)"
        ),
        "bits": Column("size of the upload, all rows of the UE together", "bit"),
        "sent_bits": Column("bits that were on the air, those sent again included", "bit"),
        "lost_bits": Column("bits of tries that failed and were sent again", "bit"),
        "version": _whole("number of merges before the model that the update began from was published"),
        "staleness": _whole(
            "merges between that model and the one that the update was merged into; empty if there is none"
        ),
    },
    "handovers": {
        "time_s": Column("simulated time; checked once a tick", "s"),
        "ue": _UE,
        "source": _text("name of the base station before the handover"),
        "target": _text("name of the base station after the handover"),
        "source_dbm": Column("RSRP of the source", "dBm"),
        "target_dbm": Column("RSRP of the target", "dBm"),
    },
    "estimates": {
        "round": _ROUND,
        "time_s": _ATTACK_TIME,
        "phase": _PHASE,
        "attack": _ATTACK,
        "ue": _whole("index of the UE that the estimate is about"),
        "model": _MODEL,
        "quantity": _text(
            "what is estimated: centroid (mean position of the batch), place (one of several positions), answer (one "
            "of the positions that the attack names of the UE after all rounds so far), step (displacement since the "
            "last answer), near (the UE is near this place), or moved (the UE has moved since its last estimate)"
        ),
        "x_m": Column("estimate, east; empty when not finite", "m"),
        "y_m": Column("estimate, north; empty when not finite", "m"),
        "weight": Column("confidence that the attack gives it; of moved, by how much, m"),
        "loss": Column("value of the attack's objective, where it has one"),
        "iterations": _whole("iterations of the attack"),
        "evaluations": _whole("gradient evaluations of the attack"),
        "status": _text("ok, or why there is no estimate"),
        "self_test_m": Column(
            "error of the same attack on an update of one sample that the attacker made itself; empty if it failed, "
            "or if the threat model does not let the attacker train",
            "m",
        ),
    },
    "eavesdropper": {
        "round": _ROUND,
        "time_s": Column("when the last bit was sent; empty if it never was", "s"),
        "phase": _PHASE,
        "ue": _UE,
        "distance_m": Column("three-dimensional distance from the UE to the eavesdropper", "m"),
        "los": _flag("whether this link is in line of sight"),
        "sinr_db": Column("SINR of the UE's uplink at the eavesdropper", "dB"),
        "noise_std": Column("standard deviation of the noise on each number of the update, as decoded there"),
        "decoded": _flag("whether the eavesdropper decoded the update"),
    },
    "leakage": {
        "round": _ROUND,
        "time_s": _ATTACK_TIME,
        "attack": _ATTACK,
        "ue": _UE,
        "model": _MODEL,
        "heard": _flag("whether the attack made an estimate for this UE in this round"),
        "error_m": Column("distance from the centroid estimate to the mean of all points measured in the round", "m"),
        "selected_error_m": Column("distance from the centroid estimate to the mean of the points trained on", "m"),
        "diverged": _flag("whether the estimate is not finite or outside the area"),
        "sw1_m": Column(
            "sliced Wasserstein distance (SW1) between all points and all estimates so far; of more than 500 "
            "estimates, as many evenly in time",
            "m",
        ),
        "sqrt_sw1": Column("square root of sw1_m, which appears to be the unit of the published figures", "m^0.5"),
        "true_centroids_sw1_m": Column("sw1_m of answering the true batch centroids; no bound", "m"),
        "guess_sw1_m": Column("baseline: sw1_m of as many uniformly random guesses, mean over draws", "m"),
        "guess_sw1_m_q05": Column("5 % quantile of it over draws", "m"),
        "guess_sw1_m_q95": Column("95 % quantile of it over draws", "m"),
        "home_m": Column(
            "distance from the UE's home to the nearest estimate of the UE so far, over all its models; it can only "
            "shrink as estimates are added, so compare it with guess_home_m",
            "m",
        ),
        "work_m": Column("the same for the UE's workplace", "m"),
        "home_named_m": Column(
            "distance from home to the nearer of the (at most two) places that the attack names of the UE now: its "
            "latest answers, or else the two highest density peaks of its estimates so far",
            "m",
        ),
        "work_named_m": Column("the same for the workplace", "m"),
        "named_x_m": Column(
            "the first of these places, east; empty for none, and for a UE without a home, workplace or densest place",
            "m",
        ),
        "named_y_m": Column("the same, north", "m"),
        "second_x_m": Column("the second of these places, east; empty for none", "m"),
        "second_y_m": Column("the same, north", "m"),
        "guess_home_m": Column("baseline: expected home_m of as many uniformly random guesses", "m"),
        "densest_m": Column("home_m, from the place of most time of a replayed UE that has no home; else empty", "m"),
        "densest_named_m": Column("home_named_m, from this place", "m"),
        "guess_densest_m": Column("baseline: expected densest_m of as many uniformly random guesses", "m"),
        "places": _whole("places that the attack named in the round"),
        "place_error_m": Column(
            "mean distance of these places to the mean of all points of the round, weighted by the attack", "m"
        ),
        "step_error_m": Column("error of the displacement since the last answer, along the attack's direction", "m"),
        "step_no_motion_m": Column("baseline: the same error of the guess that the UE did not move", "m"),
        "walk_error_m": Column("error of the displacement since the first answer, along the attack's direction", "m"),
        "walk_no_motion_m": Column("baseline: the same error of the guess that the UE did not move", "m"),
    },
    "membership": {
        "round": _ROUND,
        "time_s": _ATTACK_TIME,
        "attack": _text("name of the membership attack"),
        "sees": _text("what it observed: updates (the model of each UE), aggregate, or model (the published one)"),
        "members": _whole("records trained on in the round; of images those that are paired with one held out"),
        "non_members": _whole("records that were held out; of images as many of each UE and class as members"),
        "auc": Column("area under the ROC curve, members against non-members; 0.5 is random guessing"),
        "auc_low": Column("lower end of its 95 % interval (DeLong; Obuchowski over held-out wholes, or pairs)"),
        "auc_high": Column("upper end of its 95 % interval"),
        "auc_before": Column(
            "the same of the models before any training, asked of the same records: what their places and times tell "
            "by themselves; empty for an attack that compares with the model before the round"
        ),
        "auc_difference": Column("auc less auc_before: what training adds"),
        "auc_difference_low": Column("lower end of its 95 % interval (paired DeLong; Obuchowski over wholes or pairs)"),
        "auc_difference_high": Column("upper end of its 95 % interval"),
        "tpr_percent": Column("true-positive rate at a false-positive rate of 1 %", "%"),
        "tpr_percent_low": Column("lower end of its 95 % interval (Wilson, over members, or wholes of them)", "%"),
        "tpr_percent_high": Column("upper end of its 95 % interval", "%"),
    },
    "spends": {
        "round": _ROUND,
        "time_s": _MERGE,
        "mechanism": _text("name of the part that drew the noise"),
        "ue": _whole("index of the UE whose data it protects"),
        "model": _MODEL,
        "std": Column("standard deviation of the noise on each number"),
        "sensitivity": Column("L2 sensitivity: how far one neighbour can move the payload"),
        "noise_multiplier": Column("std / sensitivity"),
        "sampling_rate": Column("probability of taking part that the ledger counts on"),
        "channel_std": Column("standard deviation of the receiver's thermal noise; not part of epsilon"),
        "points": _whole("locations that were moved, for a mechanism that moves locations"),
        "epsilon_per_m": Column("epsilon that each of them costs", "1/m"),
        "unit": _UNIT,
        "relation": _RELATION,
        "delta": Column("delta of epsilon"),
        "epsilon": Column("epsilon that the UE has spent so far on this mechanism; exact, or by RDP where sampled"),
        "epsilon_with_channel": Column("the same if the channel's noise counts, for an attacker with this receiver"),
    },
    "privacy": {
        "mechanism": _text("name of the part that drew the noise; all: all mechanisms of one unit and relation"),
        "ue": _whole("index of the UE; -1: the same for every UE, as for a published model"),
        "unit": _UNIT,
        "relation": _RELATION,
        "delta": Column("delta of the epsilons of this row"),
        "draws": _whole("noise draws that are composed"),
        "naive": Column("epsilon by basic composition: each draw at delta / draws, summed"),
        "zcdp": Column("epsilon by zero-concentrated DP, without amplification by sampling"),
        "rdp": Column("epsilon by Renyi DP (the moments accountant)"),
        "epsilon": Column("smallest valid epsilon of all accountants"),
        "accountant": _text("the accountant of epsilon: exact (no sampling), PLD (sampled UEs) or RDP"),
        "with_channel": Column(
            "exact epsilon if the channel's noise counts; for a UE whose channel adds none, its epsilon; empty without "
            "channel noise, under sampling, or where infinite"
        ),
    },
    "metrics": {
        "round": _ROUND,
        "time_s": _MERGE,
        "part": _text("learner, query, aggregation, or the name of the defense or attack that reports the metric"),
        "name": _text(
            "name of the metric with its unit (see the part's description); for example mae_links_db and kde_rmse of "
            "learners, and bands_probability of a query"
        ),
        "value": Column("value of the metric in this round"),
    },
    "final": {
        "name": _text("name of a metric of the final model, or of its baselines, on all held-out samples"),
        "value": Column("value of the metric"),
    },
    "named": {
        "attack": _ATTACK,
        "ue": _whole("index of an attacked UE; no row where no UE of the run has a home or a workplace"),
        "rank": _whole(
            "1: what the attack names first, 2: what it names second; of an attack that says which place is which, "
            "1: home, 2: work, 3 and more: third places"
        ),
        "x_m": Column("place that the attack names of the UE at the end of the run (see leakage.csv), east", "m"),
        "y_m": Column("the same, north", "m"),
        "place": _text("which place the attack says it is: home, work, third 1, ...; empty where it does not say"),
        "probability": Column(
            "that it is within leakage.hit_radius_m, as the attack states it; empty where it does not"
        ),
    },
    "listed": {
        "attack": _ATTACK,
        "rank": _whole(
            "1: the best place of the list that the attack makes at the end of the run, of any UE; only of "
            "sums, published models, and updates under names that change"
        ),
        "x_m": Column("the place, east", "m"),
        "y_m": Column("the same, north", "m"),
    },
    "list_scores": {
        "source": _text(
            "whose list: attack, uniform (random places in the area, expected), or buildings (middles of buildings, "
            "drawn by floor area, expected)"
        ),
        "attack": _text("name of the attack; empty for chance"),
        "residents": _text(
            "whose homes and workplaces: participants (the UEs), or aside (as many who do not take part)"
        ),
        "precision_percent": Column(
            "share of the places of the list within leakage.list_hit_radius_m of any home or workplace", "%"
        ),
        "coverage_percent": Column("share of homes and workplaces within that distance of any of these places", "%"),
    },
    "tracking": {
        "round": _ROUND,
        "time_s": Column("end of the window that the row is about", "s"),
        "attack": _ATTACK,
        "ue": _whole("index of a UE that measured in the round and of which the attack believes anything"),
        "hindsight": _flag("what the attack believes of this round after the last one; 0: after the round itself"),
        "x_m": Column("answer of least expected distance, east", "m"),
        "y_m": Column("the same, north", "m"),
        "disc_x_m": Column(
            "centre of the disc of radius leakage.hit_radius_m that holds most of the belief, east", "m"
        ),
        "disc_y_m": Column("the same, north", "m"),
        "disc_probability": Column("probability that the UE is in that disc, as the attack states it"),
        "stated_error_m": Column("expected distance of the answer, as the attack states it", "m"),
        "area50_m2": Column("smallest area that holds half of the belief", "m2"),
        "area90_m2": Column("smallest area that holds 90 % of the belief", "m2"),
        "entropy_bits": Column("entropy of the belief over cells", "bit"),
        "error_m": Column("distance of the answer from the true mean position in the round", "m"),
        "near": _flag("whether the truth is within leakage.hit_radius_m of the disc's centre"),
        "expected_distance_m": Column("distance from the truth, mean over the belief: the location privacy", "m"),
        "in50": _flag("whether the truth lies in the area of 50 %"),
        "in90": _flag("whether the truth lies in the area of 90 %"),
        "truth_x_m": Column("true mean of the positions measured in the round, east", "m"),
        "truth_y_m": Column("the same, north", "m"),
        "plain_error_m": Column(
            "distance of the tracked attack's own estimate of the round; empty in hindsight, or without one", "m"
        ),
        "plain_near": _flag("whether the truth is within leakage.hit_radius_m of it"),
        "prior_error_m": Column("baseline: distance of the best answer without any estimate", "m"),
        "prior_near": _flag("baseline: whether the truth is in the best disc without any estimate"),
        "prior_expected_distance_m": Column("baseline: location privacy against the prior alone", "m"),
        "prior_draw_near": Column(
            "baseline: probability that a place drawn from the prior is within leakage.hit_radius_m"
        ),
    },
    "beliefs": {
        "round": _ROUND,
        "time_s": Column("end of the window that the row is about", "s"),
        "attack": _ATTACK,
        "ue": _whole("index of one of the first leakage.belief_ues UEs"),
        "hindsight": _flag("what the attack believes of this round after the last one; 0: after the round itself"),
        "x_m": Column("middle of a cell, east; the likeliest cells until 0.95 is reached, at most 60", "m"),
        "y_m": Column("the same, north", "m"),
        "probability": Column("that the UE is in the cell"),
        "cell_m": Column("side of the cell", "m"),
    },
    "linking": {
        "round": _ROUND,
        "time_s": _REQUEST,
        "attack": _text("name of an attack that links names; rows only where names change (threat.pseudonyms)"),
        "seen": _whole("updates of the round whose UEs were seen before under another name"),
        "linked": _whole("how many of them the attack gave to a track that it had already"),
        "right_share": Column("share of the updates seen that it gave to the track that last held their UE"),
        "chance_share": Column(
            "baseline: the same of a random assignment of the new names to the UEs that may have them"
        ),
        "anonymity_set": Column(
            "2^H, mean over the updates linked; H: entropy in bits of the name under which the track goes on"
        ),
        "time_to_confusion_s": Column(
            "time between successive updates of a UE, summed over UEs and rounds so far, divided by the number of "
            "updates that were not linked right; empty while there is none",
            "s",
        ),
        "entropy_time_to_confusion_s": Column(
            "the same, divided by the number of updates whose track had an entropy above 0.4 bit, or none", "s"
        ),
        "chance_time_to_confusion_s": Column("baseline: the same for a random assignment", "s"),
    },
    "identities": {
        "round": _ROUND,
        "time_s": _REQUEST,
        "attack": _text("name of an attack that knows where people live (re-identify with homes)"),
        "people": _whole("people in its directory"),
        "names": _whole("names of the round whose UEs are in the directory, by the user in ues.csv"),
        "others": _whole("names of the round whose UEs are not"),
        "told": _whole("names, of both, that the attack gives an answer for: it has observed one of their nights"),
        "given": _whole("how many of these it gave to a person; it left out the others"),
        "right_share": Column("share of `names` that it gave to the right person"),
        "chance_share": Column("baseline: the same of people given at random, 1 / people"),
        "probability": Column("probability of the person, as the attack states it, mean over names given to one"),
        "anonymity_set": Column(
            "2^H, mean over the names answered; H: entropy in bits over the people, and none of them"
        ),
    },
    "unicity": {
        "resolution_m": Column("side of the squares in which places are known; a row only where names change", "m"),
        "points": _whole("number of points, each a round and a square, drawn at random of a UE's true mean places"),
        "ues": _whole("UEs with as many points, at most 500"),
        "draws": _whole("draws, 20 a UE"),
        "unique_percent": Column("share of draws whose points no other UE has", "%"),
    },
    "user_distances": {
        "ue": _whole("index of a UE; of at most 30, those with the most measurements"),
        "other": _whole("index of another UE"),
        "sw1_m": Column("SW1 between the points of the two UEs", "m"),
        "sqrt_sw1": Column("square root of sw1_m", "m^0.5"),
    },
    "ues": {
        "ue": _UE,
        "name": _text("name of the UE; from a trace, that of its user"),
        "home_x_m": Column("true home, east; empty for a UE without one", "m"),
        "home_y_m": Column("true home, north", "m"),
        "work_x_m": Column("true workplace, east", "m"),
        "work_y_m": Column("true workplace, north", "m"),
        "densest_x_m": Column("of a replayed UE without a home: its place of most time, east; else empty", "m"),
        "densest_y_m": Column("the same, north", "m"),
        "nights": Column(
            "of a replayed UE: nights with a fix between 0 and 6 h by the wall clock; a home needs at least 3 that it "
            "spends mostly in one place, and more than half of them all"
        ),
    },
    "tracks": {
        "ue": _whole("index of the UE in ues.csv; at most the first 1,000 UEs (`tracks` in manifest.json)"),
        "time_s": Column(
            "when the UE was looked at: a multiple of the interval `tracks.every_s` of manifest.json, the shortest "
            "multiple of world.tick_s at which all tracks have at most 200,000 rows. There is a row where place, "
            "`indoor` or `cell` are not as at the look before, and one at the look before if the UE rested until "
            "then: straight lines between rows are the motion up to that interval",
            "s",
        ),
        "x_m": Column("true position, east; empty from when the UE is absent", "m"),
        "y_m": Column("true position, north", "m"),
        "indoor": _flag("whether the UE is in a building; empty for an absent one"),
        "cell": _text("name of the serving cell, where handover is modelled"),
    },
    "coverage": {
        "x_m": Column(
            "centre of a square of a grid, 100 along the longer side of the area, east; places in buildings are left "
            "out; no row where neither the radio is modelled nor a signal map is learnt",
            "m",
        ),
        "y_m": Column("centre, north", "m"),
        "cell": _text(
            "name of the strongest base station at street level; empty, as all true values, where a trace replaces "
            "the radio"
        ),
        "rsrp_dbm": Column("its RSRP", "dBm"),
        "sinr_db": Column("its downlink SINR at full load", "dB"),
        "los": _flag("whether it is in line of sight"),
        "learnt_dbm": Column(
            "RSRP that the final model predicts there; of one model for each cell the largest, over models that "
            "a UE trained; empty for other tasks",
            "dBm",
        ),
    },
}
