"""Warnings of figures of leakage that hang on when estimates were compared with the truth."""

from __future__ import annotations

import numpy as np

from fl.round.setup import Setup
from fl.round.state import RoundState
from scenarios.app.results.folder import read_table


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
