"""Claims checked against runs: scenarios are played, and each claim gets its verdict."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path

import numpy as np

from netsim import __version__
from netsim.errors import BadInput, format_count
from netsim.record import write_text
from netsim.safe import describe_file_kind
from scenarios.app.claims.claim import (
    DECIDED,
    FAILS,
    HOLDS,
    OPEN,
    UNLIKE,
    VERDICTS,
    Claim,
    ClaimRule,
    MedianBounds,
    Verdict,
    get_margin,
)
from scenarios.app.results.folder import (
    RUNS,
    format_failures,
    read_csv_rows,
    read_failures,
    read_summary,
    refuse_foreign_names,
    to_csv_text,
)
from scenarios.app.results.read import Folders, Labelled, Manifest, list_finished_runs
from scenarios.app.results.shown import format_seed_values
from scenarios.app.results.statistics import compute_median_interval, group_by_label
from scenarios.app.results.summary_keys import find_measure, read_value
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.executor import Engine
from scenarios.app.run.how import Resources
from scenarios.app.run.sweep import Sweep, resolve_points
from scenarios.app.study import Record
from scenarios.app.study.load import Scenario, list_bundled

CLAIMS = "claims.csv"
Claims = Sequence[Claim]


# -- folders


def read_labelled_summaries(folder: Path) -> Labelled:
    """Read summaries of the finished runs of a sweep."""
    by_label: dict[str, dict[int, Record]] = {}
    for label, path in list_finished_runs(folder):
        by_label.setdefault(label, {})[Manifest.from_folder(path).seed] = read_summary(path)
    return by_label


def assign_folders(out: Path, claims: Claims) -> dict[str, Path]:
    """Assign folders: scenario -> where `claims --out` keeps its runs: below its name, or that of
    its file.

    Raises BadInput for a folder with what does not belong there, or in which two scenarios would
    have one place.
    """
    places: dict[str, Path] = {}
    for scenario in dict.fromkeys(c.scenario for c in claims):
        place = out / (scenario if scenario in list_bundled() else Path(scenario).stem)
        if place in places.values():
            raise BadInput(
                f"{place}: both {scenario} and another scenario would be played there; rename one"
            )
        places[scenario] = place
    refuse_foreign_names(
        out,
        [CLAIMS, "figures.csv", *(p.relative_to(out).parts[0] for p in places.values())],
        "these claims",
    )
    return places


# -- playing


def select_quick_claims(verdicts: Sequence[Verdict], minutes: float) -> list[Claim]:
    """Select the claims of those scenarios that decide most within so many minutes of one core, by
    what they took when their verdicts were kept. Raises BadInput if there are none.
    """
    costs = {v.claim.scenario: float(v.minutes) for v in verdicts if v.minutes}
    n_decided = Counter(v.claim.scenario for v in verdicts if not v.claim.missing)
    chosen = set[str]()
    for name in sorted(costs, key=lambda name: costs[name] / max(n_decided[name], 0.1)):
        if costs[name] <= minutes:
            chosen.add(name)
            minutes -= costs[name]
    if not chosen:
        raise BadInput("--minutes: no scenario is known to be played in so few; give more")
    return [v.claim for v in verdicts if v.claim.scenario in chosen]


def play_claims(
    claims: Claims,
    places: Folders,
    at_once: int,
    watch: Watch,
    engine: Engine,
    how: Resources,
    overwrite: bool,
) -> dict[str, str]:
    """Play the scenarios of claims, each as a sweep; returns why some of them have no runs.

    By name. Only the labels are played that the rules look at, each with the seeds that its rules
    need, counted up from the scenario's first. What is finished stays if it is of the same study,
    inputs and version of netsim, and is refused else, unless `overwrite`.
    """
    reasons = {}
    by_scenario = group_by_label((claim.scenario, claim) for claim in claims)
    if any(not describe_file_kind(places[name] / RUNS) for name in by_scenario):
        engine.check()
    for name, own in by_scenario.items():
        place = places[name]
        watch_part = partial(_watch_part, watch, name)
        try:
            study = Scenario.from_source(name)
            vary = study.study.vary
            first = vary.seed[0] if vary and vary.seed else study.study.seed
            needs = [(claim.rule.labels, max(claim.seeds, claim.rule.n_seeds)) for claim in own]
            seeds = [*range(first, first + max(n for _, n in needs))]
            study = study.with_changes({"vary.seed": seeds} if vary else {"vary": {"seed": seeds}})
            checked = [
                (point, played)
                for point, played in resolve_points(study)
                if any(
                    point.label in (labels or [point.label]) and point.seed < first + n
                    for labels, n in needs
                )
            ]
            only = {point.label for point, _ in checked}
            Sweep(
                study, place, at_once, watch_part, overwrite, only, engine=engine, resources=how
            ).play(checked)
            if failed := read_failures(place):
                reasons[name] = " ".join(format_failures(failed))
        except BadInput as error:
            reasons[name] = error.lines[0]
    return reasons


def _watch_part(watch: Watch, name: str, event: Event) -> None:
    """Watch an event as one of a scenario."""
    watch(event._replace(part=name))


def write_verdicts(path: Path, verdicts: Sequence[Verdict]) -> None:
    """Write the table of verdicts, a row per claim."""
    rows = [list(verdicts[0].row), *(list(verdict.row.values()) for verdict in verdicts)]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, to_csv_text(rows))
    except OSError as error:
        raise BadInput(f"{path}: cannot be written ({error.strerror})") from None


# -- verdicts


def evaluate_claims(claims: Claims, places: Folders, reasons: Mapping[str, str]) -> list[Verdict]:
    """Evaluate claims by folders of runs.

    reasons : of scenarios without runs, whose claims stay undecided.
    """
    runs = {}
    minutes = {}
    for name, place in places.items():
        if name not in reasons:
            runs[name] = read_labelled_summaries(place)
            manifests = [Manifest.from_folder(path) for _, path in list_finished_runs(place)]
            wall_s = sum(manifest.timing.get("wall_s", 0.0) for manifest in manifests)
            minutes[name] = f"{wall_s / 60:.2g}"  # by the clock
    verdicts = []
    for claim in claims:
        name = claim.scenario
        verdict = evaluate_claim(claim, runs.get(name, {}), reasons.get(name, ""))
        if name in runs:
            verdict = replace(verdict, minutes=minutes[name], version=__version__)
        verdicts.append(verdict)
    return verdicts


def evaluate_claim(claim: Claim, runs: Labelled, why_none: str = "") -> Verdict:
    """Evaluate a claim; `why_none`: why there are no runs.

    What is missing in print makes a claim not comparable. Low leakage proves nothing where at least
    half of the models are not useful; high leakage is real there too.
    """
    rule = claim.rule
    labels = rule.labels or tuple(runs)
    word = reason = ""
    compared = {label: runs[label] for label in labels if label in runs}
    seeds = sorted(set.intersection(*map(set, compared.values()))) if compared else []
    if seeds:
        compared = {label: {s: of_label[s] for s in seeds} for label, of_label in compared.items()}
    if not runs:
        word, reason = OPEN, f"no run: {why_none or claim.scenario}"
    elif lost := [label for label in labels if label not in runs]:
        word, reason = OPEN, f"no run: no label “{lost[0]}” in {claim.scenario}"
    elif not seeds:
        word, reason = OPEN, "no seed has runs of every label"
    if claim.missing:
        word, reason = UNLIKE, claim.missing
    ours = []
    adapted = []
    for label, runs_by_seed in compared.items():
        summaries = list(runs_by_seed.values())
        text = " against ".join(format_seed_values(summaries, key) for key in rule.keys)
        ours.append(f"{label}: {text}")
        if claim.adapted:
            adapted.append(f"{label}: {format_seed_values(summaries, claim.adapted)}")
    if not word:
        word, reason = _decide(claim, compared)
    n_seeds = str(len(seeds)) if compared else ""
    return Verdict(claim, word, reason, "; ".join(ours) or "-", "; ".join(adapted), n_seeds)


# -- a table of verdicts that is kept


def merge_kept_verdicts(
    path: Path | None, claims: Claims, verdicts: Sequence[Verdict], writes: bool
) -> tuple[list[Verdict], list[str]]:
    """Keep a verdict of each claim, by runs if there are some, else by the table in `path`.

    And the ids of its rows that state what no claim does any more. writes : the table is written
    again.
    """
    rows = {}
    if path and describe_file_kind(path):
        for row in read_csv_rows(path, "move it") or [{}]:
            if not {"id", *DECIDED} <= set(row):
                raise BadInput(
                    f"{path}: is no table of verdicts; move it, and give the command again"
                )
            rows[row["id"]] = row
    decided = {verdict.claim.id: verdict for verdict in verdicts if verdict.seeds}
    for claim in claims:
        row = rows.get(claim.id, {})
        is_same = claim.stated.items() <= row.items()
        if claim.id not in decided and is_same and row.get("verdict") in VERDICTS:
            decided[claim.id] = Verdict(claim, **{name: row.get(name, "") for name in DECIDED})
    if path and writes and decided:
        write_verdicts(path, [decided[claim.id] for claim in claims if claim.id in decided])
    kept = {
        claim.id: Verdict(claim, UNLIKE if claim.missing else OPEN, claim.missing or "not played")
        for claim in claims
    }
    kept |= {verdict.claim.id: verdict for verdict in verdicts}
    return [*(kept | decided).values()], sorted(set(rows) - set(decided))


def _decide(claim: Claim, runs: Labelled) -> tuple[str, str]:
    """Decide what the runs of the labels of a claim, of the same seeds, say, and why it stays
    undecided.
    """
    rule = claim.rule
    for label, runs_by_seed in runs.items():
        for key in rule.keys:
            if share := _describe_half(
                [np.isnan(read_value(run, key)) for run in runs_by_seed.values()], label
            ):
                return OPEN, f"{key} is null in {share}"
    values = np.array(
        [
            [[read_value(run, key) for run in of_label.values()] for of_label in runs.values()]
            for key in rule.keys
        ]
    )
    printed = claim.value if isinstance(claim.value, float) else np.nan
    statements = rule.build_median_bounds(values, printed)
    if any(2 * np.isnan(s.values).sum() > len(s.values) for s in statements):
        return OPEN, "with more than half of the seeds the estimates of both labels diverged"
    words = [statement.decide(len(statements)) for statement in statements]
    word = next((w for w in (FAILS, OPEN) if w in words), HOLDS)
    decisive = words.index(word)
    if doubt := _doubt_useless_models(claim, runs, word, statements):
        return doubt
    if word == OPEN:
        low, high, _, coverage = compute_median_interval(statements[decisive].values)
        n = statements[decisive].estimate_seeds(len(statements))
        return word, (
            f"median between {low:.4g} and {high:.4g} ({100 * coverage:.0f} % interval); "
            + (f"about {n} seeds would decide it" if n else "200 seeds would not decide it")
        )
    if rule.given and (unlike := _describe_unlike_ends(rule, runs, word)):
        return UNLIKE, unlike
    return (word, "") if word == HOLDS else _confirm_failure(claim, len(runs), statements, decisive)


def _confirm_failure(
    claim: Claim, n_labels: int, statements: Sequence[MedianBounds], decisive: int
) -> tuple[str, str]:
    """Confirm that an effect of the printed size would have been found, and that no setting is
    unprinted on which a failure hangs.
    """
    found = statements[decisive].compute_detectable_effect()
    control = f"an effect of {found:.3g} is found in 19 of 20 plays"
    printed = np.array(claim.value, dtype=float)
    if printed.shape == (n_labels,) and not claim.rule.other:
        of_print = claim.rule.build_median_bounds(printed[None, :, None], np.nan)[decisive]
        effect = min(of_print.values[0] - of_print.low, of_print.high - of_print.values[0])
        control += f"; printed {effect:.3g}"
        if effect < found and not claim.unprinted:
            return OPEN, f"one of the printed size could be missed: {control}"
    if claim.unprinted:
        return UNLIKE, f"not printed: {claim.unprinted}; with ours it does not hold ({control})"
    return FAILS, control


def _doubt_useless_models(
    claim: Claim, runs: Labelled, word: str, statements: Sequence[MedianBounds]
) -> tuple[str, str] | None:
    """Doubt a verdict that takes the leakage of a label for low, at least half of whose models are
    not useful; None where none does, or where one statement fails without.

    An open one is doubted only where it could not hold with more seeds either.
    """
    found = []
    pairs = claim.rule.pairs or [("", label) for label in runs]
    for statement, pair in zip(statements, pairs, strict=False):
        if word == FAILS and statement.decide(len(statements)) != FAILS:
            continue
        label = _find_low_leakage(claim.rule, statement, pair, word == FAILS)
        useless = [run.get("utility.useful") is False for run in runs.get(label, {}).values()]
        if share := _describe_half(useless, label):
            settled = MedianBounds(np.array(useless, dtype=float), 1.0).decide() == HOLDS
            found.append((settled, share))
        elif word == FAILS:
            return None
    if not found:
        return None
    settled, share = max(found, key=itemgetter(0))
    reason = f"the model is not useful in {share}; with all models it "
    if claim.unprinted and (settled or word == FAILS):
        reason += "stays undecided" if word == OPEN else word
        return UNLIKE, f"not printed: {claim.unprinted}; {reason}"
    return None if word == OPEN else (OPEN, reason + word)


def _find_low_leakage(
    rule: ClaimRule, statement: MedianBounds, pair: tuple[str, str], fails: bool
) -> str:
    """Find the label whose leakage is low by a statement that holds, or fails; empty for none.

    `pair`: the labels with which its quantity falls, and rises.
    """
    measure = find_measure(rule.key)
    if measure is None or measure.group != "attack":
        return ""
    if fails:
        is_high = bool(np.nanmedian(statement.values) > statement.high)
    elif rule.kind in ("alike", "between", "within"):
        return "" if pair[0] else pair[1]
    else:
        is_high = statement.high == np.inf
    return pair[is_high == (measure.better == "low")]


def _describe_unlike_ends(rule: ClaimRule, runs: Labelled, word: str) -> str:
    """Say that the first label and the last differ in what they should share, and that this is in
    favour of the verdict; empty where not.
    """
    first, last = (
        _compute_median(runs[label], rule.given) for label in (rule.labels[0], rule.labels[-1])
    )
    factor = get_margin(rule.given)
    if (last * factor >= first) if word == HOLDS else (last <= first * factor):
        return ""
    return (
        f"{rule.given} is {first:.4g} at “{rule.labels[0]}” and {last:.4g} at “{rule.labels[-1]}”"
    )


def _compute_median(runs_by_seed: Mapping[int, Record], key: str) -> float:
    return float(np.nanmedian([read_value(run, key) for run in runs_by_seed.values()]))


def _describe_half(flags: Sequence[bool], label: str) -> str:
    """Say for how many runs of a label something holds; empty where for less than half of them."""
    if 2 * sum(flags) < max(len(flags), 1):
        return ""
    return f"{sum(flags)} of {format_count(len(flags), 'run')} of “{label}”"
