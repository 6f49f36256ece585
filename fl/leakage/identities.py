"""Whether names were linked to the people who sent under them: truth meets what an attack says of a directory.

A name is linked right if the attack names the person who sent it. Who links names at random is right about each with
probability 1 / people. Names of people outside the directory are right where the attack says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fl.pseudonyms.names import Names
from fl.tracking.identity import NO_PERSON, UNKNOWN, Identities
from fl.types import Directory
from netsim.units import BoolArray, FloatArray


def compared(said: Identities, directory: Directory, users: tuple[str, ...], names: Names) -> dict[str, Any]:
    """A row of the table `identities` without round, time and attack; users (n_ue,): the name of each UE."""
    person = {user: i for i, user in enumerate(directory.user)}
    truth = np.array([person.get(users[ue], NO_PERSON) for ue in names.of[said.name].tolist()], dtype=np.int64)
    right, listed = said.person == truth, truth >= 0
    given, answered = said.person >= 0, said.person != UNKNOWN
    return {
        "people": len(directory.user),
        "names": int(listed.sum()),
        "others": int((~listed).sum()),
        "told": int(answered.sum()),
        "given": int(given.sum()),
        "right_share": _mean(right, listed),
        "chance_share": 1.0 / len(directory.user) if listed.any() else float("nan"),
        "probability": _mean(said.probability, given),
        "given_right_share": _mean(right, given),
        "anonymity_set": _mean(2.0**said.entropy_bits, answered),
        "others_given_share": _mean(given, ~listed),
    }


def _mean(values: FloatArray | BoolArray, of: BoolArray) -> float:
    return float(np.mean(values[of])) if of.any() else float("nan")
