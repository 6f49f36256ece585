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


def attack_kept_round(setup: Setup, world: World, state: RoundState, folder: Path) -> RoundOutcome:
    """The round of this state by its views in a folder, with what attacks make of them.

    state : changed in place. Raises BadInput: a file is missing or damaged.
    """
    learner = setup.learning.learner
    states = state.parts
    merges = list[Merge]()
    for name in learner.phases:
        file = f"{state.round:06d}-{name}.npz"
        facts, views = _read_values(folder / file, tuple[RoundContext, list[View]])
        merge, states["names"], states[f"server_optimiser.{name}"] = _read_values(
            folder / f"truth-{file}", tuple[Merge, Names, Velocity | Moments | None]
        )
        facts = replace(facts, public=setup.public)
        streams = RoundStreams(setup.streams, state.round).derive_phase(name, first=not merges)
        phase = Phase(setup, facts, name, merge.model, 0, 0.0, inf, {}, len(world.ues), streams)
        views = [replace(view, learner=learner) for view in views]
        if setup.learning.threat.can_train:
            uploads = merge.uploads
            views = [
                replace(view, replica=PublicReplica(phase, uploads, view.model_before, states))
                for view in views
            ]
        merges.append(attack_views(phase, merge, views, states))
    measured, local, last = _read_values(
        folder / f"truth-{state.round:06d}.npz", tuple[Local, Local, bool]
    )
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
