"""Secure aggregation in groups: who is summed with whom, and which sums the server can open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fl.round.merge import Batch, Merging
from fl.round.state import Sums
from netsim.units import IntArray


def in_groups(at: Merging, batch: Batch) -> tuple[Batch, Sums | None]:
    """Rows as secure aggregation leaves them: those of a group that is not opened are as if they had not come.

    Groups are those of all UEs that sent, before the uplink loses any of them. None where nothing is summed.
    """
    threat, updates, decoded = at.setup.learning.threat, batch.got.updates, batch.got.decoded
    if threat.observes != "aggregate":
        return batch, None
    company = at.setup.streams.at("threat.company")
    group = threat.grouped(updates.ue, at.n_ue, at.streams.at("threat"), company)
    number, of_row = np.unique(group, return_inverse=True)
    of_row = of_row.reshape(-1)
    sums = [_ues(updates.ue[some], of_row[some], len(number)) for some in (np.ones_like(decoded), decoded)]
    opened = sums[1] >= (threat.secagg_threshold or 1)
    received = replace(batch.got, decoded=decoded & opened[of_row])
    return replace(batch, got=received, heard=received, group=group), Sums(number, sums[0], sums[1], opened)


def _ues(ue: IntArray, group: IntArray, n: int) -> IntArray:
    """Number of different UEs in each of n groups (n,), of rows of UEs."""
    _, first = np.unique(ue, return_index=True)
    return np.bincount(group[first], minlength=n)
