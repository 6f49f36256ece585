"""The summary of a run: one flat object of the keys of `summary_keys`, computed from its tables
alone.

Tables become rows by name; every measure is taken from the rows that it names, of the whole run or
of a part by name.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from math import inf, nan

import numpy as np

from netsim.checkpoint import read_arrays
from netsim.geometry import Area
from netsim.safe import describe_file_kind
from netsim.traces.home_work import FEWEST_NIGHTS
from netsim.units import BoolArray, FloatArray
from scenarios.app.results.attacks import (
    Truth,
    average_area_distance_m,
    average_located_percent,
    collect_attack_rows,
    collect_chance_rows,
    collect_claim_aucs,
    collect_named_rows,
    flag_failed_estimates,
    flag_homes_ever_named,
    measure_stated_reliability,
    select_last_guess_rows,
    select_tracking_rows,
)
from scenarios.app.results.folder import PLAN, POINTS, Tables, read_json
from scenarios.app.results.read import Run, Table, build_row, iterate_cells, select_rows
from scenarios.app.results.statistics import encode_row_keys, group_by_label
from scenarios.app.results.summary_keys import check_declared, compute_measures
from scenarios.app.results.table import USEFUL_RANKS
from scenarios.app.study import Fields
from scenarios.app.study.study import Study

NO_WORSE_DB = 0.2
"""by which a good map may exceed the law of three numbers by place"""
Part = tuple[str, Tables]
"""NAME in keys, empty for the whole run, and rows"""


def summarise_run(run: Run, study: Study) -> Fields:
    """Compute all values of a run by key. Raises KeyError for one whose key is not declared."""
    values: Fields = {}
    for parts in (
        _collect_rounds(run, study),
        _collect_model(run.tables, study),
        _collect_attacks(run, study),
    ):
        for name, rows in parts:
            values |= compute_measures(rows, name)
    shares = [average_located_percent(values, part.label) for part in study.learned.attacks]
    located = [share for share in shares if share is not None]
    if located:
        values |= compute_measures({"strongest": {"share": np.array(located)}})
    check_declared(values)
    return values


def summarise_radio(tables: Tables, handover: bool) -> Fields:
    """Compute all values of a radio study by key; handover: whether it is modelled."""
    samples = _group_rows(tables["radio_samples"], "selection")
    n = float(samples["all"]["count"][0])
    hours = float(samples["all"]["ue_hours"][0])
    n_indoor = float(samples["indoor"]["count"][0])
    n_moves = None
    rate = None
    if handover:
        n_moves = len(tables["handovers"]["ue"])
        rate = n_moves / hours if n else None
    indoor = 100.0 * n_indoor / n if n else nan
    rows: Tables = {
        "ues": tables["ues"],
        "moves": build_row(count=n_moves, rate=rate),
        "samples": samples["all"] | build_row(count=int(n), indoor=indoor),
    }
    cdf = tables["radio_cdf"]
    cdf = select_rows(cdf, cdf["selection"] == "all")
    for quantity, quantiles in _group_rows(cdf, "quantity").items():
        value_at = dict(iterate_cells(quantiles, "percent", "value"))
        rows[quantity] = build_row(q05=value_at[5.0], median=value_at[50.0], q95=value_at[95.0])
    for quantity, measured in _group_rows(tables["radio_measured"], "quantity").items():
        rows[f"measured {quantity}"] = measured
    return compute_measures(rows)


def _collect_rounds(run: Run, study: Study) -> Iterator[Part]:
    """Collect what was played, sent, refused, held back and lost."""
    tables = run.tables
    manifest = run.manifest
    rounds = tables["rounds"]
    ues = tables["ues"]
    links = tables["links"]
    uploads = tables["transmissions"]
    withholding = tables["withholding"]
    n_updates = len(tables["updates"]["ue"])
    n_handovers = None
    if study.world.radio.handover is not None:
        n_handovers = len(tables["handovers"]["ue"])
    is_idle = (rounds["samples"] > 0) & (rounds["ues"] == 0)
    all_held_out = (rounds["held_out"] == rounds["samples"]) & is_idle
    by_all = (rounds["refused"] > 0) & (count_accepted(rounds, withholding) == 0)
    rows = {
        "manifest": build_row(
            empty_rounds=manifest.empty_rounds, stopped_by_budget=manifest.stopped_by_budget
        ),
        "ues": ues,
        "updates": tables["updates"],
        "eavesdropper": tables["eavesdropper"],
        "rounds": rounds | {"all_held_out": all_held_out},
        "measured": select_rows(rounds, slice(1 if study.learned.data.surveys_once else None)),
        "links": links | {"lost": links["decoded"] == 0},
        "air": links,
        "cells": build_row(handovers=n_handovers),
        "refusals": {"by_all": by_all},
        **collect_upload_rows(uploads),
        **collect_sum_rows(tables["sums"]),
    }
    # a server without rounds has updates that no merge had, which are in no row of rounds
    if study.learned.server.in_rounds:
        late = rounds["late"].sum() / n_updates if n_updates else nan
        rows["air"] = build_row(late=late, energy_j=rounds["energy_j"].sum())
    if np.isfinite(ues["nights"]).any():
        is_homeless = np.isfinite(ues["nights"]) & ~np.isfinite(ues["home_x_m"])
        rows["nights"] = {"none": is_homeless, "few": is_homeless & (ues["nights"] < FEWEST_NIGHTS)}
    if describe_file_kind(run.folder / PLAN):
        rows["plan"] = build_row(**read_json(run.folder / PLAN))
    yield "", rows
    metrics = tables["metrics"]
    for name, query in _group_rows(
        select_rows(metrics, metrics["part"] == "query"), "name"
    ).items():
        if name.startswith("refused_") and query["value"].sum() > 0:
            yield name.removeprefix("refused_"), {"reason": query}
    yield from _name_parts("requests", collect_withheld_rows(withholding))
    yield from _name_parts("batches of a step", _group_rows(tables["curation"], "step"))
    yield from _name_parts("reached", find_level_times(uploads, metrics))
    unicity = tables["unicity"]
    for k, (points, side_m) in enumerate(
        zip(unicity["points"], unicity["resolution_m"], strict=True)
    ):
        yield f"{points:g}-{side_m:g}", {"unicity": select_rows(unicity, [k])}


def _collect_model(tables: Tables, study: Study) -> Iterator[Part]:
    """Collect the final model, its metrics by round, membership tests, and what noise spent."""
    final = dict(iterate_cells(tables["final"], "name", "value"))
    rows = {"final": build_row(**final), "worth": build_row(useful=is_useful_model(final))}
    if "place.blocks" in final:
        rows["scored by place"] = build_row(good=is_good_map(final))
    if "positions" in study.learned.data.offers:
        rounds = tables["rounds"]
        better = rounds["round"][rounds["rmse_db"] < rounds["constant_rmse_db"]]
        rows["useful rounds"] = build_row(first=int(better[0]) if len(better) else None)
    yield "", rows
    values = compute_measures(rows)
    for name, value in final.items():
        if f"utility.{name}" not in values and "." not in name:
            yield name, {"another": build_row(value=value)}
    metrics = tables["metrics"]
    names = [f"{part}.{name}" for part, name in zip(metrics["part"], metrics["name"], strict=True)]
    for name, metric in _group_rows(
        metrics | {"metric": np.array(names, dtype=object)}, "metric"
    ).items():
        late = metric["value"][-20:]
        with np.errstate(over="ignore"):  # a model that has diverged
            yield (
                name,
                {"metric": metric | build_row(late_mean=np.mean(late), late_std=np.std(late))},
            )
    yield from _name_parts("membership tests", _group_rows(tables["membership"], "attack"))
    for name, account in _group_rows(tables["privacy"], "mechanism").items():
        yield name, {"account": complete_account(account)}
    canaries = select_rows(tables["audit"], tables["audit"]["round"] == 0)
    canaries["beyond"] = canaries["verdict"] == "violated"
    yield from _name_parts("canaries", _group_rows(canaries, "mechanism"))
    spends = tables["spends"]
    yield from _name_parts(
        "locations", _group_rows(select_rows(spends, spends["unit"] == "location"), "mechanism")
    )


def is_useful_model(final: Mapping[str, float]) -> bool | None:
    """Whether the final model is useful, by its metrics; None where nothing was held out."""
    if "accuracy_percent" in final:
        return bool(final["accuracy_percent"] > final["constant_accuracy_percent"])
    if "rank_correlation" in final:
        return bool(final["rank_correlation"] >= USEFUL_RANKS)
    if not np.isfinite(final.get("constant_rmse_db", nan)):
        return None
    return bool(final.get("rmse_db", nan) < final["constant_rmse_db"])


def is_good_map(final: Mapping[str, float]) -> bool | None:
    """Whether a map is better than the law of three numbers, and by place no worse.

    None where a figure is missing.
    """

    def compare(suffix: str) -> float:
        return final.get(f"rmse_db{suffix}", nan) - final.get(f"path_loss_rmse_db{suffix}", nan)

    over_law = compare("")
    over_law_by_place = compare(".place")
    if not np.isfinite(over_law + over_law_by_place):
        return None
    return bool(over_law <= 0 and over_law_by_place <= NO_WORSE_DB)


def _collect_attacks(run: Run, study: Study) -> Iterator[Part]:
    """Collect what every attack reaches for the UEs that the study looks at, and the baselines."""
    tables = run.tables
    settings = study.learned.leakage
    near_m = settings.hit_radius_m
    labels = [attack.label for attack in study.learned.attacks]
    ues = tables["ues"]
    targets = _find_targets(study, ues, tables["updates"])
    leakage, tracking, estimates, updates = (
        select_rows(tables[name], np.isin(tables[name]["ue"], targets))
        for name in ("leakage", "tracking", "estimates", "updates")
    )
    area = Area(*run.manifest.area_m)
    learner = study.learned.learner.trained
    centre_m = np.hypot(updates["x_m"] - area.centre_m[0], updates["y_m"] - area.centre_m[1])
    watched = np.unique(leakage["ue"])
    truth = Truth.from_ues(ues, watched, near_m)
    densest = Truth.from_ues(ues, watched, near_m, ("densest",))
    lists = _collect_list_scores(tables["list_scores"], settings.list_hit_radius_m)
    points = read_arrays(run.folder / POINTS)
    chance: Tables = {}
    if "positions" in study.learned.data.offers:
        row = build_row(
            hit_radius_m=near_m,
            anywhere_m=average_area_distance_m(updates, leakage, learner, area),
        )
        yield "", {"centre": {"centre_m": centre_m}, "area": row, **lists.pop("", {})}
        if labels:
            density = points["ue"], points["position_m"], settings.peak_width_m
            chance = collect_chance_rows(truth, area, *density)
            rows = {"guesses": select_last_guess_rows(leakage, labels)} | chance
            if len(named_m := tables["operator"]["home_named_m"]):
                rows["home by operator"] = {"hit": named_m <= near_m}
            of_densest = collect_chance_rows(densest, area, *density)
            if of_densest:
                rows["densest by chance"] = of_densest["home by chance"]
            yield "", rows
    requested_s = dict(iterate_cells(tables["rounds"], "round", "requested_s"))
    centre_of = dict(zip(encode_row_keys(updates).tolist(), centre_m.tolist(), strict=True))
    homes = find_ues_with_home(ues)
    for label in labels:
        attack, effort, named, tracked, linked, identities = (
            select_rows(table, table["attack"] == label)
            for table in (
                leakage,
                estimates,
                tables["named"],
                tracking,
                tables["linking"],
                tables["identities"],
            )
        )
        attacked = np.unique(tables["leakage"]["ue"][tables["leakage"]["attack"] == label])
        rows = collect_attack_rows(attack, centre_of)
        rows["home ever"] = flag_homes_ever_named(attack, homes, near_m)
        rows |= collect_claim_aucs(effort, tables["links"], near_m)
        rows |= collect_named_rows(attack, named, truth, attacked, requested_s, chance)
        dense = collect_named_rows(attack, named, densest, attacked, requested_s, {})
        if dense:
            rows["densest"] = dense["home"]
        if len(truth.ue):
            rows["reliability"] = build_row(**vars(measure_stated_reliability(named, truth)))
        if len(tracked["ue"]):
            rows["tracking"] = select_tracking_rows(tracked)
        for name, table in (("linking", linked), ("identities", identities)):
            if len(table["round"]):
                rows[name] = table
        rows |= lists.get(label, {})
        rows["efforts"] = flag_failed_estimates(effort)
        yield label, rows


def _collect_list_scores(scores: Table, hit_radius_m: float) -> dict[str, Tables]:
    """Collect scores of the lists of places that each attack makes.

    Under an empty name those of chance.
    """
    scores_by_name: Tables = {}
    for source, name, residents, precision, coverage in zip(*scores.values(), strict=True):
        if name:
            score = {residents: precision, f"{residents} covered": coverage}
        elif residents == "participants":
            score = {source: precision}
        else:
            continue
        scores_by_name.setdefault(name, {}).update(build_row(**score))
    lists = {name: {"list": row} for name, row in scores_by_name.items()}
    if "" in lists:
        lists[""]["lists"] = build_row(hit_radius_m=hit_radius_m)
    return lists


def _find_targets(study: Study, ues: Table, updates: Table) -> np.ndarray:
    """Find indices of the UEs that the summary's leakage is about."""
    target = study.learned.leakage.target
    if target == "all":
        return ues["ue"]
    if target == "most-data":
        ue, index = np.unique(updates["ue"], return_inverse=True)
        if len(ue):
            return ue[[np.argmax(np.bincount(index, weights=updates["samples"]))]]
        return np.zeros(0)
    return ues["ue"][ues["name"] == target]


def find_ues_with_home(ues: Table) -> np.ndarray:
    """Find indices of the UEs that have a home."""
    return ues["ue"][np.isfinite(ues["home_x_m"])]


def _group_rows(table: Table, column: str) -> Tables:
    """Group tables of a table by the value of a column, in order."""
    rows = group_by_label((value, k) for k, value in enumerate(table[column].tolist()))
    return {value: select_rows(table, indices) for value, indices in rows.items()}


def _name_parts(rows: str, tables: Mapping[str, Table]) -> Iterator[Part]:
    """Name a part for each name, with one kind of rows."""
    return ((name, {rows: table}) for name, table in tables.items())


def complete_account(rows: Table) -> Table:
    """Complete the account of one mechanism: an empty cell is no finite epsilon.

    `with_channel` is of the UEs whose account knows it; where no channel adds noise it is empty.
    In an account that has the value an empty cell is an infinite one; in one that has none the
    channel changes nothing, and it is the epsilon.
    """
    epsilon = np.nan_to_num(rows["epsilon"], nan=inf)
    with_channel = rows["with_channel"]
    is_given = np.isfinite(with_channel)
    if is_given.any():
        accounts = list(iterate_cells(rows, "unit", "relation", "delta"))
        counted = {accounts[k] for k in np.flatnonzero(is_given)}
        is_counted = [account in counted for account in accounts]
        with_channel = np.where(is_given, with_channel, np.where(is_counted, inf, epsilon))
    return {"epsilon": epsilon, "with_channel": with_channel[~np.isnan(with_channel)]}


# -- what became of requests, updates and uploads: held back, summed, lost, sent, merged
#
# A server that merges often is scored often, and one lucky score is no good model. How soon a model
# was good is therefore asked of the mean of the score over time, from 80 % of the time since the
# first request up to now.

ARRIVED = "arrived"
PARTS = ("preparing", "waiting", "sending")
"""what an upload goes through, in order: downlink and training; until the first grant; until the
last bit"""


def has_arrived(uploads: Table) -> BoolArray:
    """Which uploads (n,) the server received."""
    return np.asarray(uploads["fate"] == ARRIVED)


def measure_durations_s(uploads: Table) -> dict[str, FloatArray]:
    """Measure the length (n,) of each part, and from request to end as `whole`.

    NaN for a part that was not begun; a part that was cut short ends with the upload.
    """
    marks = np.column_stack(
        [uploads[name] for name in ("requested_s", "ready_s", "granted_s", "ended_s")]
    )
    has_ended = np.isfinite(marks[:, 3])
    for k in (1, 2):  # the end of the last part that was begun
        is_cut = has_ended & np.isnan(marks[:, k]) & np.isfinite(marks[:, k - 1])
        marks[is_cut, k] = marks[is_cut, 3]
        marks[is_cut, k + 1 :] = nan
    durations_s = dict(zip(PARTS, np.diff(marks, axis=1).T, strict=True))
    durations_s["whole"] = uploads["ended_s"] - uploads["requested_s"]
    return durations_s


def compute_wasted_bit_share(uploads: Table) -> float:
    """Compute the share of all bits sent that were in vain; NaN of none.

    Those of tries that failed, or of uploads that did not arrive.
    """
    sent = float(np.nansum(uploads["sent_bits"]))
    if not sent > 0:
        return nan
    received = select_rows(uploads, has_arrived(uploads))
    worth = float(np.nansum(received["sent_bits"]) - np.nansum(received["lost_bits"]))
    return (sent - worth) / sent


def collect_upload_rows(uploads: Table) -> Tables:
    """Collect what measures of `transmissions` are taken from; nothing without such rows."""
    if not len(uploads["ue"]):
        return {}
    is_received = has_arrived(uploads)
    whole_s = measure_durations_s(select_rows(uploads, is_received))["whole"]
    return {
        "uploads": uploads
        | {"arrived": is_received, "whole": whole_s}
        | build_row(in_vain=compute_wasted_bit_share(uploads))
    }


_LEVELS_PERCENT = (50, 70, 80, 85, 90)


def find_level_times(uploads: Table, metrics: Table) -> Tables:
    """Find how soon a classifier had some levels of accuracy, by level.

    Nothing where uploads take no time.
    """
    scores = select_rows(metrics, metrics["name"] == "accuracy_percent")
    if not len(uploads["ue"]) or not len(scores["value"]):
        return {}
    start_s = float(uploads["requested_s"].min())
    times = dict[str, Table]()
    for level in _LEVELS_PERCENT:
        time_s = find_level_time_s(scores["time_s"], scores["value"], start_s, level)
        n_requested = None
        if np.isfinite(time_s):
            n_requested = int((uploads["requested_s"] <= start_s + time_s).sum())
        times[str(level)] = build_row(time_s=time_s, uploads=n_requested)
    return times


_SHARE = 0.2  # of the time that has passed: over so much of it the score is averaged


def find_level_time_s(time_s: FloatArray, score: FloatArray, start_s: float, level: float) -> float:
    """Find the time after start_s at which the mean score has reached a level; NaN if never.

    A score holds from its time (n,), which increases, to the next one; before the first, and where
    it is not finite, it is 0. The mean is looked at where the score changes, or leaves the mean.
    """
    if not len(time_s):
        return nan
    since_s = time_s - start_s
    value = np.where(np.isfinite(score), score, 0.0)
    knots_s = np.append(0.0, since_s)
    steps = np.append(0.0, value[:-1]) * np.diff(knots_s)
    total = np.append(0.0, np.cumsum(steps))  # straight from knot to knot
    at_s = np.unique(np.concatenate([since_s, since_s / (1 - _SHARE)]))
    at_s = at_s[(at_s > 0) & (at_s <= since_s[-1])]
    recent = np.interp(at_s, knots_s, total) - np.interp((1 - _SHARE) * at_s, knots_s, total)
    hit = np.flatnonzero(recent / (_SHARE * at_s) >= level)
    if len(hit):
        return float(at_s[hit[0]])
    return nan


def collect_withheld_rows(withholding: Table) -> Tables:
    """Collect what each rule by itself holds back, by rule, of the rows of `withholding`."""
    rows_by_rule: Tables = {}
    for rule, rows in _group_rows(withholding, "rule").items():
        _, request = np.unique(np.stack([rows["time_s"], rows["ue"]]), axis=1, return_inverse=True)
        n_left = np.bincount(request.reshape(-1), weights=rows["after"])
        held_back = 1 - rows["after"].sum() / rows["before"].sum()
        rows_by_rule[rule] = {"silent": n_left == 0, **build_row(held_back=held_back)}
    return rows_by_rule


def collect_sum_rows(sums: Table) -> Tables:
    """Collect sums that were not opened, and sums of one UE; nothing where nothing is summed."""
    if not len(sums["group"]):
        return {}
    is_closed = sums["opened"] == 0
    decoded = sums["decoded"]
    total = decoded.sum()
    lost = decoded[is_closed].sum() / total if total else nan
    return {"sums": {"unopened": is_closed, "single": decoded == 1, **build_row(lost=lost)}}


def count_accepted(rounds: Table, withholding: Table) -> np.ndarray:
    """Count UEs that were asked and accepted in each round (n,), whatever they held back then."""
    if not len(withholding["ue"]):
        return rounds["ues"]
    first = select_rows(withholding, withholding["rule"] == withholding["rule"][0])
    requests = set(zip(first["round"], first["ue"], strict=True))
    n_accepted = Counter(number for number, _ in requests)
    return np.array([n_accepted[number] for number in rounds["round"]])
