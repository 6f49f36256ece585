"""What the attacker of a run received, kept in files, which attacks read without a training.

Of each merge `NUMBER-PHASE.npz` is the attacker's: its views, by the names that it sees, and the
facts of the round. Two files are the judge's: `truth-NUMBER-PHASE.npz` says whose these names are,
and how updates were sent, `truth-NUMBER.npz` where UEs were in the round. No attack reads them, but
that UEs which the attacker makes up have uplinks of real ones, as in the run (`fl.round.replica`).
"""

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from fl.attacks.base import View
from fl.data import TakenData
from fl.round.replica import PublicReplica
from fl.round.setup import RoundStreams, Setup
from fl.round.state import Collected, Merge, Phase, States
from fl.server_optimiser import Moments, Velocity
from fl.tracking.pseudonyms import Names
from fl.types import HeldOut, Local, RoundContext
from netsim.checkpoint import from_tree_as, load_tree, save_tree, to_tree
from netsim.errors import BadInput


def keep_views(folder: Path, phase: Phase, merge: Merge, views: list[View], states: States) -> None:
    """Write what the attacker received of a merge, and the truth about it."""
    uploads = merge.uploads
    rows = uploads.made.with_values(np.zeros((len(uploads.ue), 0)), None)
    heard = None if uploads.heard is None else rows
    bare = replace(merge, uploads=replace(uploads, made=rows, sent=rows, got=None, heard=heard))
    facts = replace(phase.facts, channel=None)
    optimiser = states[f"server_optimiser.{phase.name}"]
    name = f"{facts.round:06d}-{phase.name}"
    _write(folder, name, facts, views)
    _write(folder, f"truth-{name}", bare, states["names"], optimiser)


def keep_data(folder: Path, number: int, collected: Collected, last: bool) -> None:
    """Write the data of a round, and whether no other follows."""
    _write(folder, f"truth-{number:06d}", collected.taken.measured, collected.local, last)


def read_views(
    folder: Path, setup: Setup, number: int, name: str, n_ue: int, states: States
) -> tuple[Phase, Merge, list[View]]:
    """A phase of a round whose views were kept, its merge before attacks, and its views; states:
    with those after the merge.
    """
    learning = setup.learning
    base_name = f"{number:06d}-{name}"
    facts, kept = _read(folder, base_name, tuple[RoundContext, list[View]])
    truth = tuple[Merge, Names, Velocity | Moments | None]
    merge, states["names"], states[f"server_optimiser.{name}"] = _read(
        folder, f"truth-{base_name}", truth
    )
    facts = replace(facts, public=setup.public)
    is_first = name == learning.learner.phases[0]
    streams = RoundStreams(setup.streams, number).derive_phase(name, is_first)
    views = []
    for view in kept:
        base = view.model_before
        bases = {0: base}
        phase = Phase(setup, facts, name, base, 0, facts.time_s, inf, bases, n_ue, streams)
        replica = None
        if learning.threat.can_train:
            replica = PublicReplica(phase, merge.uploads, base, states)
        views.append(replace(view, learner=learning.learner, replica=replica))
    return phase, replace(merge, view=views[-1]), views


def read_data(folder: Path, number: int) -> tuple[Collected, bool]:
    """The data of a round that was kept, and whether no other follows."""
    kind = tuple[Local, Local, bool]
    measured, local, last = _read(folder, f"truth-{number:06d}", kind)
    return Collected(TakenData(measured, local, HeldOut.none()), local), last


def _write(folder: Path, name: str, *values: object) -> None:
    folder.mkdir(exist_ok=True)
    save_tree(folder / f"{name}.npz", to_tree(values))


def _read(folder: Path, name: str, kind: Any) -> Any:
    """Values of these types. Raises BadInput: the file is missing or damaged."""
    path = folder / f"{name}.npz"
    try:
        return from_tree_as(load_tree(path), kind)
    except (LookupError, TypeError, ValueError) as error:
        raise BadInput(
            f"{path}: is missing or damaged ({error}); play the run again with --views --replace"
        ) from None
