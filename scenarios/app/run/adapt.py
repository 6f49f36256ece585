"""Sweeps whose rows meet an attacker that knows them: tuned by evaluations on a seed that the sweep does not print.

Attacks change no training, so all candidates of a row stand in one run. They are the attacks of the row itself, then
the kinds that declare a `space`, in turn: of each kind first the combination of first values, then the others in the
order of a stream of the scenario's seed. What the row refuses is counted, and the next combination takes its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, count, groupby, product, zip_longest
from math import nan
from pathlib import Path

import numpy as np

from fl.attacks import ATTACKS
from fl.attacks.base import Attack
from netsim.errors import BadInput, RunsFailed
from netsim.rng import Streams
from scenarios.app.results.attacks import named_share
from scenarios.app.results.folder import FAILURES, held, read_failures, read_summary
from scenarios.app.results.statistics import figure_text
from scenarios.app.run.setup import ready, with_map
from scenarios.app.run.sweep import Sweep, SweepPoint, admit_sweep, checked_points, named
from scenarios.app.study import Fields, Record
from scenarios.app.study.describe import flow
from scenarios.app.study.load import Scenario
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import place_of

TUNING = "adapt"
"""folder of the runs in which attackers are tuned, a separate sweep"""
FIRST_SEED = 101
ATTACKS_KEY = "learning.attacks"
_ALONE = {
    "learning.membership": None,
    "learning.references": {"neighbours": None, "path_loss": False, "kriging_samples": 0, "central": False},
}
"""what a run of tuning leaves out: no figure of it is read"""


def adapted_sweep(evaluations: int, asked: Sweep) -> Path:
    """Tune the attacker of each row, then run every point with it beside the attacks of the row.

    Each row plays one run of tuning, with as many attacks as there are evaluations.
    """
    scenario = Scenario(asked.source)
    out = asked.out
    every = checked_points(asked.source, asked.study, asked.overrides)
    rows = []
    seed = next(seed for seed in count(FIRST_SEED) if seed not in {point.seed for point, _ in every})
    for setting, of in groupby(every, lambda one: one[0].folder.rpartition("/")[0]):
        points, studies = zip(*of, strict=True)
        with named(points[0].label):
            written, candidates, refused = _candidates(scenario, asked.study.seed, points[0], studies[0], evaluations)
        changes = changed(points[0], {ATTACKS_KEY: candidates, **_ALONE, "seed": seed})
        tuning = SweepPoint(f"{points[0].label}, tuning", seed, f"{setting}/seed-{seed}", changes)
        rows.append((points, written, tuning, refused))
    own = [point.folder for point, _ in every]
    with held(out, "sweep", lambda: admit_sweep(out, own, asked.replace)):
        runs = [(tuning, scenario.study(tuning.overrides)) for _, _, tuning, _ in rows]
        replace(asked, out=out / TUNING).play(runs)
    if failed := len(read_failures(out / TUNING)):
        raise RunsFailed(f"{failed} runs of tuning failed, see {out / TUNING / FAILURES}; the same command goes on")
    runs = []
    said = []
    for points, written, tuning, refused in rows:
        with named(points[0].label):
            attacks, found = _met(written, tuning.overrides[ATTACKS_KEY], read_summary(out / TUNING / tuning.folder))
        meets = scenario.study(changed(points[0], {ATTACKS_KEY: attacks}))
        said.append({"variant": points[0].label, "refused": refused, **found})
        runs += [(point, meets.model_copy(update={"seed": point.seed})) for point in points]
    note = (
        f"Attackers adapted to each variant: the best of {evaluations} attacks, those of the variant among them, and "
        f"the best of another kind, on seed {seed}, which no other figure is of"
    )
    return asked.play(runs, {"adapted": {"rows": said, "note": note}})


def _met(written: Sequence[Record], candidates: Sequence[Record], summary: Record) -> tuple[list[Record], Fields]:
    """The attacks that printed runs meet: those of a row as written, which are the first candidates of its run of
    tuning, with the best candidate and the best of another kind, where these are not among them; what is said of both.

    The best names most places, or, where there are none to name, has the smallest median centroid error.
    """
    goal = "places named, %"
    sign = -1.0
    names = [str(one["name"]) for one in candidates]
    found = dict(enumerate(named_share(summary, name) for name in names))
    if None in found.values():
        goal = "centroid error, m"
        sign = 1.0
        found = dict(enumerate(summary.get(f"attack.{name}.centroid_error_m.median") for name in names))
    gain = {k: value for k, value in found.items() if value is not None}
    order = sorted(gain, key=lambda k: sign * gain[k])
    if not order:
        raise BadInput(
            "--adapt: no candidate names a place or estimates a centroid, and there is no other goal; it needs UEs "
            "with homes, or updates that arrive"
        )
    others = [k for k in order if candidates[k]["kind"] != candidates[order[0]]["kind"]]
    attacks = list(written)
    said = []
    for k in (order[0], *others[:1]):
        settings = {key: value for key, value in candidates[k].items() if key != "name"}
        attack = written[k] if k < len(written) else {**settings, "name": f"{settings['kind'][:30]}-adapted"}
        attacks += [] if k < len(written) else [attack]
        said.append((attack.get("name") or settings["kind"], flow(settings), figure_text(gain[k])))
    (name, settings_text, reached), *second = said
    as_written = next((gain[k] for k in order if k < len(written)), nan)
    return attacks, {
        "attack": name, "settings": settings_text, "goal": goal, "adapted": reached,
        "second": " ".join(second[0]) if second else "none", "as written": figure_text(as_written),
    }  # fmt: skip


def drawn_settings(seed: int) -> Iterator[Fields]:
    """Combinations of the kinds that declare a space, a kind after the other, each combination once."""
    rng = Streams(seed).at("adapt")
    columns = []
    for kind, part in ATTACKS.parts.items():
        if space := getattr(part, "space", {}):
            every = [{"kind": kind, **dict(zip(space, values, strict=True))} for values in product(*space.values())]
            order = np.argsort(rng.uniform(kind, np.arange(1, len(every))), kind="stable") + 1
            columns.append([every[i] for i in (0, *order.tolist())])
    return filter(None, chain.from_iterable(zip_longest(*columns)))


def changed(point: SweepPoint, changes: Record) -> Fields:
    """The changes of a point with others in place of those at, or below, the same keys."""
    places = [place_of(key) for key in changes]
    kept = (key for key in point.overrides if not any(place_of(key)[: len(p)] == p for p in places))
    return {**{key: point.overrides[key] for key in kept}, **changes}


def _candidates(
    scenario: Scenario, seed: int, point: SweepPoint, study: Study, evaluations: int
) -> tuple[Sequence[Record], list[Record], str]:
    """The attacks of a row as they are written; as many candidates as there are evaluations, these first; and how often
    others were refused, with reasons. seed : of the order in which they are drawn.
    """
    parts: list[Attack] = [part.model_copy(update={"name": None}) for part in study.learned.attacks]
    world, setup = ready(study, Path(), rehearsed=False)
    public = with_map(setup.public, world, study.world.city)
    written = scenario.document(point.overrides, point.origins).data["learning"].get("attacks") or []
    candidates = list(written)
    refused = Counter[str]()
    for settings in drawn_settings(seed):
        if len(parts) >= evaluations:
            break
        try:
            learning = scenario.study(changed(point, {ATTACKS_KEY: [settings]})).learned
            learning.attacks[0].check(public, min(learning.threat.n_targets or len(world.ues), len(world.ues)))
        except BadInput as error:
            refused[error.lines[0].rpartition("attacks[0]: ")[2]] += 1
            continue
        if learning.attacks[0] not in parts:
            parts.append(learning.attacks[0])
            candidates.append(settings)
    why = "; ".join(f"{times} x {reason}" for reason, times in refused.most_common()) or "none"
    if len(written) >= evaluations:
        raise BadInput(
            f"--adapt {evaluations}: {len(written)} attacks are in learning.attacks, so no other is tried; take more"
        )
    if len(parts) != evaluations:
        raise BadInput(
            f"--adapt {evaluations}: {len(parts)} attacks fit, {len(written)} of them in learning.attacks; take "
            f"--adapt {len(parts)}, or attacks that declare a space and fit (refused: {why})"
        )
    return written, [{**of, "name": f"candidate-{k}"} for k, of in enumerate(candidates, 1)], why
