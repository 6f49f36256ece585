"""Rounds of a run again, by what its attacker received: files that `fl.round.attack` wrote."""

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from fl.attacks.base import View
from fl.data import TakenData
from fl.round.attack import attack_views
from fl.round.leaked import measure_leakage
from fl.round.replica import PublicReplica
from fl.round.setup import RoundStreams, Setup
from fl.round.state import Collected, Merge, Phase, RoundOutcome, RoundState
from fl.server_optimiser import Moments, Velocity
from fl.tracking.pseudonyms import Names
from fl.types import HeldOut, Local, RoundContext
from netsim.checkpoint import from_tree_as, load_tree
from netsim.errors import BadInput
from netsim.world.world import World

_VIEWS = tuple[RoundContext, list[View]]
_TRUTH = tuple[Merge, Names, Velocity | Moments | None]
_DATA = tuple[Local, Local, bool]


def attack_kept_round(setup: Setup, world: World, state: RoundState, folder: Path) -> RoundOutcome:
    """The round of this state by its views in a folder, with what attacks make of them.

    state : changed in place. Raises BadInput: a file is missing or damaged.
    """
    learning = setup.learning
    states = state.parts
    merges = list[Merge]()
    for name in learning.learner.phases:
        file = f"{state.round:06d}-{name}.npz"
        facts, kept_views = _read_values(folder / file, _VIEWS)
        truth = _read_values(folder / f"truth-{file}", _TRUTH)
        merge, states["names"], states[f"server_optimiser.{name}"] = truth
        facts = replace(facts, public=setup.public)
        streams = RoundStreams(setup.streams, state.round).derive_phase(name, first=not merges)
        phase = Phase(setup, facts, name, merge.model, 0, 0.0, inf, {}, len(world.ues), streams)
        views = list[View]()
        for view in kept_views:
            replica = None
            if learning.threat.can_train:
                base = view.model_before
                replica = PublicReplica(phase, merge.uploads, base, states)
            views.append(replace(view, learner=learning.learner, replica=replica))
        merges.append(attack_views(phase, merge, views, states))
    measured, local, last = _read_values(folder / f"truth-{state.round:06d}.npz", _DATA)
    collected = Collected(TakenData(measured, local, HeldOut.none()), local)
    rows, tables = measure_leakage(setup, world, state, facts, collected, merges, last)
    return RoundOutcome(facts, phase.model, state, collected, merges, [], rows, tables, [])


def _read_values(path: Path, kind: Any) -> Any:
    try:
        return from_tree_as(load_tree(path), kind)
    except (LookupError, TypeError, ValueError) as error:
        raise BadInput(
            f"{path}: is missing or damaged ({error}); play the run again with --views --replace"
        ) from None
