"""Sweeps whose rows meet an attacker that knows them: tuned by evaluations on a seed that the sweep does not print.

Attacks change no training, so all candidates of a row stand in one run. They are the attacks of the row itself, then
the kinds that declare a `space`, in turn: of each kind first the combination of first values, then the others in the
order of a stream of the scenario's seed. What the row refuses is counted, and the next combination takes its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from fl.attacks import ATTACKS
from fl.attacks.base import Attack
from netsim.errors import BadInput, RunsFailed
from netsim.rng import Streams
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import named_share
from scenarios.app.results.failures import FAILURES, read_failures
from scenarios.app.results.folder import read_summary
from scenarios.app.results.marker import held
from scenarios.app.results.summary_values import number_text
from scenarios.app.run.points import SweepPoint, checked_points, named
from scenarios.app.run.public_map import floor_area, streets
from scenarios.app.run.setup import ready
from scenarios.app.run.sweep import Tell, admit_sweep, sweep
from scenarios.app.study.describe import flow
from scenarios.app.study.load import Scenario
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import place_of

TUNING = "adapt"
"""folder of the runs in which attackers are tuned, a sweep of its own"""
FIRST_SEED, MOST_EVALUATIONS = 101, 1000
ATTACKS_KEY = "learning.attacks"
_ALONE = {
    "learning.membership": None,
    "learning.references": {"neighbours": None, "path_loss": False, "kriging_samples": 0, "central": False},
}
"""what a run of tuning leaves out: nobody reads it"""

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """A row of the sweep: its first point, the attacks as they are written, and the candidates, of which those are the
    first, each with a name; how often others were refused for which reason.
    """

    point: SweepPoint
    written: Sequence[Settings]
    candidates: Sequence[Settings]
    refused: Mapping[str, int]

    def tuning(self, seed: int) -> SweepPoint:
        """The run in which all candidates attack."""
        changes = changed(self.point, {ATTACKS_KEY: self.candidates, **_ALONE, "seed": seed})
        return SweepPoint(f"{self.point.label}, tuning", seed, f"{_setting(self.point)}/seed-{seed}", changes)

    def met(self, summary: Mapping[str, Any]) -> tuple[list[Settings], dict[str, str]]:
        """Whom printed runs meet: the attacks as written, and the best candidate where none of them is it; and what is
        said of it.

        The best names most places, or, where there are none to name, has the smallest median centroid error.
        """
        names = [of["name"] for of in self.candidates]
        goal, gain = "places named, %", {n: v for n in names if (v := named_share(summary, n)) is not None}
        if not gain:
            goal, errors = "centroid error, m", {n: summary.get(keys.ERROR_MEDIAN.of(n)) for n in names}
            gain = {n: -v for n, v in errors.items() if v is not None}
        if not gain:
            raise BadInput(
                f"--adapt: {self.point.label}: no attack names a home or workplace or estimates a centroid in "
                "learning.attacks; it needs UEs with homes, or updates that arrive"
            )
        at, n = names.index(max(gain, key=gain.__getitem__)), len(self.written)
        settings = {key: value for key, value in self.candidates[at].items() if key != "name"}
        own = max((gain[name] for name in names[:n] if name in gain), default=None)
        best = self.written[at] if at < n else {**settings, "name": f"{settings['kind'][:30]}-adapted"}
        said = {
            "variant": self.point.label, "attack": best.get("name", best["kind"]), "settings": flow(settings),
            "goal": goal, "adapted": number_text(abs(gain[names[at]])), "refused": str(sum(self.refused.values())),
            "as written": number_text(None if own is None else abs(own)),
        }  # fmt: skip
        return [*self.written, *([] if at < n else [best])], said


def adapted_sweep(
    evaluations: int,
    source: str | Path,
    study: Study,
    out: Path,
    jobs: int,
    overrides: dict[str, Any],
    tell: Tell,
    replaces: bool,
    **how: Any,
) -> Path:
    """Tune the attacker of each row, then run every point with it beside the attacks of the row. how : as of `sweep`.

    Each row plays one run of tuning, with as many attacks as there are evaluations.
    """
    scenario, every, rows = Scenario(source), checked_points(source, study, overrides), dict[str, Row]()
    for point, one in every:
        if _setting(point) not in rows:
            with named(point):
                rows[_setting(point)] = _row(scenario, study.seed, point, one, evaluations)
    seed = tuning_seed({point.seed for point, _ in every})
    tuning = {key: row.tuning(seed) for key, row in rows.items()}
    runs = [(point, scenario.study(point.overrides)) for point in tuning.values()]
    with held(out, "sweep", lambda: admit_sweep(out, study, replaces)):
        sweep(source, study, out / TUNING, jobs, {}, tell, replaces, every=runs, **how)
    if failed := read_failures(out / TUNING):
        where = out / TUNING / FAILURES
        raise RunsFailed(f"{len(failed)} of {len(rows)} runs of tuning failed, see {where}; the same command goes on")
    met = {key: row.met(read_summary(out / TUNING / tuning[key].folder)) for key, row in rows.items()}
    studies = {key: scenario.study(changed(rows[key].point, {ATTACKS_KEY: of})) for key, (of, _) in met.items()}
    points = []
    for point, _ in every:
        of = _setting(point)
        changes = point.overrides | {ATTACKS_KEY: met[of][0]}
        points.append((replace(point, overrides=changes), studies[of].model_copy(update={"seed": point.seed})))
    notes = [
        f"Attackers adapted to each variant: the best of {evaluations} attacks, those of the variant among them, on "
        f"seed {seed}, which no other figure is of",
        *dict.fromkeys(f"refused: {why}" for row in rows.values() for why in row.refused),
    ]
    says = {"adapted": {"rows": [said for _, said in met.values()], "notes": notes}}
    return sweep(source, study, out, jobs, {}, tell, replaces, every=points, says=says, **how)


def tuning_seed(printed: set[int]) -> int:
    """The first seed from 101 on that is not printed."""
    return min(set(range(FIRST_SEED, FIRST_SEED + len(printed) + 1)) - printed)


def drawn_settings(seed: int) -> Iterator[dict[str, Any]]:
    """Combinations of the kinds that declare a space, a kind after the other, each combination once."""
    rng, columns = Streams(seed).at("adapt"), []
    for kind, part in ATTACKS.parts.items():
        if space := getattr(part, "space", {}):
            every = [{"kind": kind, **dict(zip(space, values, strict=True))} for values in product(*space.values())]
            order = np.argsort(rng.uniform(kind, np.arange(1, len(every))), kind="stable") + 1
            columns.append([every[i] for i in (0, *order.tolist())])
    return (one for one in chain.from_iterable(zip_longest(*columns)) if one is not None)


def changed(point: SweepPoint, changes: Settings) -> dict[str, Any]:
    """The changes of a point with others in place of those at, or below, the same keys."""
    places = [place_of(key) for key in changes]
    kept = (key for key in point.overrides if not any(place_of(key)[: len(p)] == p for p in places))
    return {**{key: point.overrides[key] for key in kept}, **changes}


def _setting(point: SweepPoint) -> str:
    return point.folder.rpartition("/")[0]


def _row(scenario: Scenario, seed: int, point: SweepPoint, study: Study, evaluations: int) -> Row:
    """A row with as many candidates as there are evaluations; seed : of the order in which they are drawn."""
    parts: list[Attack] = [part.model_copy(update={"name": None}) for part in study.learned.attacks]
    if len(parts) > evaluations:
        raise BadInput(f"--adapt {evaluations}: there are {len(parts)} learning.attacks; take {len(parts)} or more")
    world, setup = ready(study, Path(), rehearsed=False)
    public = replace(setup.public, street_m=streets(study.world.city, world), floor_area=floor_area(world))
    written = scenario.document(point.overrides, point.origins).data["learning"].get("attacks") or []
    candidates, refused = [dict(of) for of in written], Counter[str]()
    for settings in drawn_settings(seed):
        if len(parts) == evaluations:
            break
        try:
            learning = scenario.study(changed(point, {ATTACKS_KEY: [settings]})).learned
            learning.attacks[0].check(public, min(learning.threat.targets or len(world.ues), len(world.ues)))
        except BadInput as error:
            refused[error.lines[0].rpartition("attacks[0]: ")[2]] += 1
            continue
        if learning.attacks[0] not in parts:
            parts.append(learning.attacks[0])
            candidates.append(settings)
    if len(parts) < evaluations:
        most = "".join(f", most often: {why}" for why, _ in refused.most_common(1))
        raise BadInput(
            f"--adapt {evaluations}: {len(parts)} attacks fit and {refused.total()} are refused{most}; take at most "
            f"{len(parts)}, or attacks that fit and declare a space"
        )
    return Row(point, written, [{**of, "name": f"candidate-{k}"} for k, of in enumerate(candidates, 1)], refused)
