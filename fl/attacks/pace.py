"""Pace of shadow UEs, matched to the estimates of real ones.

Estimates of a moving UE err more than those of one at rest, so what is learnt on UEs that move too much says that all
errors are large. The attacker sees how far the estimates of a UE lie apart in two successive rounds. Made-up UEs
whose estimates lie as far apart move as real ones do, or are hidden in the same noise, and then nothing is changed:

    speed'   = speed  median(steps of real UEs) / median(steps of made-up UEs),      of steps above 50 m,
    roaming' = 1 - rest (1 - roaming) / rest of made-up UEs,                         rest: share of steps below 50 m.

No true place of a real UE is read.
"""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np

from fl.attacks.shadow_ues import ROAMING, SPEED_MPS, STILL_M, Population
from netsim.columns import frozen, no_floats, no_ints, no_places
from netsim.units import FloatArray, IntArray

_MOST_KEPT = 512
_FEWEST = 16
_LEAST_MPS = 0.02
_MOST_MPS = 50.0
_AT_ONCE = 4.0
_SAME_SPEED = 1.25
_SAME_SHARE = 0.1  # what is nearer is left as it is


@frozen
class Pace:
    """roaming, speed_mps : of made-up UEs; round : the last in which UEs ue (k,) were estimated at place_m (k, 2);
    steps_m (n,) : how far estimates of one UE in successive rounds lay apart.
    """

    roaming: float = ROAMING
    speed_mps: float = SPEED_MPS
    round: int = -1
    ue: IntArray = field(default_factory=no_ints)
    place_m: FloatArray = field(default_factory=no_places)
    steps_m: FloatArray = field(default_factory=no_floats)

    def of(self, population: Population) -> Population:
        """A population that moves so, but for what is given."""
        return replace(
            population,
            roaming=self.roaming if population.match_roaming else population.roaming,
            speed_mps=self.speed_mps if population.match_speed else population.speed_mps,
        )

    def seen(self, round_: int, ue: IntArray, place_m: FloatArray) -> Pace:
        """With estimates (k, 2) of real UEs (k,) ascending in a round; several looks at a round count as the first."""
        if round_ == self.round:
            return self
        steps_m = self.steps_m
        if round_ == self.round + 1:
            _, now, then = np.intersect1d(ue, self.ue, assume_unique=True, return_indices=True)
            step_m = np.hypot(*(place_m[now] - self.place_m[then]).T)
            steps_m = np.concatenate([steps_m, step_m[np.isfinite(step_m)]])[-_MOST_KEPT:]
        return replace(self, round=round_, ue=ue, place_m=place_m, steps_m=steps_m)

    def matched(self, population: Population, made_up_m: FloatArray) -> Pace:
        """After steps (m,) of estimates of UEs made up of that population; itself, where nothing differs or too little
        is known.
        """
        if min(len(made_up_m), len(self.steps_m)) < _FEWEST:
            return self
        real, made = (step_m[step_m > STILL_M] for step_m in (self.steps_m, made_up_m))
        ratio = 1.0
        roaming = population.roaming
        if min(len(real), len(made)) >= _FEWEST // 3:
            ratio = float(np.clip(np.median(real) / np.median(made), 1 / _AT_ONCE, _AT_ONCE))
        at_rest = 1 - len(real) / len(self.steps_m)
        made_at_rest = 1 - len(made) / len(made_up_m)
        if made_at_rest > _SAME_SHARE and roaming < 1:
            roaming = float(np.clip(1 - at_rest * (1 - roaming) / made_at_rest, 0.0, 1.0))
        elif at_rest > _SAME_SHARE:
            roaming = float(np.clip(1 - at_rest, 0.0, 1.0))
        speed_mps = float(np.clip(population.speed_mps * ratio, _LEAST_MPS, _MOST_MPS))
        differs = max(speed_mps / population.speed_mps, population.speed_mps / speed_mps) > _SAME_SPEED
        new = self
        if population.match_speed and differs:
            new = replace(new, speed_mps=speed_mps)
        if population.match_roaming and abs(roaming - population.roaming) > _SAME_SHARE:
            new = replace(new, roaming=roaming)
        return new
