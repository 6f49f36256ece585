"""The summary of a run: one flat object of the keys of `summary_keys`, computed from the run folder's tables alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fl.attacks.closed_form import ClosedForm
from fl.learners.density import Density
from netsim.checkpoint import read_arrays
from netsim.geometry import Area
from netsim.safe import what_is
from netsim.traces.home_work import FEWEST_NIGHTS
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import named_share
from scenarios.app.results.folder import MANIFEST, PLAN, POINTS, read_json, read_table
from scenarios.app.results.lists import list_values
from scenarios.app.results.model_text import good_map
from scenarios.app.results.run import Table
from scenarios.app.results.statistics import mean_of, median_of, quantile_of
from scenarios.app.results.summary_claims import claim_values
from scenarios.app.results.summary_keys import Key, check_declared, declaration
from scenarios.app.results.summary_leakage import (
    anywhere_m,
    attack_values,
    baseline_values,
    effort_values,
    estimated,
    home_values,
    on_grid_m,
)
from scenarios.app.results.summary_linking import identity_values, linking_values, unicity_values
from scenarios.app.results.summary_named import Truth, chance_values, densest_values, named_values
from scenarios.app.results.summary_stated import stated_values
from scenarios.app.results.summary_tracking import tracking_values
from scenarios.app.results.summary_uploads import reached_values, upload_values
from scenarios.app.results.summary_withheld import accepted, sums_values, withheld_values
from scenarios.app.study.study import Study

USELESS_ABOVE_DB = 2.0  # a map this much worse than a constant says nothing about privacy either
USEFUL_RANKS = 0.2  # nor does a density whose rank correlation is hardly better than chance


def summarise(folder: Path, study: Study) -> dict[str, Any]:
    """All values of a run by key. Raises KeyError for one whose key is not declared."""
    rounds, curation = read_table(folder, "rounds"), read_table(folder, "curation")
    metrics, links = read_table(folder, "metrics"), read_table(folder, "links")
    manifest, ues, uploads = (
        read_json(folder / MANIFEST),
        read_table(folder, "ues"),
        read_table(folder, "transmissions"),
    )
    handover = study.world.radio.handover is not None
    values: dict[str, Any] = _plain(
        {
            keys.UES_COUNT: len(ues["ue"]),
            keys.ROUNDS_PLAYED: len(rounds["round"]),
            keys.ROUNDS_EMPTY: manifest["empty_rounds"],
            keys.ROUNDS_HELD_OUT: _held_out(rounds),
            keys.ROUNDS_STOPPED: manifest["stopped_by_budget"],
            keys.SAMPLES_COUNT: int(rounds["samples"][: 1 if study.learned.data.surveys_once else None].sum()),
            keys.SAMPLES_SELECTED: int(rounds["selected"].sum()),
            keys.UPLINK_HANDOVERS: len(read_table(folder, "handovers")["ue"]) if handover else None,
            **_updates(read_table(folder, "updates"), rounds),
            **_uplink(links, rounds),
            **({} if study.learned.server.in_rounds else _in_no_round(links)),
            **upload_values(uploads, rounds),
            **_user_distances(read_table(folder, "user_distances")),
            **_eavesdropper(read_table(folder, "eavesdropper")),
        }
    )
    withholding = read_table(folder, "withholding")
    values |= withheld_values(withholding) | sums_values(read_table(folder, "sums"))
    values |= _refused(rounds, accepted(rounds, withholding), metrics) | _fallbacks(curation) | _planned(folder / PLAN)
    values |= _utility(read_table(folder, "final"), rounds) | _metrics(metrics) | reached_values(uploads, metrics)
    values |= _leakage(folder, study, (ues, links), manifest["area_m"], values[keys.USEFUL.of()])
    values |= _membership(read_table(folder, "membership")) | _privacy(read_table(folder, "privacy"))
    values |= _moved(read_table(folder, "spends")) | unicity_values(read_table(folder, "unicity"))
    check_declared(values)
    if "positions" in study.learned.data.offers:
        return values
    return {key: value for key, value in values.items() if not (known := declaration(key)) or not known.places}


def _plain(values: dict[Key, Any]) -> dict[str, Any]:
    """Values of single keys."""
    return {key.of(): value for key, value in values.items()}


def _named(name: str, values: dict[Key, Any]) -> dict[str, Any]:
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
    learner, settings = study.learned.learner, study.learned.leakage
    if isinstance(learner, Density) and len(leakage["ue"]):
        anywhere = on_grid_m(estimated(updates, leakage), learner, (x0, y0, x1, y1))
    else:
        anywhere = anywhere_m(updates, (x0, y0, x1, y1))
    values = list_values(read_table(folder, "list_scores"), settings.list_near_m) | _plain(
        {keys.NEAR: settings.near_m, keys.AREA_CENTRE_ERROR: median_of(centre), keys.ANYWHERE_ERROR: anywhere}
    )
    if study.learned.attacks:
        values |= _plain(baseline_values(leakage, [attack.label for attack in study.learned.attacks]))
    homes, watched = with_home(ues), np.unique(leakage["ue"])
    truth, densest = (of(ues, watched, settings.near_m) for of in (Truth.of, Truth.densest))
    area = Area(x0, y0, x1, y1)
    values |= _plain(_chance(folder, study, truth, area, (keys.UNIFORM, keys.OTHERS)))
    values |= _plain(_chance(folder, study, densest, area, ((keys.DENSEST_UNIFORM,), (keys.DENSEST_OTHERS,))))
    values |= _plain(_without_home(ues))
    named, requested_s = read_table(folder, "named"), _requested_s(folder)
    tracking, linking = _of(read_table(folder, "tracking"), targets), read_table(folder, "linking")
    people = read_table(folder, "identities")
    for attack in study.learned.attacks:
        mine, effort, exact = (_by_attack(table, attack.label) for table in (leakage, estimates, wasserstein))
        attacked, said = np.unique(_by_attack(every, attack.label)["ue"]), _by_attack(named, attack.label)
        reached = attack_values(mine) | home_values(mine, homes, settings.near_m) | effort_values(effort)
        reached |= claim_values(effort, links, settings.near_m)
        reached |= named_values(mine, said, truth, attacked, requested_s)
        reached |= densest_values(mine, said, densest, attacked, requested_s)
        reached |= stated_values(said, truth, area)
        reached |= {keys.W1: mean_of(exact["w1_m"]), keys.CENTROID_W1: mean_of(exact["centroid_w1_m"])}
        for key, gated in ((keys.ERROR_MEDIAN, keys.ERROR_GATED), (keys.SQRT_SW1, keys.SQRT_SW1_GATED)):
            reached[gated] = float("nan") if useful is False else reached[key]
        if isinstance(attack, ClosedForm):
            reached[keys.THEOREM_BOUND] = median_of(updates["bound_m"])
        tracked = tracking_values(_by_attack(tracking, attack.label), study.learned.round_s, useful)
        followed = linking_values(_by_attack(linking, attack.label))
        followed |= identity_values(_by_attack(people, attack.label))
        values |= _named(attack.label, reached) | _named(attack.label, tracked) | _named(attack.label, followed)
    shares = [share for of in study.learned.attacks if (share := named_share(values, of.label)) is not None]
    return values | ({keys.STRONGEST_NAMED.of(): max(shares)} if shares else {})


def _without_home(ues: Table) -> dict[Key, Any]:
    """How many replayed UEs have no home, and how many of these too few nights."""
    replayed, none = np.isfinite(ues["nights"]), ~np.isfinite(ues["home_x_m"])
    if not replayed.any():
        return {}
    few = none & (ues["nights"] < FEWEST_NIGHTS)
    return {keys.HOMES_NONE: int(none.sum()), keys.HOMES_FEW_NIGHTS: int(few.sum())}


def _chance(
    folder: Path, study: Study, truth: Truth, area: Area, called: tuple[tuple[Key, ...], tuple[Key, ...]]
) -> dict[Key, Any]:
    """What places named by chance find; nothing without an attack, or without a place to find."""
    if not study.learned.attacks or not len(truth.ue):
        return {}
    points = read_arrays(folder / POINTS)
    width_m = study.learned.leakage.peak_width_m
    return chance_values(truth, area, points["ue"], points["position_m"], width_m, *called)


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
    if ues is None:
        return table
    mine = np.isin(table["ue"], ues)
    return {k: v[mine] for k, v in table.items()}


def _by_attack(table: Table, label: str) -> Table:
    """Rows of one attack."""
    return {k: v[table["attack"] == label] for k, v in table.items()}


def _refused(rounds: Table, accepting: np.ndarray, metrics: Table) -> dict[str, Any]:
    """What the UEs' own policies refused, and for which reasons; accepting (n,): UEs that did not, in each round."""
    refused, requested = rounds["refused"], rounds["refused"] + accepting
    values = _plain(
        {
            keys.REFUSED_COUNT: int(refused.sum()),
            keys.REFUSED_REQUESTED: int(requested.sum()),
            keys.REFUSED_ROUNDS: int((refused > 0).sum()),
            keys.REFUSED_BY_ALL: int(((refused > 0) & (refused == requested)).sum()),
            keys.REFUSED_MAX: int(refused.max(initial=0)),
        }
    )
    for name in dict.fromkeys(metrics["name"][metrics["part"] == "query"].tolist()):
        count = metrics["value"][(metrics["part"] == "query") & (metrics["name"] == name)].sum()
        if name.startswith("refused_") and count > 0:
            values[keys.REFUSED_REASON.of(name.removeprefix("refused_"))] = int(count)
    return values


def _fallbacks(curation: Table) -> dict[str, Any]:
    """How often steps of curation took their fallback: all together, and each by itself."""
    values = {keys.ALL_FALLBACKS.of(): mean_of(100.0 * curation["fallback"])}
    for step in dict.fromkeys(curation["step"].tolist()):
        values[keys.FALLBACK.of(step)] = mean_of(100.0 * curation["fallback"][curation["step"] == step])
    return values


def _user_distances(pairs: Table) -> dict[Key, Any]:
    distance = pairs["sqrt_sw1"]
    return {
        keys.PAIR_SQRT_SW1_MEDIAN: median_of(distance),
        keys.PAIR_SQRT_SW1_MIN: quantile_of(distance, 0.0),
        keys.PAIR_SQRT_SW1_MAX: quantile_of(distance, 1.0),
    }


def _planned(path: Path) -> dict[str, Any]:
    """The numbers of the study's plan, if it has one."""
    plan = read_json(path) if what_is(path) else {}
    return {f"plan.{key}": value for key, value in plan.items() if not isinstance(value, str | list)}


def _eavesdropper(rows: Table) -> dict[Key, Any]:
    return {
        keys.EAVESDROPPER_DECODED: mean_of(100.0 * rows["decoded"]),
        keys.EAVESDROPPER_SINR: median_of(rows["sinr_db"]),
    }


def _updates(updates: Table, rounds: Table) -> dict[Key, Any]:
    return {
        keys.UPDATES_SENT: len(updates["ue"]),
        keys.UPDATES_DECODED: mean_of(100.0 * updates["decoded"]),
        keys.UPDATES_LATE: _share(rounds["late"].sum(), len(updates["ue"])),
        keys.UPDATES_NON_FINITE: int(rounds["non_finite"].sum()),
    }


def _uplink(links: Table, rounds: Table) -> dict[Key, Any]:
    return {
        keys.UPLINK_SINR: median_of(links["sinr_db"]),
        keys.UPLINK_LATENCY: median_of(links["latency_s"]),
        keys.UPLINK_ENERGY: float(rounds["energy_j"].sum()),
        **_in_vain(links),
        keys.UPLINK_NOISE: median_of(links["noise_std"]),
    }


def _in_vain(links: Table) -> dict[Key, Any]:
    """What became of uploads that the server did not decode in time."""
    lost, bits = links["decoded"] == 0, links["rate_bps"] * links["airtime_s"]
    bits = np.where(np.isfinite(bits), bits, 0.0)
    return {
        keys.UPDATES_NO_RATE: _share((~np.isfinite(links["airtime_s"])).sum(), len(lost)),
        keys.UPLINK_VAIN_ENERGY: _share(links["energy_j"][lost].sum(), links["energy_j"].sum()),
        keys.UPLINK_VAIN_BITS: _share(bits[lost].sum(), bits.sum()),
    }


def _in_no_round(links: Table) -> dict[Key, Any]:
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
    for name in dict.fromkeys(table["attack"].tolist()):
        mine = _by_attack(table, name)
        values |= _named(
            name,
            {
                keys.AUC_LAST: float(mine["auc"][-1]),
                keys.AUC_LOW: float(mine["auc_low"][-1]),
                keys.AUC_HIGH: float(mine["auc_high"][-1]),
                keys.AUC_BEFORE: float(mine["auc_before"][-1]),
                keys.AUC_DIFFERENCE: float(mine["auc_difference"][-1]),
                keys.AUC_DIFFERENCE_LOW: float(mine["auc_difference_low"][-1]),
                keys.AUC_DIFFERENCE_HIGH: float(mine["auc_difference_high"][-1]),
                keys.TPR_LAST: float(mine["tpr_percent"][-1]),
                keys.AUC_MAX: quantile_of(mine["auc"][np.isfinite(mine["auc"])], 1.0),
            },
        )
    return values


_ACCOUNTANTS = {
    "epsilon": keys.EPSILON_MAX,
    "naive": keys.NAIVE_MAX,
    "zcdp": keys.ZCDP_MAX,
    "rdp": keys.RDP_MAX,
    "with_channel": keys.WITH_CHANNEL_MAX,
}


def _privacy(account: Table) -> dict[str, Any]:
    """The UE that spent most of each account; of accounts with one name the one that spent most."""
    values: dict[str, Any] = {}
    for name in dict.fromkeys(account["mechanism"].tolist()):
        mine = {k: v[account["mechanism"] == name] for k, v in account.items()}
        for column in ("epsilon", "naive", "zcdp", "rdp"):  # an empty cell is no finite epsilon
            mine[column] = np.nan_to_num(mine[column], nan=np.inf)
        mine["with_channel"] = _with_channel(mine)
        worst = int(np.argmax(mine["epsilon"]))
        largest: dict[Key, Any] = {
            key: quantile_of(mine[column][~np.isnan(mine[column])], 1.0) for column, key in _ACCOUNTANTS.items()
        }
        values |= _named(name, {**largest, keys.DELTA: float(mine["delta"][worst])})
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
    moved = spends["unit"] == "location"
    names = dict.fromkeys(spends["mechanism"][moved].tolist())
    worst = {n: np.max(spends["epsilon"][moved & (spends["mechanism"] == n)]) for n in names}
    return {keys.EPSILON_PER_M_MAX.of(name): float(value) for name, value in worst.items()}
