"""Reports: the page of a run, or a page that compares runs; a pure function of run folders.

Simulates nothing, imports no learning library, and reads no clock: the same folder gives the same bytes.
"""

from __future__ import annotations

import csv
import re
import zipfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from fl.tables import TABLES
from netsim.clock import Clock
from netsim.errors import BadInput
from netsim.record import write_text
from netsim.units import FloatArray
from scenarios.document import one_line, read
from scenarios.figures import Member, Run, Table, Tracks, comparison_panels, member, quantile, run_panels
from scenarios.folder import MANIFEST, STUDY, SUMMARY, read_json, read_table
from scenarios.page import facts, figure_text, headings, page, paragraphs, section, table
from scenarios.summary import KEYS

PAGE, RUNS, SWEEP, POINTS = "report.html", "runs.csv", "sweep.json", "points.npz"

_MANIFEST = {"title": str, "first_day": str, "duration_s": int | float, "area_m": list}  # what a page is built on
_MAIN = (  # the keys that a comparison shows, without those of one attack or mechanism
    "utility.rmse_db", "utility.constant_rmse_db", "utility.raw_upload_rmse_db", "utility.useful",
    "baseline.floor.sw1_m", "baseline.random_guess.sw1_m", "baseline.random_guess.home_m",
    "updates.decoded_percent", "centroid_error_m.median", "centroid_error_m.first_round",
    "selected_error_m.median", "diverged_percent", "sw1_m", "smoothed_error_m", "home_m", "home_named_m",
    "home_within_100m_probability", "home_named_100m_probability", "epsilon_max",
)  # fmt: skip


def report(folder: Path) -> Path:
    """Write `report.html` into the folder of a run, of a sweep, or of several runs; returns its path.

    Raises
    ------
    BadInput : one line: not such a folder, or a file in it is damaged.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise BadInput(one_line(f"{folder}: no such folder; give the folder of a run or of a sweep"))
    several = (folder / RUNS).exists() or not (folder / MANIFEST).exists()
    text = _comparison(folder) if several else _single(_load(folder))
    try:
        write_text(folder / PAGE, text)
    except OSError as error:
        raise BadInput(one_line(f"{folder / PAGE}: cannot be written ({error.strerror})")) from None
    return folder / PAGE


# -- reading


def _load(folder: Path) -> Run:
    manifest, summary = read_json(folder / MANIFEST), read_json(folder / SUMMARY)
    _check_manifest(folder / MANIFEST, manifest)
    wrong = [key for key, value in summary.items() if not isinstance(value, int | float | None)]
    if wrong:
        raise BadInput(one_line(f"{folder / SUMMARY}: {wrong[0]} is not a figure; run the study again"))
    tables = {name: _table(folder, name) for name in TABLES}
    run = Run(manifest, summary, read(folder / STUDY).data, tables, _points_m(folder / POINTS))
    times = [t for table in tables.values() if "time_s" in table for t in table["time_s"] if np.isfinite(t)]
    try:
        run.dates(np.array([min(times, default=0.0), max(times, default=0.0), manifest["duration_s"]]))
    except (OverflowError, ValueError):
        raise BadInput(one_line(f"{folder}: a time lies outside of the calendar; run the study again")) from None
    return run


def _check_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a manifest without what a page is built on."""
    wrong = [key for key, kind in _MANIFEST.items() if not isinstance(manifest.get(key), kind)]
    if not wrong:
        area = manifest["area_m"]
        if len(area) != 4 or not all(isinstance(v, int | float) and np.isfinite(v) for v in area):
            wrong.append("area_m")
        try:
            date.fromisoformat(manifest["first_day"])
        except ValueError:
            wrong.append("first_day")
    if wrong:
        raise BadInput(one_line(f"{path}: {wrong[0]} is missing or damaged; run the study again"))


def _table(folder: Path, name: str) -> Table:
    """A record table with all its columns."""
    path = folder / f"{name}.csv"
    try:
        found = read_table(folder, name)
    except BadInput as error:
        raise BadInput(one_line(str(error))) from None
    except (ValueError, csv.Error) as error:  # rows of different lengths, or a NUL
        raise BadInput(one_line(f"{path}: damaged ({error}); run the study again")) from None
    missing = [column for column in TABLES[name] if column not in found]
    if missing:
        raise BadInput(one_line(f"{path}: column {missing[0]} is missing; run the study again"))
    return found


def _points_m(path: Path) -> FloatArray:
    """True points (n, 2)."""
    try:
        # opened here: numpy leaves a damaged file open
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return np.asarray(arrays["position_m"], dtype=np.float64).reshape(-1, 2)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        what = f"cannot be read ({getattr(error, 'strerror', None) or error}); run the study again"
        raise BadInput(one_line(f"{path}: {what}")) from None


def _listed(folder: Path) -> list[tuple[str, Path]]:
    """Label and folder of each run of a sweep, or else of each run that lies directly in the folder."""
    if (folder / RUNS).exists():
        return _sweep(folder)
    if (folder / SWEEP).exists():
        raise BadInput(one_line(f"{folder}: this sweep is not finished; start it again and it goes on"))
    found = [(p.name, p) for p in sorted(folder.iterdir()) if (p / MANIFEST).exists()]
    if not found:
        what = f"neither the folder of a run (no {MANIFEST}) nor of a sweep (no {RUNS})"
        raise BadInput(one_line(f"{folder}: {what}; give a folder that netsim wrote"))
    return found


def _sweep(folder: Path) -> list[tuple[str, Path]]:
    path = folder / RUNS
    try:
        with path.open(newline="", encoding="utf-8") as f:
            found = [(str(row["label"] or "as written"), folder / row["folder"]) for row in csv.DictReader(f)]
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise BadInput(one_line(f"{path}: not a table of runs ({error!r}); start the sweep again")) from None
    if not found:
        raise BadInput(one_line(f"{path}: lists no run; start the sweep again"))
    for _, run in found:
        if not run.resolve().is_relative_to(folder.resolve()):
            raise BadInput(one_line(f"{path}: the run {run} lies outside of {folder}; move it inside"))
    return found


# -- the page of a run


def _single(run: Run) -> str:
    panels, useful = run_panels(run), _useful_words(run.summary)
    warnings, findings = ([], [useful]) if run.summary.get("utility.useful") else ([useful], [])
    header = (
        headings(run.manifest["title"], str(run.study.get("paper") or ""))
        + paragraphs(warnings, "warns")
        + paragraphs([*findings, *_findings(run)], "says")
        + facts(_facts(run))
    )
    return page(run.manifest["title"], header, [*map(section, panels), *_summary_tables(run)], panels)


def _useful_words(summary: Mapping[str, Any]) -> str:
    """What the model is worth."""
    rmse, constant, raw = (
        _text(summary.get(f"utility.{name}_db")) for name in ("rmse", "constant_rmse", "raw_upload_rmse")
    )
    if summary.get("utility.useful"):
        worse = (summary.get("utility.rmse_db") or 0) > (summary.get("utility.constant_rmse_db") or 0)
        what = "hardly useful, though not much worse than a constant" if worse else "useful"
        return f"The model is {what}: {rmse} dB against {constant} dB of a constant and {raw} dB of raw upload."
    return (
        f"The model is NOT useful: {rmse} dB against {constant} dB of a constant; privacy figures of a useless "
        "model mean little."
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
            said.append(f"{name} spent epsilon {_text(value)} (largest of any UE, all rounds composed).")
    return said or ["No attack was made."]


def _error_words(run: Run, name: str) -> str:
    median = run.summary.get(f"attack.{name}.centroid_error_m.median")
    diverged = run.summary.get(f"attack.{name}.diverged_percent")
    if median is None and diverged is None:
        return "nothing was estimated"
    lost = f"{_text(diverged)} % of the estimates diverged"
    if median is None:
        return f"the batch centroid is not found, {lost}"
    n_ue = run.summary.get("ues.count") or 1
    over = f"{run.summary.get('rounds.played')} rounds" + (f" of {n_ue} UEs" if n_ue > 1 else "")
    found = f"the batch centroid is found to within {_text(median)} m (median over {over})"
    return f"{found}, {lost}" if diverged else found


def _home_words(run: Run, name: str) -> str:
    """For how many UEs home was reached."""
    pattern = re.compile(rf"attack\.{re.escape(name)}\.home_within_(.+)m_probability")
    found = [(m[1], v) for k, v in run.summary.items() if (m := pattern.fullmatch(k)) and v is not None]
    rows = run.tables["leakage"]
    n = len(np.unique(rows["ue"][np.isfinite(rows["guess_home_m"])]))
    if not found or not n:
        return ""
    return f"it comes within {found[0][0]} m of home for {round(found[0][1] * n)} of {n} UEs"


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
    """Where the figures come from and what they hold for."""
    manifest, study = run.manifest, run.study
    world, learning = _part(study, "world"), _part(study, "learning")
    radio, threat = _part(world, "radio"), _part(learning, "threat")
    return {
        "seed": str(manifest.get("seed")),
        "command": str(manifest.get("command") or "not recorded"),
        "simulated span": _period(manifest),
        "rounds": f"{run.summary.get('rounds.played')} with measurements, {run.summary.get('rounds.empty')} "
        f"without; one every {_span(manifest.get('round_s'))}",
        "UEs": f"{run.summary.get('ues.count')}, mobility {_part(_part(world, 'ues'), 'mobility').get('kind')}",
        "base stations": str(len(run.stations)),
        "path loss": _words(radio.get("path_loss")),
        "shadowing": _words(radio.get("shadowing")),
        "uplink": f"{_words(radio.get('uplink'))}; power {_words(study.get('power'))}",
        "learner": _words(learning.get("learner")),
        "curation": _words(learning.get("curation")),
        "defenses": _words(learning.get("defenses")),
        "aggregation": f"{_words(learning.get('aggregation'))}; query policy {_words(learning.get('query'))}",
        "threat": f"{threat.get('viewpoint')}, sees {threat.get('sees')}",
        **_trace_facts(manifest.get("trace")),
        "versions": ", ".join(f"{k} {v}" for k, v in _part(manifest, "versions").items()),
    }


def _trace_facts(trace: Any) -> dict[str, str]:
    if not isinstance(trace, dict):
        return {}
    counts = ", ".join(f"{k} {v}" for k, v in _part(trace, "counts").items() if v)
    notes = "; ".join(map(str, trace.get("notes") or ()))
    return {"trace": f"{counts}; time zone {trace.get('timezone')}", "notes on the trace": notes or "none"}


def _period(manifest: Mapping[str, Any]) -> str:
    clock = Clock(date.fromisoformat(manifest["first_day"]))
    return f"{clock.text(0.0)} to {clock.text(manifest['duration_s'])}"


def _part(inside: Any, key: str) -> dict[str, Any]:
    """A mapping inside a mapping, or an empty one."""
    value = inside.get(key) if isinstance(inside, dict) else None
    return value if isinstance(value, dict) else {}


def _words(part: Any) -> str:
    """A part, or a list of parts, with its parameters in a line."""
    if isinstance(part, list):
        return "; ".join(map(_words, part)) or "none"
    if not isinstance(part, dict):
        return "none" if part is None else str(part)
    rest = ", ".join(f"{k} {v}" for k, v in part.items() if k != "kind" and v is not None)
    return f"{part.get('kind')}" + (f" ({rest})" if rest else "")


def _span(seconds: Any) -> str:
    """A length of time in the largest unit that leaves it whole."""
    if not isinstance(seconds, int | float):
        return "–"
    units = (("d", 86_400), ("h", 3600), ("min", 60))
    whole = [f"{seconds / size:g} {unit}" for unit, size in units if seconds >= size and seconds % size == 0]
    return whole[0] if whole else f"{seconds:g} s"


# -- summaries


def split_key(key: str) -> tuple[str, str, str, str]:
    """A key of a summary -> (`attack`, `privacy` or empty; name; what; what it says), after summary.KEYS."""
    near, known = re.search(r"_([0-9.e+]+)m_", key), _usual(key)
    for pattern, says in KEYS.items():
        head, slot, tail = pattern.partition("NAME")
        if not slot and key == pattern:
            return "", "", key, says
        if slot and known.startswith(head) and known.endswith(tail):
            name = known[len(head) : len(known) - len(tail)]
            says = says if near is None else says.replace("100 m", f"{near[1]} m")
            return head.rstrip("."), name, key[len(head) + len(name) + 1 :], says
    return "", "", key, ""


def _usual(key: str) -> str:
    """The key as KEYS has it: there, what counts as near is 100 m."""
    return re.sub(r"\bhome_(within|named)_[0-9.e+]+m_", r"home_\1_100m_", key)


def _blocks(keys: Sequence[str]) -> dict[tuple[str, str], list[tuple[str, str, str]]]:
    """(kind, name) -> its (key, what, what it says), in the order of KEYS."""
    order = {pattern.partition("NAME.")[2] or pattern: i for i, pattern in enumerate(KEYS)}
    found: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    split = [(key, *split_key(key)) for key in keys]
    for key, kind, name, what, says in sorted(split, key=lambda s: (order.get(s[3], len(order)), s[0])):
        found.setdefault((kind, name), []).append((key, what, says))
    return found


def _summary_tables(run: Run) -> list[str]:
    """Every key with what it says: those of the run, then a column for each attack, then each mechanism."""
    blocks, found = _blocks(list(run.summary)), []
    for kind, title in (("", "Summary"), ("attack", "Summary of each attack"), ("privacy", "Privacy spent")):
        names = [name for k, name in blocks if k == kind]
        names.sort(key=lambda name: run.attacks.index(name) if name in run.attacks else len(run.attacks))
        rows: dict[str, tuple[str, dict[str, str]]] = {}
        for name in names:
            for key, what, says in blocks[kind, name]:
                rows.setdefault(what, (says, {}))[1][name] = _text(run.summary[key])
        if rows:
            head = ["key", *(n or "value" for n in names), "what it says"]
            lines = [[w, *(v.get(n, "–") for n in names), s] for w, (s, v) in rows.items()]
            found.append(table(title, head, lines))
    return found


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else figure_text(value)
    return str(value)


# -- the page of many runs


def _comparison(folder: Path) -> str:
    listed = _listed(folder)
    done = [(label, path) for label, path in listed if (path / SUMMARY).exists()]
    if not done:
        raise BadInput(one_line(f"{folder}: none of its {len(listed)} runs is finished; start them again"))
    members = [member(label, _load(path)) for label, path in done]  # one at a time: tables are large
    attacks = list(dict.fromkeys(name for m in members for name in m.attacks))
    panels = comparison_panels(members, attacks)
    titles = list(dict.fromkeys(m.manifest["title"] for m in members))
    papers = list(dict.fromkeys(str(m.study.get("paper")) for m in members if m.study.get("paper")))
    missing = len(listed) - len(done)
    left_out = [f"{missing} of {len(listed)} runs are not finished and left out."] if missing else []
    header = (
        headings(titles[0] if len(titles) == 1 else folder.resolve().name, "; ".join(papers))
        + paragraphs([*left_out, *_useless_words(members)], "warns")
        + paragraphs(_compared(members, attacks), "says")
        + facts(_common_facts(members))
    )
    tables = _comparison_tables(members)
    return page(titles[0], header, [*tables[:1], *map(section, panels), *tables[1:]], panels)


def _labels(members: Sequence[Member]) -> dict[str, list[Mapping[str, Any]]]:
    """Label -> the summaries of its runs."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for m in members:
        found.setdefault(m.label, []).append(m.summary)
    return found


def _compared(members: Sequence[Member], attacks: Sequence[str]) -> list[str]:
    """Which label gives most away, and which model is of use."""
    labels, said = _labels(members), []
    for name in attacks:
        key = f"attack.{name}.centroid_error_m.median"
        median = {label: _over_seeds(runs, key)[1] for label, runs in labels.items()}
        known = {label: value for label, value in median.items() if not np.isnan(value)}
        if not known:
            said.append(f"{name}: nothing was estimated in any run.")
            continue
        near, far = min(known, key=lambda k: known[k]), max(known, key=lambda k: known[k])
        said.append(
            f"{name}: the batch centroid is found best with “{near}” ({figure_text(known[near])} m, median) and "
            f"worst with “{far}” ({figure_text(known[far])} m)."
            if near != far
            else f"{name}: the batch centroid is found to within {figure_text(known[near])} m (median) everywhere."
        )
    return said


def _useless_words(members: Sequence[Member]) -> list[str]:
    """Where privacy figures mean little."""
    useless = {
        label: (sum(not run.get("utility.useful") for run in runs), len(runs))
        for label, runs in _labels(members).items()
    }
    told = [f"{k} of {n} with “{label}”" for label, (k, n) in useless.items() if k]
    if not told:
        return []
    return [f"The model is NOT useful in {', '.join(told)}; privacy figures of a useless model mean little."]


def _common_facts(members: Sequence[Member]) -> dict[str, str]:
    def all_of(values: Sequence[str]) -> str:
        return ", ".join(dict.fromkeys(values))

    return {
        "runs": str(len(members)),
        "labels": all_of([m.label for m in members]),
        "seeds": all_of([str(m.manifest.get("seed")) for m in members]),
        "command": all_of([str(m.manifest.get("command") or "not recorded") for m in members]),
        "simulated span": all_of([_period(m.manifest) for m in members]),
        "page of one run": "netsim report FOLDER, with the folder of that run, draws its map and all its figures",
    }


def _over_seeds(runs: Sequence[Mapping[str, Any]], key: str) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile of a figure; where estimates diverged, none means infinite."""
    lost = key.rsplit(".centroid_error_m.", 1)[0] + ".diverged_percent" if ".centroid_error_m." in key else ""
    values = [np.inf if run.get(key) is None and (run.get(lost) or 0) > 0 else run.get(key, np.nan) for run in runs]
    grid = np.array([[np.nan if v is None else float(v) for v in values]])
    low, median, high = (float(quantile(grid, q)[0]) for q in (0.25, 0.5, 0.75))
    return low, median, high


def _cell(runs: Sequence[Mapping[str, Any]], key: str) -> str:
    values = [run.get(key) for run in runs]
    if all(isinstance(v, bool) for v in values):
        return f"{values.count(True)} of {len(values)}" if len(values) > 1 else _text(values[0])
    low, median, high = _over_seeds(runs, key)
    known = sum(v is not None for v in values)
    if len(runs) == 1 or np.isnan(median):
        return figure_text(median)
    few = f" ({known} of {len(runs)})" if known < len(runs) and np.isfinite(high) else ""
    return f"{figure_text(median)} [{figure_text(low)}, {figure_text(high)}]{few}"


def _comparison_tables(members: Sequence[Member]) -> list[str]:
    """Main figures: a row each, a column per label; a table for utility and one for each attack and mechanism."""
    labels = _labels(members)
    keys = list(dict.fromkeys(key for m in members for key in m.summary))
    found = []
    for (kind, name), block in _blocks(keys).items():
        rows = [
            [what, *(_cell(runs, key) for runs in labels.values()), says] for key, what, says in block if what in _MAIN
        ]
        title = {"": "In short: utility and references", "attack": f"In short: {name}"}.get(kind, f"Spent: {name}")
        if rows:
            found.append(table(f"{title}, median [quartiles] over seeds", ["key", *labels, "what it says"], rows))
    return found
