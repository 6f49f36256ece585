"""The summary of a run: one flat object of the keys of `summary_keys`, computed from its tables
alone.

Tables become rows by name; every measure is taken from the rows that it names, of the whole run or
of a part by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from netsim.checkpoint import read_arrays
from netsim.geometry import Area
from netsim.safe import what_is
from netsim.traces.home_work import FEWEST_NIGHTS
from netsim.units import BoolArray, FloatArray
from scenarios.app.results.attacks import (
    Truth,
    anywhere_m,
    attack_rows,
    chance_rows,
    claim_rows,
    effort_rows,
    ever_named,
    guess_rows,
    named_rows,
    named_share,
    stated_reliability,
    tracking_rows,
)
from scenarios.app.results.folder import PLAN, POINTS, Tables, read_json
from scenarios.app.results.read import Run, Table, one, where
from scenarios.app.results.statistics import row_numbers
from scenarios.app.results.summary_keys import check_declared, measured
from scenarios.app.results.table import USEFUL_RANKS
from scenarios.app.study import Fields
from scenarios.app.study.study import Study

NO_WORSE_DB = 0.2
"""by which a good map may exceed the law of three numbers by place"""
Part = tuple[str, Tables]
"""NAME in keys, empty for the whole run, and rows"""


def summarise(run: Run, study: Study) -> Fields:
    """All values of a run by key. Raises KeyError for one whose key is not declared."""
    values: Fields = {}
    parts = (_of_rounds(run, study), _of_model(run.tables, study), _of_attacks(run, study))
    for name, rows in (named for of in parts for named in of):
        values |= measured(rows, name)
    shares = [
        share
        for of in study.learned.attacks
        if (share := named_share(values, of.label)) is not None
    ]
    values |= measured({"strongest": {"share": np.array(shares)}} if shares else {})
    check_declared(values)
    return values


def radio_summary(tables: Tables, handover: bool) -> Fields:
    """All values of a radio study by key; handover: whether it is modelled."""
    of = _groups(tables["radio_samples"], "selection")
    cdf = tables["radio_cdf"]
    n, hours, indoor = (
        float(v[0]) for v in (of["all"]["count"], of["all"]["ue_hours"], of["indoor"]["count"])
    )
    moves = len(tables["handovers"]["ue"]) if handover else None
    rows: Tables = {
        "ues": tables["ues"],
        "moves": one(count=moves, rate=None if moves is None or not n else moves / hours),
        "samples": of["all"] | one(count=int(n), indoor=100.0 * indoor / n if n else np.nan),
    }
    for quantity, quantiles in _groups(where(cdf, cdf["selection"] == "all"), "quantity").items():
        at = dict(zip(quantiles["percent"].tolist(), quantiles["value"].tolist(), strict=True))
        rows[quantity] = one(q05=at[5.0], median=at[50.0], q95=at[95.0])
    beside = _groups(tables["radio_measured"], "quantity")
    return measured(rows | {f"measured {quantity}": of for quantity, of in beside.items()})


def _of_rounds(run: Run, study: Study) -> Iterator[Part]:
    """What was played, sent, refused, held back and lost."""
    tables = run.tables
    rounds, ues, links, uploads = (
        tables[name] for name in ("rounds", "ues", "links", "transmissions")
    )
    updates, metrics, withholding, unicity = (
        tables[k] for k in ("updates", "metrics", "withholding", "unicity")
    )
    if len(updates["ue"]):
        late = rounds["late"].sum() / len(updates["ue"])
    else:
        late = np.nan
    none = np.isfinite(ues["nights"]) & ~np.isfinite(ues["home_x_m"])
    modelled = study.world.radio.handover is not None
    rows = {
        "manifest": one(
            empty_rounds=run.manifest.empty_rounds, stopped_by_budget=run.manifest.stopped_by_budget
        ),
        "ues": ues,
        "updates": updates,
        "eavesdropper": tables["eavesdropper"],
        "rounds": rounds
        | {
            "all_held_out": (rounds["held_out"] == rounds["samples"])
            & (rounds["samples"] > 0)
            & (rounds["ues"] == 0)
        },
        "measured": where(rounds, slice(1 if study.learned.data.surveys_once else None)),
        "links": links | {"lost": links["decoded"] == 0},
        # a server without rounds has updates that no merge had, which are in no row of rounds
        "air": one(late=late, energy_j=rounds["energy_j"].sum())
        if study.learned.server.in_rounds
        else links,
        "cells": one(handovers=len(tables["handovers"]["ue"]) if modelled else None),
        "refusals": {"by_all": (rounds["refused"] > 0) & (accepted(rounds, withholding) == 0)},
        **upload_rows(uploads),
        **sums_rows(tables["sums"]),
    }
    if np.isfinite(ues["nights"]).any():
        rows["nights"] = {"none": none, "few": none & (ues["nights"] < FEWEST_NIGHTS)}
    if what_is(run.folder / PLAN):
        rows["plan"] = one(**read_json(run.folder / PLAN))
    yield "", rows
    for name, of in _groups(where(metrics, metrics["part"] == "query"), "name").items():
        if name.startswith("refused_") and of["value"].sum() > 0:
            yield name.removeprefix("refused_"), {"reason": of}
    yield from _each("requests", withheld_rows(withholding))
    yield from _each("batches of a step", _groups(tables["curation"], "step"))
    yield from _each("reached", reached_rows(uploads, metrics))
    for k, (points, side_m) in enumerate(
        zip(unicity["points"], unicity["resolution_m"], strict=True)
    ):
        yield f"{points:g}-{side_m:g}", {"unicity": where(unicity, [k])}


def _of_model(tables: Tables, study: Study) -> Iterator[Part]:
    """The final model, its metrics by round, membership tests, and what noise spent."""
    table, rounds, metrics, spends = (
        tables[name] for name in ("final", "rounds", "metrics", "spends")
    )
    final = dict(zip(table["name"].tolist(), table["value"].tolist(), strict=True))
    rows = {"final": one(**final), "worth": one(useful=is_useful(final))}
    if "place.blocks" in final:
        rows["scored by place"] = one(good=good_map(final))
    if "positions" in study.learned.data.offers:
        better = rounds["round"][rounds["rmse_db"] < rounds["constant_rmse_db"]]
        rows["useful rounds"] = one(first=int(better[0]) if len(better) else None)
    yield "", rows
    known = measured(rows)
    for name, value in final.items():
        if f"utility.{name}" not in known and "." not in name:
            yield name, {"another": one(value=value)}
    names = [f"{part}.{name}" for part, name in zip(metrics["part"], metrics["name"], strict=True)]
    for name, mine in _groups(
        metrics | {"metric": np.array(names, dtype=object)}, "metric"
    ).items():
        late = mine["value"][-20:]
        with np.errstate(over="ignore"):  # a model that has diverged
            yield name, {"metric": mine | one(late_mean=np.mean(late), late_std=np.std(late))}
    yield from _each("membership tests", _groups(tables["membership"], "attack"))
    accounts = _groups(tables["privacy"], "mechanism")
    yield from _each("account", {name: account_rows(rows) for name, rows in accounts.items()})
    canaries = where(tables["audit"], tables["audit"]["round"] == 0)
    canaries |= {"beyond": canaries["verdict"] == "violated"}
    yield from _each("canaries", _groups(canaries, "mechanism"))
    yield from _each("locations", _groups(where(spends, spends["unit"] == "location"), "mechanism"))


def is_useful(final: Mapping[str, float]) -> bool | None:
    """Whether the final model is useful, by its metrics; None where nothing was held out."""
    if "accuracy_percent" in final:
        return bool(final["accuracy_percent"] > final["constant_accuracy_percent"])
    if "rank_correlation" in final:
        return bool(final["rank_correlation"] >= USEFUL_RANKS)
    if not np.isfinite(final.get("constant_rmse_db", np.nan)):
        return None
    return bool(final.get("rmse_db", np.nan) < final["constant_rmse_db"])


def good_map(final: Mapping[str, float]) -> bool | None:
    """Whether a map is better than the law of three numbers, and by place no worse; None where a
    figure is missing.
    """
    over_law, over_law_by_place = (
        final.get(f"rmse_db{by}", np.nan) - final.get(f"path_loss_rmse_db{by}", np.nan)
        for by in ("", ".place")
    )
    if not np.isfinite(over_law + over_law_by_place):
        return None
    return bool(over_law <= 0 and over_law_by_place <= NO_WORSE_DB)


def _of_attacks(run: Run, study: Study) -> Iterator[Part]:
    """What every attack reaches for the UEs that the study looks at, and the baselines."""
    tables = run.tables
    settings = study.learned.leakage
    labels = [attack.label for attack in study.learned.attacks]
    ues = tables["ues"]
    rounds = tables["rounds"]
    targets = _targets(study, ues, tables["updates"])
    leakage, tracking, estimates, updates = (
        where(table, np.isin(table["ue"], targets))
        for table in (tables[name] for name in ("leakage", "tracking", "estimates", "updates"))
    )
    area = Area(*run.manifest.area_m)
    centre_m = np.hypot(updates["x_m"] - area.centre_m[0], updates["y_m"] - area.centre_m[1])
    watched = np.unique(leakage["ue"])
    truth, densest = (
        Truth.of(ues, watched, settings.hit_radius_m, of) for of in (("home", "work"), ("densest",))
    )
    lists = _lists(tables["list_scores"], settings.list_hit_radius_m)
    points = read_arrays(run.folder / POINTS)
    if "positions" in study.learned.data.offers:
        away_m = anywhere_m(updates, leakage, study.learned.learner, area)
        near = one(hit_radius_m=settings.hit_radius_m, anywhere_m=away_m)
        yield "", {"centre": {"centre_m": centre_m}, "area": near, **lists.pop("", {})}
        if labels:
            whose = points["ue"], points["position_m"], settings.peak_width_m
            chance = chance_rows(densest, area, *whose)
            yield (
                "",
                {
                    "guesses": guess_rows(leakage, labels),
                    **chance_rows(truth, area, *whose),
                    **({"densest by chance": chance["home by chance"]} if chance else {}),
                },
            )
    requested_s = dict(zip(rounds["round"].tolist(), rounds["requested_s"].tolist(), strict=True))
    centre_of = dict(zip(row_numbers(updates).tolist(), centre_m.tolist(), strict=True))
    for label in labels:
        mine, effort, said, tracked, linked, known = (
            where(table, table["attack"] == label)
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
        dense = named_rows(mine, said, densest, attacked, requested_s)
        yield (
            label,
            {
                **attack_rows(mine, centre_of),
                "home ever": ever_named(mine, with_home(ues), settings.hit_radius_m),
                **claim_rows(effort, tables["links"], settings.hit_radius_m),
                **named_rows(mine, said, truth, attacked, requested_s),
                **({"densest": dense["home"]} if dense else {}),
                **(
                    {"reliability": one(**vars(stated_reliability(said, truth)))}
                    if len(truth.ue)
                    else {}
                ),
                **({"tracking": tracking_rows(tracked)} if len(tracked["ue"]) else {}),
                **({"linking": linked} if len(linked["round"]) else {}),
                **({"identities": known} if len(known["round"]) else {}),
                **lists.get(label, {}),
                "efforts": effort_rows(effort),
            },
        )


def _lists(scores: Table, hit_radius_m: float) -> dict[str, Tables]:
    """Scores of the lists of places that each attack makes, and under an empty name those of
    chance.
    """
    found: Tables = {}
    for source, name, residents, precision, coverage in zip(*scores.values(), strict=True):
        own = (
            {residents: precision, f"{residents} covered": coverage}
            if name
            else {source: precision}
        )
        if name or residents == "participants":
            found.setdefault(name, {}).update(one(**own))
    near = {"lists": one(hit_radius_m=hit_radius_m)}
    return {name: {"list": row} | ({} if name else near) for name, row in found.items()}


def _targets(study: Study, ues: Table, updates: Table) -> np.ndarray:
    """Indices of the UEs that the summary's leakage is about."""
    target = study.learned.leakage.target
    if target == "all":
        return ues["ue"]
    if target == "most-data":
        ue, at = np.unique(updates["ue"], return_inverse=True)
        if len(ue):
            return ue[[np.argmax(np.bincount(at, weights=updates["samples"]))]]
        return np.zeros(0)
    return np.asarray(ues["ue"][ues["name"] == target])


def with_home(ues: Table) -> np.ndarray:
    """Indices of the UEs that have a home."""
    return ues["ue"][np.isfinite(ues["home_x_m"])]


def _groups(table: Table, column: str) -> Tables:
    """Tables of a table by the value of a column, in order."""
    rows = dict[str, list[int]]()
    for k, value in enumerate(table[column].tolist()):
        rows.setdefault(value, []).append(k)
    return {value: where(table, of) for value, of in rows.items()}


def _each(rows: str, of: Mapping[str, Table]) -> Iterator[Part]:
    """A part for each name, with one kind of rows."""
    return ((name, {rows: table}) for name, table in of.items())


def account_rows(rows: Table) -> Table:
    """Of one mechanism: an empty cell is no finite epsilon; `with_channel` is of the UEs whose
    account knows it.

    Where no channel adds noise `with_channel` is empty. In an account that has the value an empty
    cell is an infinite one; in one that has none the channel changes nothing, and it is the
    epsilon.
    """
    epsilon = np.nan_to_num(rows["epsilon"], nan=np.inf)
    given = rows["with_channel"]
    if np.isfinite(given).any():
        who = list(zip(*(rows[k].tolist() for k in ("unit", "relation", "delta")), strict=True))
        counted = {w for w, value in zip(who, given, strict=True) if np.isfinite(value)}
        own = np.where([w in counted for w in who], np.inf, epsilon)
        given = np.where(np.isfinite(given), given, own)
    return {"epsilon": epsilon, "with_channel": given[~np.isnan(given)]}


# -- what became of requests, updates and uploads: held back, summed, lost, sent, merged
#
# A server that merges often is scored often, and one lucky score is no good model. How soon a model
# was good is therefore asked of the mean of the score over time, from 80 % of the time since the
# first request up to now.

ARRIVED = "arrived"
PARTS = ("preparing", "waiting", "sending")
"""what an upload goes through, in order: downlink and training; until the first grant; until the
last bit"""


def arrived(uploads: Table) -> BoolArray:
    """Which uploads (n,) the server received."""
    return np.asarray(uploads["fate"] == ARRIVED)


def durations_s(uploads: Table) -> dict[str, FloatArray]:
    """Length (n,) of each part, and from request to end as `whole`; NaN for a part that was not
    begun.

    A part that was cut short ends with the upload.
    """
    marks = np.column_stack(
        [uploads[k] for k in ("requested_s", "ready_s", "granted_s", "ended_s")]
    )
    ended = np.isfinite(marks[:, 3])
    for k in (1, 2):  # the end of the last part that was begun
        cut = ended & np.isnan(marks[:, k]) & np.isfinite(marks[:, k - 1])
        marks[cut, k] = marks[cut, 3]
        marks[cut, k + 1 :] = np.nan
    parts = np.diff(marks, axis=1)
    return dict(zip(PARTS, parts.T, strict=True)) | {
        "whole": uploads["ended_s"] - uploads["requested_s"]
    }


def vain_share(uploads: Table) -> float:
    """Share of all bits sent that were in tries that failed, or in uploads that did not arrive; NaN
    of none.
    """
    sent = float(np.nansum(uploads["sent_bits"]))
    got = arrived(uploads)
    worth = float(np.nansum(uploads["sent_bits"][got]) - np.nansum(uploads["lost_bits"][got]))
    if sent > 0:
        return (sent - worth) / sent
    return float("nan")


def upload_rows(uploads: Table) -> Tables:
    """What measures of `transmissions` are taken from, by name; nothing without such rows."""
    if not len(uploads["ue"]):
        return {}
    whole_s = durations_s(where(uploads, arrived(uploads)))["whole"]
    own = {"arrived": arrived(uploads), "whole": whole_s, **one(in_vain=vain_share(uploads))}
    return {"uploads": uploads | own}


_LEVELS_PERCENT = (50, 70, 80, 85, 90)


def reached_rows(uploads: Table, metrics: Table) -> Tables:
    """How soon a classifier had some levels of accuracy, by level; nothing where uploads take no
    time.
    """
    scored = metrics["name"] == "accuracy_percent"
    if not len(uploads["ue"]) or not scored.any():
        return {}
    start_s = float(uploads["requested_s"].min())
    of = dict[str, Table]()
    for level in _LEVELS_PERCENT:
        took_s = reached_s(metrics["time_s"][scored], metrics["value"][scored], start_s, level)
        if np.isfinite(took_s):
            asked = int((uploads["requested_s"] <= start_s + took_s).sum())
        else:
            asked = None
        of[str(level)] = one(time_s=took_s, uploads=asked)
    return of


_SHARE = 0.2  # of the time that has passed: over so much of it the score is averaged


def reached_s(time_s: FloatArray, score: FloatArray, start_s: float, level: float) -> float:
    """Time after start_s at which the mean score has reached a level; NaN if it never does.

    A score holds from its time (n,), which increases, to the next one; before the first, and where
    it is not finite, it is 0. The mean is looked at where the score changes, or leaves the mean.
    """
    if not len(time_s):
        return float("nan")
    since_s = time_s - start_s
    value = np.where(np.isfinite(score), score, 0.0)
    knots_s = np.append(0.0, since_s)
    total = np.append(
        0.0, np.cumsum(np.append(0.0, value[:-1]) * np.diff(knots_s))
    )  # straight from knot to knot
    at_s = np.unique(np.concatenate([since_s, since_s / (1 - _SHARE)]))
    at_s = at_s[(at_s > 0) & (at_s <= since_s[-1])]
    recent = np.interp(at_s, knots_s, total) - np.interp((1 - _SHARE) * at_s, knots_s, total)
    hit = np.flatnonzero(recent / (_SHARE * at_s) >= level)
    if len(hit):
        return float(at_s[hit[0]])
    return float("nan")


def withheld_rows(withholding: Table) -> Tables:
    """What each rule by itself holds back, by rule, of the rows of `withholding`."""
    of: Tables = {}
    for rule, mine in _groups(withholding, "rule").items():
        _, request = np.unique(np.stack([mine["time_s"], mine["ue"]]), axis=1, return_inverse=True)
        silent = np.bincount(request.reshape(-1), weights=mine["after"]) == 0
        of[rule] = {
            "silent": silent,
            **one(held_back=1 - mine["after"].sum() / mine["before"].sum()),
        }
    return of


def sums_rows(sums: Table) -> Tables:
    """Sums that were not opened, and sums of one UE, of the rows of `sums`; nothing where nothing
    is summed.
    """
    if not len(sums["group"]):
        return {}
    unopened = sums["opened"] == 0
    decoded = sums["decoded"]
    if decoded.sum():
        lost = decoded[unopened].sum() / decoded.sum()
    else:
        lost = np.nan
    return {"sums": {"unopened": unopened, "single": decoded == 1, **one(lost=lost)}}


def accepted(rounds: Table, withholding: Table) -> np.ndarray:
    """UEs that were asked and accepted in each round (n,), whatever they held back then."""
    if not len(withholding["ue"]):
        return rounds["ues"]
    first = where(withholding, withholding["rule"] == withholding["rule"][0])
    asked = Counter(number for number, _ in set(zip(first["round"], first["ue"], strict=True)))
    return np.array([asked[number] for number in rounds["round"]])
