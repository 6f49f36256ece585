"""Run a study: its plan is written in, by the trajectory of a reference run; then it is played."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from fl.defenses.budgeted import PRINTED
from fl.power.bound import PowerLoss, Trajectory
from fl.power.search import Limits, plan_average, plan_by_evolution, plan_by_plateaus, plan_full
from netsim.checkpoint import from_tree_as
from netsim.compiled import find_cache_folder
from netsim.errors import BadInput
from netsim.fit import refuse_broken
from netsim.radio.power import Listed
from netsim.rng import Streams
from netsim.units import FloatArray, ratio_from_db
from rl.powers import Ddpg, settle_powers
from scenarios.app.results.folder import MANIFEST, RESULTS, STUDY
from scenarios.app.results.read import Run
from scenarios.app.run.events import Watch
from scenarios.app.run.how import (
    DEFAULT_RESOURCES,
    Resources,
    use_one_thread,
)
from scenarios.app.run.job import KEEPS_VIEWS, Job, JobKind, digest_inputs
from scenarios.app.run.kept import UNPLAYED, keep_run
from scenarios.app.run.simulate import LearningPlay, PlannedStudy, RadioPlay
from scenarios.app.run.towns import teach_attacks
from scenarios.app.study import Fields
from scenarios.app.study.study import Study


def build_run_job(
    study: Study,
    folder: str | Path,
    label: str = "",
    command: str = "",
    replace: bool = False,
    resources: Resources = DEFAULT_RESOURCES,
    views: bool = False,
) -> Job:
    """Return a run as a job; command : what its manifest says that made it; views : whether it
    keeps what its attacker receives.
    """
    options = {"command": command, "resources": resources}
    # BadInput where nothing is learnt
    notes = KEEPS_VIEWS if views and study.learned else ()
    return Job(
        RUN, study, study.seed, digest_inputs(study), Path(folder), label, replace, notes, options
    )


def play_job(job: Job, watch: Watch) -> Run:
    """Return one run, in any process."""
    study = job.study
    with job.options["resources"].limit_memory():
        if study.learning is None:
            with threadpool_limits(limits=1):
                return RadioPlay(job, study, watch).play()
        with use_one_thread():
            return LearningPlay(job, study, prepare_study(study, watch), watch).play()


def prepare_study(study: Study, watch: Watch) -> PlannedStudy:
    """Return a study with all that is found out before it is played: its plan, and what attacks
    learn on made-up towns.
    """
    cache = find_cache_folder()
    planned = plan_study(study, cache)
    return replace(planned, study=teach_attacks(planned.study, cache, watch))


def _play_run(job: Job, watch: Watch) -> Fields:
    return play_job(job, watch).summary


RUN = JobKind("run", (STUDY, *RESULTS), MANIFEST, _play_run)


def plan_by_policy(study: Study) -> PlannedStudy:
    """Return the study with T_th of its policy in defenses that wait for one; as it is where none
    waits or none has learnt.

    T_th is that of the policy's reference run at the powers that UEs send with, over the first
    round's channel if the policy observes channels.

    Raises BadInput: a policy that plans no switch.
    """
    waiting = [d.label for d in study.learned.defenses if d.waits]
    if not waiting or not isinstance(study.power, Ddpg):
        return PlannedStudy(study, {})
    policy = study.power.read_policy()
    if policy.card.criterion == "top-up":
        raise BadInput(
            f"learning.defenses: {waiting[0]} with mode: planned has no round: the policy was "
            "trained with criterion: top-up; give until_round or mode: top-up"
        )
    snr_per_w = np.zeros(policy.card.ues)
    if policy.card.observe == "channel":
        snr_per_w = measure_snr_per_w(study, study.seed)
    problem, wanted_w = settle_powers(policy, snr_per_w)
    power_w = np.minimum(wanted_w, study.world.ues.max_power_w)
    outcome = problem.evaluate(power_w)
    report = _describe_plan(problem.objective.trajectory, outcome.switch, outcome.value, power_w)
    return PlannedStudy(_set_switch(study, outcome.switch), report)


def _set_switch(study: Study, switch: int, **changes: object) -> Study:
    defenses = tuple(d.set_switch_round(switch) for d in study.learned.defenses)
    return study.model_copy(update=changes).change_learning(defenses=defenses)


def _describe_plan(
    trajectory: Trajectory, switch: int, value: float, power_w: FloatArray
) -> Fields:
    return {
        "reference": trajectory.content,
        "switch_round": switch,
        "objective": value,
        "total_w": power_w.sum(),
        "power_w": power_w.tolist(),
    }


def plan_study(study: Study, cache: Path) -> PlannedStudy:
    """Return the study with powers, switch and noise in their places; without a plan, with the
    switch of its learned policy.

    Reference runs come from the cache where they are there.

    Raises BadInput: a bound that does not contract, limits that no UE can keep, an uplink without a
    plan.
    """
    plan = study.plan
    written = study
    if plan is None:
        return plan_by_policy(study)
    try:
        trajectory = load_reference(study, cache)
        if trajectory.power_w is None or not (trajectory.power_w > 0).all():
            raise BadInput("a UE never sent in the reference run; plan for UEs that take part")
        own_w = trajectory.power_w[None]
        if plan.switch_share is not None:
            calm = PowerLoss(trajectory, plan.bound, plan.criterion)
            switch = max(1, round(plan.switch_share * len(trajectory.std)))
            factor = calm.find_noise_factor(own_w[0], switch)
            trajectory = trajectory.scale_noise(factor)
            noise_w = study.world.radio.uplink.band_noise_w() * factor
            written = study.change("world.radio.uplink.noise_w", noise_w)
        objective = PowerLoss(trajectory, plan.bound, plan.criterion)
        limits = cap_limits(plan.limits, study)
        if plan.power == "evolution":
            best = plan_by_evolution(objective, limits, Streams(study.seed).derive_rng("plan"))
        elif plan.power == "ddpg":
            from rl.agents import learn_powers  # here, since torch and the library load for seconds

            best = learn_powers(objective, limits, plan.steps, study.seed)
        else:
            best = {"average": plan_average, "full": plan_full, "plateaus": plan_by_plateaus}[
                plan.power
            ](objective, limits)
    except ValueError as error:
        raise BadInput(f"plan: {error}") from None
    report = {
        **_describe_plan(trajectory, best.switch, best.value, best.power_w),
        "noise_w": written.world.radio.uplink.band_noise_w(),
        "own_switch_round": objective.find_switch(own_w)[0],
        "own_objective": objective(own_w)[0],
        "own_total_w": own_w.sum(),
        "evaluations": best.evaluations,
    }
    return PlannedStudy(
        _set_switch(written, best.switch, plan=None, power=Listed(each_w=tuple(report["power_w"]))),
        report,
    )


def cap_limits(limits: Limits, study: Study) -> Limits:
    """Return the limits, with no more for each UE than it can send with."""
    return limits.change("each_max_w", min(limits.each_max_w, study.world.ues.max_power_w))


def load_reference(study: Study, cache: Path) -> Trajectory:
    """Return the trajectory of a study, from a run that is made once, with all artificial noise and
    no attacker.

    `cache` keeps it under a hash of the study's text, of the code that plays it, and of the content
    of files it reads. A line is told before that run, which takes as long as any.

    Raises BadInput: the uplink's noise does not fall with a UE's own power alone.
    """
    alone = study.model_copy(update=UNPLAYED).change_learning(
        defenses=tuple(d.draw_all_noise() for d in study.learned.defenses),
        attacks=(),
        membership=None,
    )
    refuse_broken(alone, "reference run")
    _, tree = keep_run(
        cache,
        alone,
        lambda play: build_trajectory(play.play()),
        "all rounds of the reference run",
    )
    return from_tree_as(tree, Trajectory)


def build_trajectory(run: Run) -> Trajectory:
    """Return the trajectory of a finished run: std from its spends, weights from its updates, gain
    from its links.

    Noise that several mechanisms draw on a row adds in variance; noise at the server counts for no
    UE. gain is SINR over power, which a UE alone decides without interference; a UE has one row per
    round.
    """
    updates, links, spends = (run.tables[name] for name in ("updates", "links", "spends"))
    rounds = np.unique(updates["round"])
    shape = (len(rounds), run.n_ue)
    if not len(rounds):
        raise BadInput(
            f"{run.folder}: no round was played, so powers lack a reference; raise "
            "learning.privacy_budget, or let UEs have data"
        )

    def sum_by_round(table: dict[str, np.ndarray], values: FloatArray) -> FloatArray:
        """Return sums of values (rows of a table) as (rounds, UEs)."""
        sums = np.zeros(shape)
        np.add.at(sums, (np.searchsorted(rounds, table["round"]), table["ue"].astype(int)), values)
        return sums

    if sum_by_round(updates, np.ones(len(updates["ue"]))).max() > 1:
        raise BadInput(
            f"{run.folder}: a UE sent several rows in a round; a bound reads one model "
            f"and one phase"
        )
    # a printed claim is a second account of the same noise
    once = (spends["ue"] >= 0) & (spends["unit"] != PRINTED)
    drawn = {k: v[once] for k, v in spends.items()}
    sent = sum_by_round(links, links["power_w"])
    sinr = ratio_from_db(links["sinr_db"])
    scale = links["noise_std"] * np.sqrt(sinr)  # C / sqrt(q), the same for all
    return Trajectory(
        std=np.sqrt(sum_by_round(drawn, drawn["std"] ** 2)),
        weight=sum_by_round(updates, updates["weight"]),
        gain=sum_by_round(links, sinr / links["power_w"]),
        scale=np.median(scale),
        power_w=sent.sum(axis=0) / np.maximum((sent > 0).sum(axis=0), 1),
    )


def measure_snr_per_w(study: Study, seed: int) -> FloatArray:
    """Return SNR at 1 W (K,) of every UE at the first deadline of the study in the world of a seed;
    0 without a cell.
    """
    world = study.change("seed", seed).build_world()
    world.env.run(until=min(study.round_s, world.duration_s))
    ue = np.arange(len(world.ues))
    cohort = world.build_cohort(
        ue, world.compute_links(), 1, np.ones(len(ue), dtype=int), np.zeros(len(ue))
    )
    return study.world.radio.uplink.snr_per_w(cohort)
