"""Warnings of figures that a run ends with: of leakage, by when it was compared, and of epsilon, by its delta."""

from __future__ import annotations

import numpy as np

from fl.round.setup import Setup
from fl.round.state import RoundState
from fl.types import LOCATION
from scenarios.app.results.folder import read_table
from scenarios.app.results.statistics import too_large


def delta_warnings(setup: Setup, state: RoundState) -> list[str]:
    """Deltas of 1/n and more, n being the UEs, or the records that a round learns from, of which one is hidden."""
    records = int(read_table(setup.recorder.folder, "rounds")["selected"].max(initial=0))
    of, budget = {"user": (state.ledger.n_ue, "UE"), LOCATION: (0, "")}, setup.learning.privacy_budget
    stated = {(a.mechanism, a.unit, a.delta) for a in state.ledger.sums}
    stated |= {("privacy_budget", a.unit, budget.delta) for a in state.ledger.sums if budget and budget.delta}
    said = ((name, too_large(delta, *of.get(unit, (records, "record")))) for name, unit, delta in sorted(stated))
    return [f"{name}: {text}" for name, text in said if text]


def scoring_warnings(setup: Setup, state: RoundState) -> list[str]:
    """Compared rounds in which no UE was heard, where not all are compared, and names that were young at the end."""
    learning, folder, found = setup.learning, setup.recorder.folder, list[str]()
    uplink = read_table(folder, "updates" if learning.threat.at_m is None else "eavesdropper")
    compared = np.unique(read_table(folder, "leakage")["round"])
    silent = np.setdiff1d(compared, uplink["round"][uplink["decoded"] == 1])
    if len(silent) and learning.leakage.every_rounds > 1:
        found.append(
            f"leakage: no UE was heard in {len(silent)} of the {len(compared)} compared rounds (the last: "
            f"{silent[-1]:g}); what is named of UEs there was named before. learning.leakage.every_rounds: 1 compares "
            f"all rounds (here {learning.leakage.every_rounds})"
        )
    young = state.parts.names.young() if learning.threat.renames else None
    if len(compared) and young is not None:
        found.append(
            f"leakage: at the end names had been heard in {young[0]:g} rounds, earlier ones in {young[1]:g} (medians), "
            "and what is named of UEs at the end is named under them; end the run shortly before names change "
            "(world.duration_s, learning.rounds)"
        )
    return found
