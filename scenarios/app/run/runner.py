"""Run a study: its plan is written in, by the trajectory of a reference run; then it is played."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from fl.defenses.budgeted import PRINTED
from fl.power.bound import PowerLoss, Trajectory
from fl.power.search import Limits, average, evolution, full, plateaus
from netsim import __version__, compiled
from netsim.checkpoint import from_tree_as, load_tree, save_tree, to_tree
from netsim.compiled import cache_folder, code_digest
from netsim.errors import BadInput
from netsim.fit import refuse_broken
from netsim.radio.power import Listed
from netsim.rng import Streams
from netsim.safe import what_is
from netsim.units import FloatArray, ratio_from_db
from netsim.world.build import build_world
from rl.powers import Ddpg, settled
from scenarios.app.results.folder import MANIFEST, RESULTS, STUDY
from scenarios.app.results.read import Run
from scenarios.app.run.events import Watch, ignore
from scenarios.app.run.how import USUAL, How, one_thread, scratch
from scenarios.app.run.job import Job, JobKind, input_digests
from scenarios.app.run.simulate import LearningPlay, Planned, RadioPlay
from scenarios.app.study import Fields
from scenarios.app.study.study import Study, study_yaml


def run_job(
    study: Study,
    folder: str | Path,
    label: str = "",
    command: str = "",
    replace: bool = False,
    how: How = USUAL,
) -> Job:
    """A run as a job; command : what its manifest says that made it."""
    options = {"command": command, "how": how}
    return Job(
        RUN, study, study.seed, input_digests(study), Path(folder), label, replace, (), options
    )


def play_job(job: Job, watch: Watch) -> Run:
    """One run, in any process."""
    study = job.study
    how = job.options["how"]
    with how.within():
        if study.learning is None:
            with threadpool_limits(limits=1):
                return RadioPlay(job, study, watch).play()
        with one_thread():
            return LearningPlay(job, study, planned(study, cache_folder()), watch).play()


def _play_run(job: Job, watch: Watch) -> Fields:
    return play_job(job, watch).summary


RUN = JobKind("run", (STUDY, *RESULTS), MANIFEST, _play_run)


_FILE = "trajectory.npz"
_FORMAT = 2


def learned_plan(study: Study) -> Planned:
    """The study with T_th of its policy in defenses that wait for one; as it is where none waits or
    none has learnt.

    T_th is that of the policy's reference run at the powers that UEs send with, over the first
    round's channel if the policy observes channels.

    Raises BadInput: a policy that plans no switch.
    """
    waiting = [d.label for d in study.learned.defenses if d.waits]
    if not waiting or not isinstance(study.power, Ddpg):
        return Planned(study, {})
    policy = study.power.learnt()
    if policy.card.criterion == "top-up":
        raise BadInput(
            f"learning.defenses: {waiting[0]} with mode: planned has no round: the policy was "
            "trained with criterion: top-up; give until_round or mode: top-up"
        )
    if policy.card.observe == "channel":
        snr_per_w = snr_of_round(study, study.seed)
    else:
        snr_per_w = np.zeros(policy.card.ues)
    problem, wanted_w = settled(policy, snr_per_w)
    power_w = np.minimum(wanted_w, study.world.ues.max_power_w)
    outcome = problem.tried(power_w)
    said = _said(problem.objective.trajectory, outcome.switch, outcome.value, power_w)
    return Planned(_with_switch(study, outcome.switch), said)


def _with_switch(study: Study, switch: int, **changes: object) -> Study:
    defenses = tuple(d.switched(switch) for d in study.learned.defenses)
    return study.model_copy(
        update={**changes, "learning": study.learned.model_copy(update={"defenses": defenses})}
    )


def _said(trajectory: Trajectory, switch: int, value: float, power_w: FloatArray) -> Fields:
    return {
        "reference": trajectory.content,
        "switch_round": switch,
        "objective": value,
        "total_w": power_w.sum(),
        "power_w": power_w.tolist(),
    }


def planned(study: Study, cache: Path) -> Planned:
    """The study with powers, switch and noise in their places; without a plan, with the switch of
    its learned policy.

    Reference runs come from the cache where they are there.

    Raises BadInput: a bound that does not contract, limits that no UE can keep, an uplink without a
    plan.
    """
    plan = study.plan
    written = study
    if plan is None:
        return learned_plan(study)
    try:
        trajectory = reference(study, cache)
        if trajectory.power_w is None or not (trajectory.power_w > 0).all():
            raise BadInput("a UE never sent in the reference run; plan for UEs that take part")
        own = trajectory.power_w[None]
        if plan.switch_share is not None:
            calm = PowerLoss(trajectory, plan.bound, plan.criterion)
            factor = calm.noise_factor(
                own[0], max(1, round(plan.switch_share * len(trajectory.std)))
            )
            trajectory = trajectory.louder(factor)
            written = _louder(study, factor)
        objective = PowerLoss(trajectory, plan.bound, plan.criterion)
        limits = reachable(plan.limits, study)
        if plan.power == "evolution":
            best = evolution(objective, limits, Streams(study.seed).at("plan"))
        elif plan.power == "ddpg":
            from rl.agents import learnt_plan  # here, since torch and the library load for seconds

            best = learnt_plan(objective, limits, plan.steps, study.seed)
        else:
            best = {"average": average, "full": full, "plateaus": plateaus}[plan.power](
                objective, limits
            )
    except ValueError as error:
        raise BadInput(f"plan: {error}") from None
    said = {
        **_said(trajectory, best.switch, best.value, best.power_w),
        "noise_w": written.world.radio.uplink.band_noise_w(),
        "own_switch_round": objective.switch(own)[0],
        "own_objective": objective(own)[0],
        "own_total_w": own.sum(),
        "evaluations": best.evaluations,
    }
    return Planned(
        _with_switch(written, best.switch, plan=None, power=Listed(each_w=tuple(said["power_w"]))),
        said,
    )


def reachable(limits: Limits, study: Study) -> Limits:
    """The limits, with no more for each UE than it can send with."""
    return limits.model_copy(
        update={"each_max_w": min(limits.each_max_w, study.world.ues.max_power_w)}
    )


def _louder(study: Study, factor: float) -> Study:
    world = study.world
    uplink = world.radio.uplink.model_copy(
        update={"noise_w": world.radio.uplink.band_noise_w() * factor}
    )
    radio = world.radio.model_copy(update={"uplink": uplink})
    return study.model_copy(update={"world": world.model_copy(update={"radio": radio})})


def reference(study: Study, cache: Path) -> Trajectory:
    """The trajectory of a study, from a run that is made once, with all artificial noise and no
    attacker.

    `cache` keeps it under a hash of the study's text, of the code that plays it, and of the content
    of files it reads. A line is told before that run, which takes as long as any.

    Raises BadInput: the uplink's noise does not fall with a UE's own power alone.
    """
    learning = study.learned
    unseen = {
        "defenses": tuple(d.all_drawn() for d in learning.defenses),
        "attacks": (),
        "membership": None,
    }
    others = {"plan": None, "vary": None, "train": None}
    alone = study.model_copy(update={**others, "learning": learning.model_copy(update=unseen)})
    refuse_broken(alone, "reference run")
    made_of = (
        f"{__version__} {_FORMAT} {code_digest('netsim', 'fl', 'scenarios')} "
        f"{sorted(input_digests(alone).items())}"
    )
    name = hashlib.sha256(f"{made_of}\n{study_yaml(alone)}".encode()).hexdigest()[:16]
    path = Path(cache) / name / _FILE
    if not what_is(path):
        compiled.tell(
            f"netsim: playing all rounds of the reference run, this once; it is kept in "
            f"{path.parent}"
        )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with scratch("run-", path.parent) as folder:  # of each process that asks
                with one_thread():
                    played = LearningPlay(
                        run_job(alone, folder / "run"), alone, Planned(alone, {}), ignore
                    ).play()
                trajectory = trajectory_of(played)
                save_tree(folder / _FILE, to_tree(trajectory))
                (folder / _FILE).replace(path)
        except OSError as error:
            raise BadInput(
                f"{path.parent}: reference runs cannot be kept there ({error.strerror}); "
                "set XDG_CACHE_HOME to a folder that can be written"
            ) from None
    try:
        return from_tree_as(load_tree(path), Trajectory)
    except ValueError as error:
        raise BadInput(f"{path.parent}: {error}; delete it, and the run is made again") from None


def trajectory_of(run: Run) -> Trajectory:
    """The trajectory of a finished run: std from its spends, weights from its updates, gain from
    its links.

    Noise that several mechanisms draw on a row adds in variance; noise at the server counts for no
    UE. gain is SINR over power, which a UE alone decides without interference; a UE has one row per
    round.
    """
    updates, links, spends = (run.tables[name] for name in ("updates", "links", "spends"))
    rounds = np.unique(updates["round"])
    n_ue = len(run.tables["ues"]["ue"])
    shape = (len(rounds), n_ue)
    if not len(rounds):
        raise BadInput(
            f"{run.folder}: no round was played, so powers lack a reference; raise "
            "learning.privacy_budget, or let UEs have data"
        )

    def laid(table: dict[str, np.ndarray], values: FloatArray) -> FloatArray:
        """Sums of values (rows of a table) as (rounds, UEs)."""
        sums = np.zeros(shape)
        np.add.at(sums, (np.searchsorted(rounds, table["round"]), table["ue"].astype(int)), values)
        return sums

    if laid(updates, np.ones(len(updates["ue"]))).max() > 1:
        raise BadInput(
            f"{run.folder}: a UE sent several rows in a round; a bound reads one model "
            f"and one phase"
        )
    once = (spends["ue"] >= 0) & (
        spends["unit"] != PRINTED
    )  # a printed claim is a second account of the same noise
    drawn = {k: v[once] for k, v in spends.items()}
    sent = laid(links, links["power_w"])
    sinr = ratio_from_db(links["sinr_db"])
    scale = links["noise_std"] * np.sqrt(sinr)  # C / sqrt(q), the same for all
    return Trajectory(
        std=np.sqrt(laid(drawn, drawn["std"] ** 2)),
        weight=laid(updates, updates["weight"]),
        gain=laid(links, sinr / links["power_w"]),
        scale=np.median(scale),
        power_w=sent.sum(axis=0) / np.maximum((sent > 0).sum(axis=0), 1),
    )


def snr_of_round(study: Study, seed: int) -> FloatArray:
    """SNR at 1 W (K,) of every UE at the first deadline of the study in the world of a seed; 0
    without a cell.
    """
    world = build_world(study.world, Streams(seed), study.round_s)
    world.env.run(until=min(study.round_s, world.duration_s))
    ue = np.arange(len(world.ues))
    cohort = world.cohort(ue, world.links(), 1, np.ones(len(ue), dtype=int), np.zeros(len(ue)))
    return study.world.radio.uplink.snr_per_w(cohort)
