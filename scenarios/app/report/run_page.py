"""The page of a run: what is said above its figures, what it holds for, and its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scenarios.app.report.figures.run import run_panels
from scenarios.app.report.html import card, facts, headings, keyed_table, page, paragraphs, section, table
from scenarios.app.report.series import Tracks
from scenarios.app.results.over_seeds import blocks, split_key, value_text
from scenarios.app.results.run import Run, clock_of, part
from scenarios.app.results.statistics import MEANINGFUL, figure_text
from scenarios.app.results.summary import with_home
from scenarios.app.results.summary_text import (
    USELESS,
    accuracy_words,
    classifies,
    density_words,
    home_distance,
    home_reach,
)

MOST_WARNINGS = 6


def single(run: Run) -> str:
    """The page of one run."""
    panels, useful = run_panels(run), _useful_words(run.summary)
    warnings, findings = ([], [useful]) if run.summary.get("utility.useful") else ([useful], [])
    warnings += _warnings(run.manifest)
    header = (
        headings(run.manifest["title"], str(run.study.get("paper") or ""))
        + paragraphs(warnings, "warns")
        + paragraphs([*findings, *_findings(run)], "says")
        + facts(_facts(run))
        + card("The channel card: what the radio models, and what it does not", *_card(run.manifest))
    )
    return page(run.manifest["title"], header, [*map(section, panels), *_summary_tables(run)], panels)


def _useful_words(summary: Mapping[str, Any]) -> str:
    """What the model is worth."""
    if "utility.rank_correlation" in summary:
        words = density_words(summary)
        return f"{words[0].upper()}{words[1:]}."
    if classifies(summary):
        return f"The model: {accuracy_words(summary)}."
    rmse, constant, raw = (
        value_text(summary.get(f"utility.{name}_db")) for name in ("rmse", "constant_rmse", "raw_upload_rmse")
    )
    if summary.get("utility.rmse_db") is None and summary.get("utility.constant_rmse_db") is None:
        return "What the model is worth was not measured: nothing was held out."
    if summary.get("utility.useful"):
        worse = (summary.get("utility.rmse_db") or 0) > (summary.get("utility.constant_rmse_db") or 0)
        what = "hardly useful, though not much worse than a constant" if worse else "useful"
        return f"The model is {what}: {rmse} dB against {constant} dB of a constant and {raw} dB of raw upload."
    return (
        f"The model is NOT useful: {rmse} dB against {constant} dB of a constant. It has not learnt the map: {USELESS}."
    )


def _findings(run: Run) -> list[str]:
    """What each attack found and what was spent, in plain words."""
    said = []
    for name in run.attacks:
        parts = (_error_words(run, name), _home_words(run, name), _sw1_words(run, name))
        said.append(f"{name}: {'; '.join(p for p in parts if p)}.")
    for key, value in run.summary.items():
        kind, name, what, _ = split_key(key)
        if kind == "privacy" and what == "epsilon_max":
            said.append(_privacy_words(run, name))
        elif kind == "membership" and what == "auc":
            low, high = (value_text(run.summary.get(f"membership.{name}.auc_{end}")) for end in ("low", "high"))
            said.append(f"{name} tells records that were learnt from by an AUC of {value_text(value)} [{low}, {high}].")
    if run.summary.get("rounds.stopped_by_budget"):
        said.append("Learning ended because the next round would have exceeded its privacy budget.")
    return said or ["No attack was made."]


def _privacy_words(run: Run, name: str) -> str:
    """What the worst UE of an account has spent, on what it stands, and what it does not cover."""
    account = run.tables["privacy"]
    mine = np.array([m == name for m in account["mechanism"]], dtype=bool) & ~np.isnan(account["ue"])
    rows = {k: v[mine] for k, v in account.items()}
    if not mine.any():
        return f"{name} drew noise, but what it spent is missing."
    worst = int(np.argmax(np.nan_to_num(rows["epsilon"], nan=np.inf)))
    row = {k: v[worst] for k, v in rows.items()}
    whom = "every UE" if row["ue"] < 0 else "the UE that spent most"
    figures = ", ".join(f"{word} {figure_text(row[word.lower()])}" for word in ("naive", "zCDP", "RDP"))
    text = (
        f"{name} spent epsilon {figure_text(row['epsilon'])} at delta {row['delta']:g} of {whom} (one {row['unit']}, "
        f"{row['relation']}; {row['accountant']} over {int(row['draws'])} draws; {figures})"
    )
    if np.isfinite(row["with_channel"]):
        text += f", {figure_text(row['with_channel'])} if the channel's noise is believed"
    if row["epsilon"] > MEANINGFUL:
        text += f"; above {MEANINGFUL:.0f} it is no meaningful guarantee"
    if row["ue"] < 0:
        text += "; it covers what is published, not what the server receives"
    return text + "."


def _error_words(run: Run, name: str) -> str:
    median = run.summary.get(f"attack.{name}.centroid_error_m.median")
    diverged = run.summary.get(f"attack.{name}.diverged_percent")
    if median is None and diverged is None:
        return "nothing was estimated"
    lost = f"{value_text(diverged)} % of the estimates diverged"
    if median is None:
        return f"the batch centroid is not found, {lost}"
    n_ue = run.summary.get("ues.count") or 1
    over = f"{run.summary.get('rounds.played')} rounds" + (f" of {n_ue} UEs" if n_ue > 1 else "")
    found = f"the batch centroid is found to within {value_text(median)} m (median over {over})"
    return f"{found}, {lost}" if diverged else found


def _home_words(run: Run, name: str) -> str:
    """For how many UEs home was reached, and how near."""
    reach, rows = home_reach(run.summary, name), run.rows("leakage", "attack", name)
    n = len(np.intersect1d(rows["ue"], with_home(run.tables["ues"])))
    if reach is None or not n:
        return ""
    near, share = reach
    away = home_distance(run.summary, name)
    return f"it comes within {near} m of home for {round(share * n)} of {n} UEs, nearest {away}"


def _sw1_words(run: Run, name: str) -> str:
    """Whether the estimates beat as many random guesses, at the end and on average over UEs."""
    rows = run.rows("leakage", "attack", name)
    columns = ("sw1_m", "guess_sw1_low_m", "guess_sw1_high_m")
    if not all(np.isfinite(rows[c]).any() for c in columns):
        return ""
    tracks = Tracks.of(rows)
    mine, low, high = (float(np.nanmean(tracks.so_far(c)[-1])) for c in columns)
    verdict = "better than" if mine < low else "worse than" if mine > high else "no better than"
    return (
        f"all its estimates together tell where the user was {verdict} as many random guesses do (SW1 "
        f"{figure_text(mine)} m; guesses {figure_text(low)} to {figure_text(high)} m)"
    )


def _facts(run: Run) -> dict[str, str]:
    """Where the figures come from and what they hold for; what the channel card tells is left to it."""
    manifest, study = run.manifest, run.study
    world, learning = part(study, "world"), part(study, "learning")
    threat = part(learning, "threat")
    return {
        "seed": str(manifest.get("seed")),
        "command": str(manifest.get("command") or "not recorded"),
        "simulated span": period(manifest),
        "rounds": f"{run.summary.get('rounds.played')} played, {run.summary.get('rounds.empty')} without data; "
        f"one every {_span(manifest.get('round_s'))}",
        "UEs": f"{run.summary.get('ues.count')}, mobility {part(world, 'ues', 'mobility').get('kind')}",
        "power": _words(study.get("power")),
        **({} if part(manifest, "channel_card") else _radio_facts(run)),
        "learner": _words(learning.get("learner")),
        "curation": _words(learning.get("curation")),
        "defenses": _words(learning.get("defenses")),
        "aggregation": f"{_words(learning.get('aggregation'))}; query policy {_words(learning.get('query'))}",
        "threat": f"{threat.get('viewpoint')}, sees {threat.get('sees')}",
        **_trace_facts(manifest.get("trace")),
        "versions": ", ".join(f"{k} {v}" for k, v in part(manifest, "versions").items()),
    }


def _radio_facts(run: Run) -> dict[str, str]:
    """What the study says of the radio, for an older run without a channel card."""
    parts = part(run.study, "world", "radio")
    shown = {"path loss": "path_loss", "shadowing": "shadowing", "uplink": "uplink"}
    return {"base stations": str(len(run.stations))} | {what: _words(parts.get(key)) for what, key in shown.items()}


def _card(manifest: Mapping[str, Any]) -> tuple[list[tuple[str, str]], str]:
    """Aspects and how they are modelled; and what is not."""
    found = {str(k): str(v) for k, v in part(manifest, "channel_card").items()}
    rest = found.pop("not modelled", "")
    left_out = [k for k, v in found.items() if v == "not modelled"]
    rows = [(k, v) for k, v in sorted(found.items(), key=_card_order) if k not in left_out]
    return rows, ", ".join([*left_out, *([rest] if rest else [])])


_CARD = (
    "carrier", "base stations", "path loss", "line of sight", "shadowing", "small-scale fading", "RSRP measurement",
    "serving cell", "presence", "uplink", "noise", "uplink interference", "downlink", "training", "delay and energy",
)  # fmt: skip


def _card_order(row: tuple[str, str]) -> tuple[int, str]:
    """From the carrier to the uplink; aspects unknown here come last, by name."""
    return (_CARD.index(row[0]) if row[0] in _CARD else len(_CARD)), row[0]


def _warnings(manifest: Mapping[str, Any]) -> list[str]:
    """What the run warned of, a few in full."""
    said = manifest.get("warnings")
    texts = [str(text) for text in said] if isinstance(said, list) else []
    more = len(texts) - MOST_WARNINGS
    return [*texts[:MOST_WARNINGS], *([f"and {more} more warnings, see manifest.json"] if more > 0 else [])]


def _trace_facts(trace: Any) -> dict[str, str]:
    if not isinstance(trace, dict):
        return {}
    counts = ", ".join(f"{k} {v}" for k, v in part(trace, "counts").items() if v)
    notes = "; ".join(map(str, trace.get("notes") or ()))
    return {"trace": f"{counts}; time zone {trace.get('timezone')}", "notes on the trace": notes or "none"}


def period(manifest: Mapping[str, Any]) -> str:
    """First and last moment of a run."""
    clock = clock_of(manifest)
    return f"{clock.text(0.0)} to {clock.text(manifest['duration_s'])}"


def _words(of: Any) -> str:
    """A part, or a list of parts, with its parameters in a line."""
    if isinstance(of, list):
        return "; ".join(map(_words, of)) or "none"
    if not isinstance(of, dict):
        return "none" if of is None else str(of)
    rest = ", ".join(f"{k} {v}" for k, v in of.items() if k != "kind" and v is not None)
    return f"{of.get('kind')}" + (f" ({rest})" if rest else "")


def _span(seconds: Any) -> str:
    """A length of time in the largest unit that leaves it whole."""
    if not isinstance(seconds, int | float):
        return "–"
    units = (("d", 86_400), ("h", 3600), ("min", 60))
    whole = [f"{seconds / size:g} {unit}" for unit, size in units if seconds >= size and seconds % size == 0]
    return whole[0] if whole else f"{seconds:g} s"


def _summary_tables(run: Run) -> list[str]:
    """Every key with what it says: those of the run, then a column for each attack, then each mechanism."""
    split, found = blocks(list(run.summary)), []
    for kind, title in (
        ("", "Summary"),
        ("attack", "Summary of each attack"),
        ("privacy", "Privacy spent"),
        ("membership", "Summary of each attack on membership"),
    ):
        names = [name for k, name in split if k == kind]
        names.sort(key=lambda name: run.attacks.index(name) if name in run.attacks else len(run.attacks))
        rows: dict[str, tuple[str, dict[str, str]]] = {}
        for name in names:
            for key, what, says in split[kind, name]:
                rows.setdefault(what, (says, {}))[1][name] = value_text(run.summary[key])
        if rows:
            lines = [(what, says, [v.get(n, "–") for n in names]) for what, (says, v) in rows.items()]
            found.append(keyed_table(title, [n or "value" for n in names], lines))
    return [*found, *_figure_tables(run, split)]


def _figure_tables(run: Run, split: dict[tuple[str, str], list[tuple[str, str, str]]]) -> list[str]:
    """A row for each figure of a part, a column for each thing that the summary says of it."""
    figures = {name: block for (kind, name), block in split.items() if kind == "figure"}
    if not figures:
        return []
    head = ["figure", *(f"{what}: {says}" for _, what, says in next(iter(figures.values())))]
    lines = [[name, *(value_text(run.summary[key]) for key, _, _ in block)] for name, block in figures.items()]
    return [table("Figures of parts", head, lines)]
