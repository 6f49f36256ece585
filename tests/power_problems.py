"""Small power problems, environments, policies and trainings that several tests play."""

from numpy import exp, float32, linspace, ones, tile
from numpy.random import default_rng
from rows import read_yaml

from fl.power.bound import Convergence, PowerLoss, Trajectory
from fl.power.search import Limits
from netsim.checkpoint import load_tree, save_tree
from rl.policy import Card, Policy, compute_action, pair_layers
from rl.problem import Problem
from rl.settings import DdpgAgent

LIMITS = Limits(total_min_w=0.15, total_max_w=1.5)

ONLINE = {  # changes of the tiny study that make it a live world for an agent
    "world.ues.count": 3,
    "world.radio.fading": {"kind": "rayleigh", "antennas": 2},
    "world.radio.uplink": {"kind": "noma", "interference": "none"},
    "learning.defenses": [
        {"kind": "clip", "norm": 0.5},
        read_yaml(
            "kind: noise-switch, noise: {kind: lapa, epsilon_system_total: 4000.0, "
            "epsilon_cap: 10000.0, rounds: 4, window: 2}"
        ),
    ],
    "world.duration_s": 240,
    "train": read_yaml("task: {kind: online, limits: {each_min_w: 1e-09, total_min_w: 0.0}}"),
}


def trajectory(seed=0, rounds=30, ues=6, moving=False):
    g = default_rng(seed)
    weight = tile(g.dirichlet(ones(ues)), (rounds, 1))
    gain = exp(g.normal(0, 0.7, (rounds if moving else 1, ues))) * ones((rounds, 1)) * 2.0
    std = linspace(1.0, 0.25, rounds)[:, None] ** 2 * exp(g.normal(0, 0.1, (rounds, ues))) * 0.05
    return Trajectory(std, weight, gain, 0.01)


def problem(criterion="aggregate", observe="paper", moving=False, limits=LIMITS, **kw):
    return Problem(
        PowerLoss(trajectory(moving=moving, **kw), Convergence(), criterion), limits, observe
    )


def allocation(problems=None, **kw):
    from rl.env import PowerAllocation

    return PowerAllocation(problems or [problem()], **kw)


QUICK = DdpgAgent(learning_starts=20, batch_size=16, hidden=(16,))


def course(folder, stop_at=None):
    """A training of 120 steps; stop_at: interrupted after so many, and taken up again."""
    from rl.agents import build_allocation_training

    p = problem()

    def judge(weights):
        layers = pair_layers(weights)
        return p.play_episode(lambda o: compute_action(layers, o))[-1].value / p.start.value

    def tell(point, last):
        if stop_at is not None and point.step == stop_at:
            raise KeyboardInterrupt

    training, _ = build_allocation_training([p], QUICK, 120, 0)
    return keep_course(training, judge, 30, folder / "c.npz", tell)


def keep_course(training, score, interval, file, tell):
    """The course of a training that goes on from a file, and writes it whenever it can."""
    from rl import train as loop

    if file.exists():
        course = loop.restore_course(training, load_tree(file))
    else:
        course = loop.Course()
    old = loop.SAVE_EVERY_S
    loop.SAVE_EVERY_S = 0.0
    try:
        return loop.take_steps(
            training, score, interval, course, tell, lambda tree: save_tree(file, tree)
        )
    finally:
        loop.SAVE_EVERY_S = old


def policy(observe="paper", ues=6, hidden=(8,)):
    g = default_rng(0)
    card = Card(
        program="t", task="allocation", observe=observe, ues=ues, hidden=hidden, limits=LIMITS
    )
    layers = tuple(
        (g.normal(size=s).astype(float32), g.normal(size=s[0]).astype(float32)) for s in card.shapes
    )
    return Policy(card, layers, trajectory(ues=ues))
