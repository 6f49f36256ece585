"""Tables of figures, and the first and the last section of a page: results, every figure, settings, differences."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup

from netsim.safe import what_is
from scenarios.app.report.html import Cell, Chapter, Mark, block, table
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.folder import MANIFEST, PAGE, read_json
from scenarios.app.results.gathered import differences
from scenarios.app.results.run import Run, Table, clock_of, part
from scenarios.app.results.shown import (
    HEAD,
    answer,
    cell_text,
    compared,
    meaning,
    over_seeds,
    read_adapted,
    table_rows,
    warnings,
)
from scenarios.app.results.statistics import counted
from scenarios.app.results.table import GROUPS, Line, Runs, lines, model_verdict, row
from scenarios.app.results.verdicts import AT_CHANCE, FOUND, INCONCLUSIVE, PREVENTED, is_useful
from scenarios.app.study import Fields, Record
from scenarios.app.study.yaml_document import as_yaml

MOST_COLUMNS = 16  # labels that are columns of a table of settings; more are its rows
MOST_WARNINGS = 6
VERDICTS = (
    "Found: the whole 95 % interval of the attack is better than chance. At chance: it is not, and ends near chance. "
    "Inconclusive: neither, often for want of UEs or seeds. Prevented: at chance, with a useful model, where another "
    "variant is found. Good: model "
    "error at most 0.7 x the constant's. Useful: better than a constant."
)
"""below a table with verdicts"""


# -- the first section


def head(run: Run) -> Fields:
    """The first section of the page of a run: answer, warnings, main figures."""
    of = lines([run.summary])
    manifest = run.manifest
    n_ue = run.summary.get(keys.UES_COUNT.of()) or len(run.tables["ues"]["ue"])
    counts = ((n_ue, "UE"), (run.summary.get(keys.ROUNDS_PLAYED.of()), "round"))
    below = [f"seed {manifest.get('seed')}", *(counted(n, what) for n, what in counts if n)]
    if run.study.get("paper"):
        below.insert(0, str(run.study["paper"]))
    found = manifest.get("warnings")
    warns = list(map(str, found)) if isinstance(found, list) else []
    if len(warns) > MOST_WARNINGS:
        more = f"{counted(len(warns) - MOST_WARNINGS, 'more warning')} in manifest.json"
        warns[MOST_WARNINGS:] = [more]
    learning = part(run.study, "learning")
    return {
        "below": "; ".join(below),
        "answers": [("Result", answer(of))] if learning else [],
        "warns": [*warnings(run.summary), *warns],
        "results": lines_table(of),
        "facts": _setting(learning) | {name: text for name in GROUPS if (text := row([run.summary], name))},
    }


def _setting(learning: Fields) -> dict[str, str]:
    """The attacker and the defenses of a run that learns."""
    if not learning:
        return {}
    threat = part(learning, "threat")
    defenses = [str(part(one).get("kind")) for one in learning.get("defenses") or []]
    return {
        "attacker": f"{threat.get('viewpoint')}, observes {threat.get('observes')}",
        "defenses": ", ".join(defenses) or "none: the server receives unmodified updates",
    }


def model_line(of: Sequence[Line]) -> Line | None:
    """The line of the model; None where nothing was held out."""
    return next((line for line in of if line.key.startswith("utility.")), None)


def leading(of: Sequence[Line]) -> Line | None:
    """The line of leakage that matters most: what was found, homes and workplaces before distances."""
    attacked = [line for line in of if line.attack]
    return min(attacked, key=lambda line: (line.verdict != FOUND, line.n == 0, not line.verdict), default=None)


def lines_table(of: Sequence[Line]) -> Markup:
    """The table of results: what, value, and what is known of baseline, verdict and attack."""
    names, texts = table_rows(of)
    rows: list[list[Cell]] = [
        [title, Mark(result, one.value), baseline, verdict_mark(verdict), attack]
        for one, (title, result, baseline, verdict, attack) in zip(of, texts, strict=True)
    ]
    kept = [k for k in range(len(names)) if any(of[k] for of in texts)]
    heads = [names[k] or "measure" for k in kept]
    says = [VERDICTS] if "verdict" in heads else []
    return table("Results", heads, [[cells[k] for k in kept] for cells in rows]) + block("paragraphs", says, "says")


def verdict_mark(verdict: str) -> Mark:
    """A verdict in a word, and in colour."""
    good = is_useful(verdict) or verdict in (AT_CHANCE, PREVENTED)
    kind = "open" if verdict == INCONCLUSIVE else "held" if good else "not-held"
    return Mark(verdict, kind=kind if verdict else "")


# -- the last sections


def last_chapters(run: Run) -> list[Chapter]:
    """Every figure of a run with its meaning; its settings, channel card and the whole scenario."""
    manifest = run.manifest
    facts = {
        "seed": manifest.get("seed"),
        "command": manifest.get("command") or "not recorded",
        "simulated span": period(manifest),
        "versions": ", ".join(f"{k} {v}" for k, v in part(manifest, "versions").items()),
    }
    if trace := part(manifest, "trace"):
        counts = ", ".join(f"{k} {v}" for k, v in part(trace, "counts").items() if v)
        facts["trace"] = f"{counts}; time zone {trace.get('timezone')}"
        facts["notes on the trace"] = "; ".join(map(str, trace.get("notes") or ["none"]))
    card = part(manifest, "channel_card")
    study = block("folded", "The whole scenario, with every default", as_yaml(run.study))
    return [
        Chapter("summary", "All numbers", [figures_table({"value": [run.summary]})]),
        Chapter("configuration", "Configuration", [block("facts", facts), block("channel_card", card), study]),
    ]


def period(manifest: Record) -> str:
    """First and last moment of a run."""
    clock = clock_of(manifest)
    return f"{clock.text(0.0)} to {clock.text(manifest['duration_s'])}"


def figures_table(labels: Mapping[str, Runs]) -> str:
    """Every figure: a row per key, a column per label; it opens on a click."""
    every = dict.fromkeys(key for of in labels.values() for run in of for key in run)
    rows = list[list[Cell]]()
    for key in every:
        marks = [Mark(cell_text(of, key), over_seeds(of, key)[1]) for of in labels.values()]
        rows.append([key, *marks, meaning(key)])
    title = f"Every figure: median [quartiles] over seeds, {len(rows)} keys"
    return block("folded_parts", title, table(title, ["key", *labels, "what it says"], rows, "every-figure"))


def records_table(title: str, rows: Table) -> str:
    """Rows of a record table as they are."""
    return table(title, [name.replace("_", " ") for name in rows], zip(*rows.values(), strict=True))


# -- several labels


def variants_table(labels: Mapping[str, Runs], runs: Sequence[tuple[str, Path]], place: Path) -> Markup:
    """The lines of every label as a row, with links to the pages of its runs; place: the folder of this page."""
    found = {label: {line.title: line for line in of} for label, of in compared(labels).items()}
    every = {title: line for of in found.values() for title, line in of.items()}
    rows = list[list[Cell]]()
    for label, own in found.items():
        attacked = [line for line in own.values() if line.attack]
        leaks = {line.verdict for line in attacked}
        worst = next((v for v in (FOUND, INCONCLUSIVE, AT_CHANCE, PREVENTED) if v in leaks), "")
        figures = [Mark(own[title].result, own[title].value) if title in own else np.nan for title in every]
        attacks = ", ".join(dict.fromkeys(line.attack for line in attacked))
        verdicts = [verdict_mark(worst), verdict_mark(model_verdict([*own.values()]))]
        rows.append([label, *figures, *verdicts, attacks, _pages([path for of, path in runs if of == label], place)])
    heads = ["variant", *every, "leakage", "model", "attack", "seeds"]
    base = [f"Baselines, {title}: {line.baseline}." for title, line in every.items() if line.baseline]
    main = table("Main figures of every variant", heads, rows, "variants")
    return main + block("paragraphs", [*base, VERDICTS], "says")


def _pages(folders: Sequence[Path], place: Path) -> Mark:
    """The seeds of runs, as links where their pages are drawn."""
    seeds = [str(read_json(folder / MANIFEST).get("seed")) for folder in folders]
    if not all(what_is(folder / PAGE) == "file" for folder in folders):
        return Mark(", ".join(seeds))
    return Mark(links=[(seed, os.path.relpath(of / PAGE, place)) for seed, of in zip(seeds, folders, strict=True)])


def adapted_table(folder: Path) -> Markup:
    """The attackers that a sweep tuned for its rows; empty where it tuned none, or the folder is not a sweep's."""
    rows, note = read_adapted(folder)
    cells = [list(row.values()) for row in rows]
    return table("Adapted attackers", HEAD, cells) + block("paragraphs", [note] if rows else [], "says")


def differences_table(studies: Mapping[str, Record]) -> str:
    """The keys in which the studies of labels differ; what is not as with the first label is marked."""
    rows = list[list[Cell]]()
    for key, (first, *others) in differences(list(studies.values())).items():
        rows.append([key, first, *(Mark("same") if text == first else Mark(text, kind="changed") for text in others)])
    head: list[Cell] = ["key", *studies]
    if len(studies) > MOST_COLUMNS and rows:
        head, *rows = map(list, zip(["variant", *studies], *rows, strict=True))
    return table(f"What differs from “{next(iter(studies))}”", list(map(str, head)), rows, "differences")
