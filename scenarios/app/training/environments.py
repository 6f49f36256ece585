"""Environments of scenarios: what `gymnasium.make` calls for the names that `import rl`
registers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import TypeVar

import gymnasium
import numpy as np

from fl.power.bound import PowerLoss
from fl.round.assembly import build_setup
from fl.round.state import start_state
from netsim.compiled import find_cache_folder
from netsim.errors import BadInput, format_count
from netsim.fit import explain_first_breach, refuse_broken
from netsim.rng import Streams
from netsim.units import FloatArray
from rl import ALLOCATION, ONLINE
from rl.env import OnlinePower, PowerAllocation, Stage
from rl.problem import Problem
from rl.reward import FIGURES, compute_reward_cost
from rl.settings import Allocation, Online, Task
from scenarios.app.run.runner import cap_limits, load_reference, measure_snr_per_w
from scenarios.app.run.towns import teach_attacks
from scenarios.app.study.load import load
from scenarios.app.study.study import Study

Source = str | Path | Study
"""A bundled name, a file, or a study"""
Cache = str | Path | None
"""Folder where reference runs are kept; none: that of the user"""
Wanted = TypeVar("Wanted", bound=Task)
FIRST = "fractional"
"""the rule that worlds are recorded with"""
_ROUNDS = 24  # in which a figure of a reward has to differ
_FAR = 2**40  # seeds of drawn channels begin there, above those of scenarios
DEFAULTS = {ALLOCATION: "power/paper", ONLINE: "power/pedestrians"}


def make_allocation(
    scenario: Source = DEFAULTS[ALLOCATION],
    cache: Cache = None,
    render_mode: None = None,
) -> PowerAllocation:
    """Return the study's problem for a scenario; its reference run is made once and kept in
    `cache`.

    The first time takes as long as a run of the scenario, and says so on stderr. render_mode :
    None, the only one.
    """
    refuse_render_mode(render_mode)
    return PowerAllocation(build_problems(load_study(scenario), cache).trained_on)


def make_online(
    scenario: Source = DEFAULTS[ONLINE], cache: Cache = None, render_mode: None = None
) -> OnlinePower:
    """Return the live world of a scenario; `cache` is not needed, it stands here so that both are
    made alike.
    """
    refuse_render_mode(render_mode)
    study = load_study(scenario)
    return OnlinePower(Stages(study), count_ues(study), get_online_task(study))


def make_vec(name: str, scenarios: Sequence[Source]) -> gymnasium.vector.SyncVectorEnv:
    """Return environments of a registered name, one of each scenario, stepped in turn.

    Raises BadInput: no list of scenarios, or they do not observe as many numbers.
    """
    if isinstance(scenarios, str) or not scenarios:
        raise BadInput('make_vec: give a list of scenarios, such as ["power/city", FILE]')
    studies = [load_study(scenario) for scenario in scenarios]
    envs = [gymnasium.make(name, scenario=study) for study in studies]
    shapes = [env.observation_space.shape for env in envs]
    names = dict(zip(shapes, [getattr(s, "title", s) for s in scenarios], strict=True))
    if len(names) != 1:
        raise BadInput(f"make_vec: {names} observe other numbers; take scenarios of as many UEs")
    return gymnasium.vector.SyncVectorEnv([repeat(env).__next__ for env in envs])


def refuse_render_mode(render_mode: object) -> None:
    """TypeError, after which stable-baselines3 makes the environment without a render mode."""
    if render_mode is not None:
        raise TypeError(
            f"render_mode: {render_mode!r:.40}; the environment draws nothing, leave it out"
        )


def get_online_task(study: Study) -> Online:
    """Return the task of a live world; BadInput where power changes nothing, or it does not fit."""
    task = get_task(study, Online)
    refuse_broken(study, "live world")
    return check_online_task(study, task)


def check_online_task(study: Study, task: Online) -> Online:
    """Return a task that a study can judge, whose limits of power its UEs can keep, and whose bound
    contracts in all rounds; BadInput for another.
    """
    for name in {"leakage", "named"} & {*task.reward.reads}:
        homes = name != "named" or np.isfinite(study.build_world().places.home_m)
        if not study.learned.attacks or not np.any(homes):
            raise BadInput(
                f"train.task.reward.{task.reward.reads[name]}: {name} is 0 without "
                "learning.attacks, and named where no UE has a home (world.ues.mobility); add an "
                "attack, people (kind: resident), or leave it out"
            )
    compute_reward_cost(task.reward, dict.fromkeys(FIGURES, np.full(2, 0.5)), finite=False)
    n = count_ues(study)
    try:
        task.limits.check(n)
    except ValueError as error:
        raise BadInput(f"train.task.limits.{error}") from None
    fixed = study.learned.aggregation.weight
    # lost UEs count as one that arrives alone
    if fixed is None:
        worst = (np.ones(n), np.full(n, 1.0 / n))
    else:
        worst = (np.full(n, fixed), np.array([fixed]))
    try:
        for weights in worst:
            task.bound.compute_contraction(weights[None])
    except ValueError as error:
        raise BadInput(
            f"train.task.bound.{error}; so it is in the worst round of {format_count(n, 'UE')} "
            "(world.ues.count), where lost updates count as much as those that arrive; without "
            "learning_rate it contracts for all"
        ) from None
    return task


def check_moves(study: Study, task: Online) -> None:
    """Raise BadInput for a figure of the reward that is the same in 24 rounds, and whole worlds
    where these are longer, with high, low and middle powers in turn: its weight would be paid for
    nothing.
    """
    reads = task.reward.reads
    env = OnlinePower(Stages(study, watched=False), count_ues(study), task)
    seen: dict[str, set[float]] = {name: set() for name in reads}
    rounds = 0
    while (rounds < _ROUNDS or not env.over) and min(map(len, seen.values())) < 2:
        if env.over:
            env.reset(options={"world": study.seed + rounds})
        env.step(np.full(env.n_ue, (1.0, -1.0, 0.0)[rounds % 3], np.float32))
        rounds += 1
        for name in reads if env.outcome else ():
            seen[name].add(round(env.figures[name], 9))
    for name, values in seen.items():
        if len(values) == 1:
            raise BadInput(
                f"train.task.reward.{reads[name]}: {name} is {values.pop():g} in {rounds} rounds, "
                "at high, low and middle powers, so nothing is learned from it; leave it out, or "
                "change what it measures in world.radio.uplink or learning.attacks"
            )


def load_study(source: Source) -> Study:
    """Return the study of an environment's argument. Raises BadInput with one line per mistake."""
    if isinstance(source, Study):
        return source
    return load(source)


def get_task(study: Study, kind: type[Wanted]) -> Wanted:
    """Return the task of a study; BadInput where it trains nothing, or something else."""
    if study.train is None:
        raise BadInput(
            f"{study.title}: has no `train:` section, so there is nothing to learn; see "
            f"power/paper, power/pedestrians"
        )
    task = study.train.task
    if not isinstance(task, kind):
        raise BadInput(
            f"train.task: this environment is for {kind.kind_name()!r}, the scenario trains "
            f"{task.kind_name()!r}; netsim/PowerAllocation-v0 is for 'allocation', "
            "netsim/UePower-v0 and netsim/OnlinePower-v0 are for 'online'"
        )
    return task


def explain_unrecorded(study: Study) -> str:
    """Return why rounds of a study cannot be judged again at other powers; empty where the radio
    alone decides what they cost, by the laws of `rl.radio_records`.
    """
    return explain_first_breach(study, "recorded rounds")


_BLIND = {"rsrp-net", "torch", "fedavg", "uniform", "wasserstein", "clip", "gaussian"}
"""kinds of learners, aggregations and defenses by which neither rows nor their weights depend on
what was learnt"""


def is_free_of_learning(study: Study) -> bool:
    """Return whether rounds of a study cost the same without local training, as long as no update
    overflows: no budget, weight or norm follows updates.
    """
    learning = study.learned
    parts = learning.learner, learning.aggregation, *learning.defenses
    return (
        all(part.kind_name() in _BLIND for part in parts)
        and "bound" not in learning.learner.offers
        and learning.privacy_budget is None
        and learning.audit is None
        and not explain_unrecorded(study)
    )


@dataclass(frozen=True)
class Problems:
    """The problems of a study: that of its own channel; those to train on, those by which the best
    policy is chosen on the way, and those that are reported. Drawn channels are in one of the three
    only; with one draw all three are the study's own.
    """

    base: Problem
    trained_on: Sequence[Problem]
    chosen_on: Sequence[Problem]
    held_out: Sequence[Problem]


def build_own_problem(study: Study, cache: Cache = None) -> Problem:
    """Return the problem of a study's own channel."""
    task = get_task(study, Allocation)
    refuse_broken(study, "powers of a training")
    trajectory = load_reference(study, find_cache_folder() if cache is None else Path(cache))
    limits = cap_limits(task.limits, study)
    key = "train.task.limits."
    try:
        limits.check(trajectory.std.shape[1])
        key = "train.task.bound."
        task.bound.compute_contraction(trajectory.weight)
    except ValueError as error:
        raise BadInput(f"{key}{error}") from None
    problem = Problem(PowerLoss(trajectory, task.bound, task.criterion), limits, task.observe)
    if problem.start.value <= 0:
        raise BadInput(
            "world.radio.uplink: no update arrives in the reference run, so powers change "
            "nothing; lower noise_w, or let UEs send with more power"
        )
    return problem


def build_problems(study: Study, cache: Cache = None) -> Problems:
    """Return the problems of a study."""
    task = get_task(study, Allocation)
    base = build_own_problem(study, cache)
    if task.draws == 1:
        return Problems(base, [base], [base], [base])
    if not base.objective.trajectory.still:
        raise BadInput(
            "train.task.draws: other channels can be drawn where the channel is the same in all "
            "rounds only; set draws: 1, or let UEs stand still with fading block: run"
        )
    sets = ((task.draws, "train"), (task.eval_worlds, "judged"), (task.held_out, "held-out"))
    return Problems(
        base,
        *([base.with_gain(g) for g in draw_snr_per_w(study, n, purpose)] for n, purpose in sets),
    )


def draw_snr_per_w(study: Study, n: int, purpose: str) -> FloatArray:
    """Return SNR at 1 W (n, K) of every UE in n worlds of the study, at its first deadline.

    The draws of two purposes share no world, and none is that of the study's seed.
    """
    rng = Streams(study.seed).derive_rng(f"channels.{purpose}")
    gain = np.array(
        [
            measure_snr_per_w(study, int(seed))
            for seed in (rng.uniform("seed", np.arange(n)) * _FAR).astype(int) + _FAR
        ]
    )
    if not (gain > 0).all():
        raise BadInput(
            "train.draws: a UE has no base station in some draw; draw channels for UEs "
            "that never leave"
        )
    return gain


def count_ues(study: Study) -> int:
    """Return UEs of a study's world."""
    if study.world.ues.mobility.kind_name() != "replay":
        return study.world.ues.count

    return len(study.build_world().ues)


class Stages:
    """World seed -> a world of the study's at time 0.

    watched : with its attacks. They change nothing of a training, so an agent that is not paid by
    them can do without. What no cost is read from is left out in any case: the membership test,
    random attackers of the baseline. Without attacks and where costs do not depend on learning,
    UEs do not train.
    """

    def __init__(self, study: Study, watched: bool = True) -> None:
        leakage = study.learned.leakage.change("random_baseline_draws", 1)
        if watched:
            study = teach_attacks(study, find_cache_folder())
        else:
            study = study.change_learning(attacks=())
        self.study = study.change_learning(membership=None, leakage=leakage)
        self.learns = watched or not is_free_of_learning(study)

    def __call__(self, seed: int) -> Stage:
        study = self.study.change("seed", seed)
        world = study.build_world()
        setup = replace(build_setup(world, study.learned, Path(), study.power), learns=self.learns)
        return Stage(world, setup, start_state(setup, len(world.ues)))
