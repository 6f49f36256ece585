"""Folders of trainings, read back, and their policies compared in the same cases."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import AliasPath, BaseModel, Field, FiniteFloat

from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.safe import describe_file_kind
from netsim.units import FloatArray, FloatTriple
from rl.settings import AGENT, VISITED
from scenarios.app.results.folder import (
    CURVE,
    EVALUATIONS,
    KIND,
    SUMMARY,
    TRAINING,
    read_csv_rows,
    read_failures,
    read_json,
    refuse_mixed_versions,
)
from scenarios.app.results.read import parse_model
from scenarios.app.results.statistics import compute_percent_and_wilson_interval
from scenarios.app.study import Fields

if TYPE_CHECKING:
    import pandas

_CURVE = ("step", "score", "reward", "best_reward")
METRICS = (
    "cost",
    "t_th",
    "noise",
    "loss",
    "leakage",
    "lost",
    "leak",
    "named",
    "epsilon",
    "with_channel",
    "energy_j",
    "evaluations",
)
"""figures of a policy in a case"""


class TrainingManifest(BaseModel):
    """What is read of a training's training.json."""

    title: str
    paper: str | None = None
    task: str
    seed: int
    agent: str = AGENT
    steps: int
    learning_starts: int = 0
    program: str = ""
    trained_s: Annotated[float, Field(validation_alias=AliasPath("timing", "trained_s"))] = 0.0
    decision_ms: Annotated[
        dict[str, FiniteFloat], Field(validation_alias=AliasPath("timing", "decision_ms"))
    ] = {}


@frozen
class FinishedTraining:
    """The folder of a training, read back."""

    manifest: TrainingManifest
    summary: Fields
    curve: pandas.DataFrame
    evaluations: pandas.DataFrame

    @property
    def agent(self) -> str:
        """What comparisons call the agent."""
        return self.manifest.agent

    @property
    def sets_power_per_round(self) -> bool:
        """Whether the task sets the powers of each round, not of a whole training."""
        return self.manifest.task == "online"

    @cached_property
    def costs(self) -> pandas.DataFrame:
        """Cost by case and policy."""
        return self.evaluations.pivot(index="case", columns="policy", values="cost")


def read_trainings(folder: Path) -> list[FinishedTraining]:
    """Read those of a folder: its own, or one in each folder inside that did not fail; none where
    nothing was trained.

    Raises BadInput for one that is not finished, for two of a seed and for several versions.
    """
    if describe_file_kind(folder / TRAINING):
        trained = [folder]
    else:
        trained = sorted(p.parent for p in folder.glob(f"seed-*/{TRAINING}"))
    failed = {training.folder for training in read_failures(folder)}
    by_path = {p: _read_training(p) for p in trained if p.name not in failed}
    refuse_mixed_versions({training.manifest.program: path for path, training in by_path.items()})
    firsts = dict[int, Path]()
    for path, training in by_path.items():
        first = firsts.setdefault(training.manifest.seed, path)
        if first != path:
            raise BadInput(
                f"{path}: holds the training of seed {training.manifest.seed}, as {first}; "
                f"remove the copy"
            )
    return list(by_path.values())


def _read_training(folder: Path) -> FinishedTraining:
    values = read_json(folder / TRAINING)
    if values.get("kind") != KIND or not values.get("finished"):
        raise BadInput(f"{folder}: this training is not finished; start it again and it goes on")
    manifest = parse_model(values, TrainingManifest, folder / TRAINING, "train again")
    curve = _read_numbers(folder / CURVE, (), _CURVE)
    evaluations = _read_numbers(folder / EVALUATIONS, ("policy",), ("case", *METRICS))
    cases = {
        policy: set(group) for policy, group in evaluations.groupby("policy", sort=False)["case"]
    }
    agent = manifest.agent
    short = [
        policy
        for policy, own_cases in cases.items()
        if policy != VISITED and own_cases != cases.get(agent)
    ]
    if short:
        raise BadInput(
            f"{folder / EVALUATIONS}: {short[0]} and {agent} are not judged in the same "
            f"cases; train again"
        )
    return FinishedTraining(manifest, read_json(folder / SUMMARY), curve, evaluations)


def _read_numbers(path: Path, texts: Sequence[str], numbers: Sequence[str]) -> pandas.DataFrame:
    """Read columns of a table; an empty cell of a number is NaN. BadInput: what is wrong, with the
    file.
    """
    import pandas

    table = pandas.DataFrame(read_csv_rows(path, "train again"))
    if table.empty:
        raise BadInput(f"{path}: has no rows; train again")
    if missing := [name for name in (*texts, *numbers) if name not in table]:
        raise BadInput(f"{path}: has no column {missing[0]!r}; train again")
    try:
        figures = table[[*numbers]].replace("", "nan").astype(float)
    except ValueError as error:
        raise BadInput(f"{path}: {error}; train again") from None
    return table[[*texts]].join(figures)


def average_over_cases(trained: Sequence[FinishedTraining]) -> dict[str, dict[str, FloatArray]]:
    """Average over cases: policy -> metric -> its means (trainings,)."""
    import pandas

    means = [
        t.evaluations.groupby("policy", sort=False)[[*METRICS]].mean(skipna=False) for t in trained
    ]
    table = pandas.concat(means, axis=1, keys=range(len(means)))
    return {name: {f: row[:, f].to_numpy() for f in METRICS} for name, row in table.iterrows()}


def stack_costs(trained: Sequence[FinishedTraining], *policies: str) -> FloatArray:
    """Stack costs of policies in the worlds that all of them have (policies, seeds, worlds)."""
    return np.moveaxis(np.array([t.costs[[*policies]].dropna() for t in trained]), 2, 0)


# -- how probable it is that one policy costs less than another

_DRAWS = 2000
_CHUNK = 200
_LEVELS = (0.025, 0.975)


def estimate_win_probability(costs: FloatArray, other_costs: FloatArray) -> FloatTriple:
    """Estimate P(X < Y) that a cost is below another cost, and both ends of its 95 % interval;
    costs, other_costs (seeds, worlds), whose seeds are paired with nothing.

    P(X < Y) = mean over worlds m of mean over seeds i, j of S(x_mi, y_mj),  S = 1 for x < y, 1/2
    for x = y, 0 otherwise

    [Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice, 2021,
    where more is better] Its interval is that of a stratified bootstrap: seeds are drawn with
    replacement within each world. Agarwal et al. keep their tasks; worlds are draws themselves, and
    are drawn with replacement as well. The same numbers give the same interval. Where all draws are
    alike, as after wins in all worlds, it is Wilson's, of as many worlds.
    """
    x = costs.T[:, :, None]
    y = other_costs.T[:, None, :]
    wins = (x < y) + 0.5 * (x == y)
    worlds, n, k = wins.shape
    draw = np.random.default_rng(0)
    means = []
    for _ in range(_DRAWS // _CHUNK):
        world = draw.integers(worlds, size=(_CHUNK, worlds))[..., None, None]
        seed = draw.integers(n, size=(_CHUNK, worlds, n))[..., :, None]
        other_seed = draw.integers(k, size=(_CHUNK, worlds, k))[..., None, :]
        means += wins[world, seed, other_seed].mean(axis=(1, 2, 3)).tolist()
    low, high = np.quantile(means, _LEVELS)
    mean = float(wins.mean())
    if low == high:
        # a tie is half a win: between the intervals of the numbers around it
        half = round(mean * worlds, 6)
        low, high = (
            np.mean(
                [
                    compute_percent_and_wilson_interval(int(rounding(half)), worlds)[1:]
                    for rounding in (np.floor, np.ceil)
                ],
                axis=0,
            )
            / 100
        )
    return mean, float(low), float(high)
