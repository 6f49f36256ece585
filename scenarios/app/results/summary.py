"""The summary of a run: one flat object of the keys of `summary_keys`, computed from the run folder's tables alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fl.attacks.closed_form import ClosedForm
from netsim.checkpoint import read_arrays
from netsim.geometry import Area
from netsim.safe import what_is
from netsim.traces.home_work import FEWEST_NIGHTS
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import named_share
from scenarios.app.results.folder import MANIFEST, PLAN, POINTS, read_json, read_table
from scenarios.app.results.lists import list_values
from scenarios.app.results.model_text import good_map
from scenarios.app.results.run import Table, where
from scenarios.app.results.statistics import median_of
from scenarios.app.results.summary_claims import claim_rows
from scenarios.app.results.summary_keys import Measure, check_declared, declaration, measured
from scenarios.app.results.summary_leakage import (
    anywhere_m,
    attack_rows,
    effort_rows,
    guess_rows,
    home_rows,
)
from scenarios.app.results.summary_named import Truth, chance_rows, densest_rows, named_rows
from scenarios.app.results.summary_stated import stated_rows
from scenarios.app.results.summary_tracking import tracking_rows
from scenarios.app.results.summary_uploads import reached_values, upload_rows
from scenarios.app.results.summary_withheld import accepted, sums_rows, withheld_rows
from scenarios.app.study.study import Study

USELESS_ABOVE_DB = 2.0  # a map this much worse than a constant says nothing about privacy either
USEFUL_RANKS = 0.2  # nor does a density whose rank correlation is hardly better than chance


def summarise(folder: Path, study: Study) -> dict[str, Any]:
    """All values of a run by key. Raises KeyError for one whose key is not declared."""
    rounds, curation = read_table(folder, "rounds"), read_table(folder, "curation")
    metrics, links, updates = (read_table(folder, name) for name in ("metrics", "links", "updates"))
    manifest, ues, uploads = (
        read_json(folder / MANIFEST),
        read_table(folder, "ues"),
        read_table(folder, "transmissions"),
    )
    handover = study.world.radio.handover is not None
    values: dict[str, Any] = _plain(
        {
            keys.ROUNDS_EMPTY: manifest["empty_rounds"],
            keys.ROUNDS_HELD_OUT: _held_out(rounds),
            keys.ROUNDS_STOPPED: manifest["stopped_by_budget"],
            keys.SAMPLES_COUNT: int(rounds["samples"][: 1 if study.learned.data.surveys_once else None].sum()),
            keys.UPLINK_HANDOVERS: len(read_table(folder, "handovers")["ue"]) if handover else None,
            keys.UPDATES_LATE: _share(rounds["late"].sum(), len(updates["ue"])),
            keys.UPLINK_ENERGY: float(rounds["energy_j"].sum()),
            **_in_vain(links),
            **({} if study.learned.server.in_rounds else _in_no_round(links)),
        }
    )
    withholding = read_table(folder, "withholding")
    values |= measured(
        {
            **{"ues": ues, "rounds": rounds, "updates": updates, "links": links, "batches": curation},
            "pairs": read_table(folder, "user_distances"),
            "eavesdropper": read_table(folder, "eavesdropper"),
            **upload_rows(uploads, rounds),
            **sums_rows(read_table(folder, "sums")),
            **_refusals(rounds, accepted(rounds, withholding)),
        }
    )
    values |= _each("requests", withheld_rows(withholding)) | _refused(metrics) | _planned(folder / PLAN)
    values |= _each("batches of a step", _groups(curation, "step"))
    values |= _utility(read_table(folder, "final"), rounds) | _metrics(metrics) | reached_values(uploads, metrics)
    values |= _leakage(folder, study, (ues, links), manifest["area_m"], values[keys.USEFUL.of()])
    values |= _membership(read_table(folder, "membership")) | _privacy(read_table(folder, "privacy"))
    values |= _moved(read_table(folder, "spends")) | _unicity(read_table(folder, "unicity"))
    check_declared(values)
    if "positions" in study.learned.data.offers:
        return values
    return {key: value for key, value in values.items() if not (known := declaration(key)) or not known.places}


def _plain(values: dict[Measure, Any]) -> dict[str, Any]:
    """Values of single keys."""
    return {key.of(): value for key, value in values.items()}


def _named(name: str, values: dict[Measure, Any]) -> dict[str, Any]:
    """Values of keys of the part `name`."""
    return {key.of(name): value for key, value in values.items()}


def _leakage(
    folder: Path, study: Study, tables: tuple[Table, Table], area_m: Any, useful: bool | None
) -> dict[str, Any]:
    """What every attack reaches for the UEs that the study looks at, and the baselines; tables: `ues`, `links`."""
    ues, links = tables
    targets = _targets(study, ues, read_table(folder, "updates"))
    every = read_table(folder, "leakage")
    leakage = _of(every, targets)
    estimates, updates, wasserstein = (
        _of(read_table(folder, name), targets) for name in ("estimates", "updates", "wasserstein")
    )
    x0, y0, x1, y1 = area_m
    centre = np.hypot(updates["x_m"] - (x0 + x1) / 2, updates["y_m"] - (y0 + y1) / 2)
    settings, area = study.learned.leakage, Area(x0, y0, x1, y1)
    anywhere = anywhere_m(updates, leakage, study.learned.learner, (x0, y0, x1, y1))
    values = list_values(read_table(folder, "list_scores"), settings.list_near_m) | _plain(
        {keys.NEAR: settings.near_m, keys.AREA_CENTRE_ERROR: median_of(centre), keys.ANYWHERE_ERROR: anywhere}
    )
    homes, watched = with_home(ues), np.unique(leakage["ue"])
    truth, densest = (of(ues, watched, settings.near_m) for of in (Truth.of, Truth.densest))
    if study.learned.attacks:
        points = read_arrays(folder / POINTS)
        whose, width_m = (points["ue"], points["position_m"]), settings.peak_width_m
        chance = chance_rows(densest, area, *whose, width_m)
        values |= measured(
            {
                "guesses": guess_rows(leakage, [attack.label for attack in study.learned.attacks]),
                **({"densest by chance": chance["home by chance"]} if chance else {}),
                **chance_rows(truth, area, *whose, width_m),
            }
        )
    values |= _plain(_without_home(ues))
    named, requested_s = read_table(folder, "named"), _requested_s(folder)
    tracking, linking = _of(read_table(folder, "tracking"), targets), read_table(folder, "linking")
    people = read_table(folder, "identities")
    for attack in study.learned.attacks:
        mine, effort, exact, said, tracked, linked, known = (
            _by_attack(table, attack.label)
            for table in (leakage, estimates, wasserstein, named, tracking, linking, people)
        )
        attacked = np.unique(_by_attack(every, attack.label)["ue"])
        values |= measured(
            {
                **attack_rows(mine, useful),
                **home_rows(mine, homes, settings.near_m),
                **claim_rows(effort, links, settings.near_m),
                **named_rows(mine, said, truth, attacked, requested_s),
                **densest_rows(mine, said, densest, attacked, requested_s),
                **stated_rows(said, truth, area),
                **tracking_rows(tracked, study.learned.round_s, useful),
                **({"linking": linked} if len(linked["round"]) else {}),
                **({"identities": _at_end(known)} if len(known["round"]) else {}),
                **({"bounds": updates} if isinstance(attack, ClosedForm) else {}),
                **{"efforts": effort_rows(effort), "exact": exact},
            },
            attack.label,
        )
    shares = [share for of in study.learned.attacks if (share := named_share(values, of.label)) is not None]
    return values | ({keys.STRONGEST_NAMED.of(): max(shares)} if shares else {})


def _without_home(ues: Table) -> dict[Measure, Any]:
    """How many replayed UEs have no home, and how many of these too few nights."""
    replayed, none = np.isfinite(ues["nights"]), ~np.isfinite(ues["home_x_m"])
    if not replayed.any():
        return {}
    few = none & (ues["nights"] < FEWEST_NIGHTS)
    return {keys.HOMES_NONE: int(none.sum()), keys.HOMES_FEW_NIGHTS: int(few.sum())}


def _at_end(people: Table) -> Table:
    """Names whose people an attack looked for in each round; at the end: in the last round with any."""
    names = people["names"]
    return people | {
        "names at the end": np.where(np.isin(np.arange(len(names)), np.flatnonzero(names > 0)[-1:]), names, 0)
    }


def _requested_s(folder: Path) -> dict[int, float]:
    """End of the window of each round."""
    rounds = read_table(folder, "rounds")
    return dict(zip(rounds["round"].astype(int).tolist(), rounds["requested_s"].tolist(), strict=True))


def _targets(study: Study, ues: Table, updates: Table) -> np.ndarray | None:
    """Indices of the UEs that the summary's leakage is about, None for all."""
    target = study.learned.leakage.target
    if target == "all":
        return None
    if target == "most-data":
        ue, at = np.unique(updates["ue"], return_inverse=True)
        return ue[[np.argmax(np.bincount(at, weights=updates["samples"]))]] if len(ue) else np.zeros(0)
    return np.asarray(ues["ue"][ues["name"] == target])


def _of(table: Table, ues: np.ndarray | None) -> Table:
    """Rows of some UEs."""
    return table if ues is None else where(table, np.isin(table["ue"], ues))


def _by_attack(table: Table, label: str) -> Table:
    """Rows of one attack."""
    return where(table, table["attack"] == label)


def _refusals(rounds: Table, accepting: np.ndarray) -> dict[str, Table]:
    """What the UEs' own policies refused in each round; accepting (n,): UEs that did not."""
    refused, requested = rounds["refused"], rounds["refused"] + accepting
    everybody, most = (refused > 0) & (refused == requested), np.array([int(refused.max(initial=0))])
    return {"refusals": {"requested": requested, "some": refused > 0, "everybody": everybody, "most": most}}


def _refused(metrics: Table) -> dict[str, Any]:
    """For which reasons UEs refused."""
    values = {}
    for name in dict.fromkeys(metrics["name"][metrics["part"] == "query"].tolist()):
        count = metrics["value"][(metrics["part"] == "query") & (metrics["name"] == name)].sum()
        if name.startswith("refused_") and count > 0:
            values[keys.REFUSED_REASON.of(name.removeprefix("refused_"))] = int(count)
    return values


def _groups(table: Table, column: str) -> dict[str, Table]:
    """Rows of a table by the value of a column, in order."""
    return {name: where(table, table[column] == name) for name in dict.fromkeys(table[column].tolist())}


def _each(rows: str, of: dict[str, Table]) -> dict[str, Any]:
    """Values of the measures of `rows`, of each part by its name."""
    return {key: value for name, table in of.items() for key, value in measured({rows: table}, name).items()}


def _unicity(rows: Table) -> dict[str, Any]:
    """How many draws of points no other UE has, by number of points and side of the squares."""
    each = zip(rows["points"].tolist(), rows["resolution_m"].tolist(), rows["unique_percent"].tolist(), strict=True)
    return {keys.UNICITY.of(f"{points:g}-{side_m:g}"): percent for points, side_m, percent in each}


def _planned(path: Path) -> dict[str, Any]:
    """The numbers of the study's plan, if it has one."""
    plan = read_json(path) if what_is(path) else {}
    return {f"plan.{key}": value for key, value in plan.items() if not isinstance(value, str | list)}


def _in_vain(links: Table) -> dict[Measure, Any]:
    """What became of uploads that the server did not decode in time."""
    lost, bits = links["decoded"] == 0, links["rate_bps"] * links["airtime_s"]
    bits = np.where(np.isfinite(bits), bits, 0.0)
    return {
        keys.UPDATES_NO_RATE: _share((~np.isfinite(links["airtime_s"])).sum(), len(lost)),
        keys.UPLINK_VAIN_ENERGY: _share(links["energy_j"][lost].sum(), links["energy_j"].sum()),
        keys.UPLINK_VAIN_BITS: _share(bits[lost].sum(), bits.sum()),
    }


def _in_no_round(links: Table) -> dict[Measure, Any]:
    """What counts uploads that no merge had, where a server has no rounds: they are in none of their rows."""
    return {
        keys.UPLINK_ENERGY: float(links["energy_j"].sum()),
        keys.UPDATES_LATE: _share(links["late"].sum(), len(links["ue"])),
    }


def _held_out(rounds: Table) -> int:
    """Rounds in which UEs measured, and all of it is held out, so that nobody took part."""
    whole = (rounds["samples"] > 0) & (rounds["held_out"] == rounds["samples"])
    return int((whole & (rounds["ues"] == 0)).sum())


def _share(part: float, whole: float) -> float:
    """Percent; NaN of nothing."""
    return 100.0 * float(part) / whole if whole else float("nan")


def _utility(final: Table, rounds: Table) -> dict[str, Any]:
    """The metrics of the final model, and whether it is useful."""
    values: dict[str, Any] = {
        keys.UTILITY.of(name): value
        for name, value in zip(final["name"].tolist(), final["value"].tolist(), strict=True)
    }
    for key in (keys.PLACE_SAMPLES.of(), keys.PLACE_BLOCKS.of()):
        values |= {key: int(values[key])} if key in values else {}
    nan, useful = float("nan"), None
    constant = values.get(keys.CONSTANT_RMSE.of(), nan)
    if np.isfinite(constant):
        useful = values.get(keys.RMSE.of(), nan) <= constant + USELESS_ABOVE_DB
    if keys.RANK_CORRELATION.of() in values:
        useful = bool(values[keys.RANK_CORRELATION.of()] >= USEFUL_RANKS)
    if keys.ACCURACY.of() in values:
        useful = bool(values[keys.ACCURACY.of()] > values[keys.CONSTANT_ACCURACY.of()])
    first = np.flatnonzero(rounds["rmse_db"] <= rounds["constant_rmse_db"] + USELESS_ABOVE_DB)
    return values | {
        keys.USEFUL.of(): useful,
        **({keys.GOOD.of(): good_map([values])} if keys.PLACE_BLOCKS.of() in values else {}),
        keys.USEFUL_ROUND.of(): int(rounds["round"][first[0]]) if len(first) else None,
        keys.LAST_ROUND_RMSE.of(): float(rounds["rmse_round_db"][-1]) if len(rounds["round"]) else nan,
    }


def _metrics(metrics: Table) -> dict[str, Any]:
    """Last value of every metric, and its mean and deviation over the last 20 rounds that have it."""
    values: dict[str, Any] = {}
    for part, name in dict.fromkeys(zip(metrics["part"].tolist(), metrics["name"].tolist(), strict=True)):
        value = metrics["value"][(metrics["part"] == part) & (metrics["name"] == name)]
        late = value[-20:]
        with np.errstate(over="ignore"):  # a model that has diverged
            mean, std = float(np.mean(late)), float(np.std(late))
        values |= _named(
            f"{part}.{name}", {keys.METRIC_LAST: float(value[-1]), keys.METRIC_MEAN: mean, keys.METRIC_STD: std}
        )
    return values


def with_home(ues: Table) -> np.ndarray:
    """Indices of the UEs that have a home."""
    return ues["ue"][np.isfinite(ues["home_x_m"])]


def _membership(table: Table) -> dict[str, Any]:
    """The last audit of each attack, and the largest area of all audits."""
    values: dict[str, Any] = {}
    for name, audits in _groups(table, "attack").items():
        scored = {"auc": audits["auc"][np.isfinite(audits["auc"])]}
        values |= measured({"audits": audits, "scored audits": scored}, name)
    return values


def _privacy(account: Table) -> dict[str, Any]:
    """The UE that spent most of each account; of accounts with one name the one that spent most."""
    values: dict[str, Any] = {}
    for name, mine in _groups(account, "mechanism").items():
        for column in ("epsilon", "naive", "zcdp", "rdp"):  # an empty cell is no finite epsilon
            mine[column] = np.nan_to_num(mine[column], nan=np.inf)
        mine["with_channel"] = _with_channel(mine)
        mine["delta"] = mine["delta"][[np.argmax(mine["epsilon"])]]
        values |= measured({"account": {k: v[~np.isnan(v)] for k, v in mine.items() if v.dtype == float}}, name)
    return values


def _with_channel(rows: Table) -> np.ndarray:
    """Epsilon with the channel of each row (n,) of one mechanism; NaN in all where no channel adds any noise.

    In an account that has the value an empty cell is an infinite one; in one that has none the channel changes
    nothing, and it is the epsilon.
    """
    given = rows["with_channel"]
    if not np.isfinite(given).any():
        return given
    who = list(zip(*(rows[k].tolist() for k in ("unit", "relation", "delta")), strict=True))
    counted = {w for w, value in zip(who, given, strict=True) if np.isfinite(value)}
    own = np.where([w in counted for w in who], np.inf, rows["epsilon"])
    return np.where(np.isfinite(given), given, own)


def _moved(spends: Table) -> dict[str, Any]:
    """Largest epsilon per metre of each mechanism that moved locations."""
    moved = where(spends, spends["unit"] == "location")
    return _each("locations", _groups(moved, "mechanism"))
