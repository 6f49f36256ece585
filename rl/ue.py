r"""Recorded rounds as tasks of single UEs, and the Gymnasium environment in which one UE sets its
power.

All UEs of a round send with the present powers p. A UE sees its links and what p leads to (see
`rl.look`), and moves its power by 10 dB times its action in [-1, 1]. Its reward is what its own
move saves, given the moves of all others,

    r_k = 10 (c(p' with p_k) - c(p')),     p' = p + 10 dB a, within the limits,

c the cost of the round (see `rl.reward`): the moves of others are on both sides, so UEs are not
paid for one another. [difference rewards: Wolpert and Tumer, Optimal payoff functions for members
of collectives, 2002]

A pass is one such move of all UEs. Passes begin at the powers of a tuned rule; each later one sees
what the one before led to.
"""

from dataclasses import replace

import numpy as np

from netsim.units import FloatArray, IntArray
from rl.env import Info, Played, PowerEnv
from rl.look import Look
from rl.policy import (
    MOST_SEEN,
    Act,
    compute_actions,
    compute_ue_features,
    count_ue_features,
    move_dbw,
)
from rl.problem import Seen
from rl.radio_records import Rounds
from rl.rules import KnownRounds, TunedRule, clip_dbw, limit_to_w

_SCALE = 10.0  # of rewards: a tenth of a unit of cost is 1
_MOST = 5.0  # of a reward
_EVEN = 0.01  # least standard deviation of a feature


class UeRounds:
    """S recorded rounds of K UEs at the present powers of each pass.

    probes : whether a UE also sees what moves of its own would cost (see `rl.policy`). present
    (passes, S, K) : dBW; seen (passes, S, K, F) : observations at them. At first all passes are at
    the rule.
    """

    def __init__(
        self, recorded: KnownRounds, rule: TunedRule, passes: int = 1, probes: bool = False
    ) -> None:
        self.known = recorded
        self.rule = rule
        self.probes = recorded.reward if probes else None
        self._begin(passes)
        seen = self.seen[0][recorded.look.is_served].astype(float)
        self.scale = seen.mean(axis=0), seen.std(axis=0) + _EVEN
        """mean and standard deviation (F,) of the features of UEs that are there, at the rule"""

    def _begin(self, passes: int) -> None:
        """All passes at the rule."""
        look = self.known.look
        self.rule_dbw = clip_dbw(self.rule.dbw(look), look.limits)
        self.present = np.repeat(self.rule_dbw[None], passes, axis=0)
        self.seen = np.repeat(self.compute_features(self.rule_dbw)[None], passes, axis=0)

    def add(self, recorded: KnownRounds) -> None:
        """More rounds of the same UEs; all passes are at the rule again."""
        rounds = Rounds.stack([self.known.rounds, recorded.rounds])
        self.known = replace(
            self.known, rounds=rounds, look=Look.join([self.known.look, recorded.look])
        )
        self._begin(len(self.present))

    def compute_features(self, dbw: FloatArray) -> Seen:
        """Observations (S, K, F) at powers (S, K) in dBW."""
        return compute_ue_features(self.known.look, dbw, self.rule_dbw, self.probes)

    def renew(self, act: Act) -> None:
        """The passes of a policy: each at the powers that it moved to in the one before."""
        for i in range(1, len(self.present)):
            self.present[i] = self.compute_moved_dbw(act, i - 1)
            self.seen[i] = self.compute_features(self.present[i])

    def compute_moved_dbw(self, act: Act, of_pass: int) -> FloatArray:
        """Powers (S, K), dBW, after the moves of a policy."""
        action = compute_actions(act, self.seen[of_pass])
        return move_dbw(self.present[of_pass], action, self.known.look.limits)

    def compute_joint_rewards(
        self, of_pass: IntArray, round_index: IntArray, action: FloatArray
    ) -> FloatArray:
        """Rewards (n, K) of joint actions (n, K) in rounds at (n,) of the passes (n,)."""
        limits = self.known.look.limits
        present = self.present[of_pass, round_index]
        k = np.arange(action.shape[1])
        tried = np.repeat(move_dbw(present, action, limits)[:, None], len(k) + 1, axis=1)
        tried[:, k, k] = present
        tried_w = limit_to_w(tried.reshape(-1, len(k)), limits)
        cost = self.known.compute_costs(tried_w, np.repeat(round_index, len(k) + 1))
        cost = cost.reshape(len(round_index), -1)
        return scale_to_reward(cost[:, :-1] - cost[:, -1:])


def scale_to_reward(saved: FloatArray) -> FloatArray:
    """Rewards of what moves save."""
    return np.clip(_SCALE * saved, -_MOST, _MOST)


class UePower(PowerEnv):
    """Power of one UE in a recorded round in which all others send with given powers.

    Description
        Rounds of a federated training over a shared band were recorded once. An episode is one
        step: a round and a UE in it are drawn, the UE sets its power, and the cost of the round is
        judged again, without any local training. One policy serves every UE, for any number of
        them.

    Action space
        Box(-1, 1, (1,)): what is added to the present power of the UE, in units of 10 dB, within
        its limits. At first the present power is that of the best tuned rule, so that 0 plays the
        rule. `play(policy)` makes another pass of it: all UEs move as the policy says, and the next
        episodes begin at those powers.

    Observation space
        Box(-5, 5, (22,)): features of `rl.look` at the present powers, and by how much they are
        above the rule.

    Rewards
        10 times what the move saves of the cost of the round, see `rl.reward`, from -5 to 5.

    Starting state
        `options={"round": i, "ue": k}` asks for a round and a UE. Other options and values are
        refused.

    Episode end
        Terminated after one step. A step before a reset or after the end is refused.
    """

    def __init__(self, rounds: UeRounds) -> None:
        n, k = rounds.present.shape[1:]
        super().__init__(1, count_ue_features(), {"round": n, "ue": k}, MOST_SEEN)
        self.recorded = rounds
        self.there = np.argwhere(rounds.known.look.is_served)
        self.rounds = 1

    def play(self, act: Act) -> None:
        """All UEs move as a policy says; episodes begin at those powers from now on."""
        rounds = self.recorded
        rounds.present[:] = rounds.compute_moved_dbw(act, 0)
        rounds.seen[:] = rounds.compute_features(rounds.present[0])

    def step(self, action: Seen) -> tuple[Seen, float, bool, bool, Info]:
        seen, reward, _, over, info = super().step(action)
        return seen, reward, over, False, info

    def _start(self, options: Info) -> Info:
        round_index, ue = self.there[self.np_random.integers(len(self.there))].tolist()
        return {"round": int(options.get("round", round_index)), "ue": int(options.get("ue", ue))}

    def _begin(self, start: Info) -> None:
        self.dbw = float(self.recorded.present[0, start["round"], start["ue"]])

    def _play(self, action: FloatArray) -> Played:
        round_index = self.start["round"]
        ue = self.start["ue"]
        recorded = self.recorded.known
        both = np.repeat(self.recorded.present[0, [round_index]], 2, axis=0)
        both[1, ue] = move_dbw(both[1, ue], action[0], recorded.look.limits)
        self.dbw = both[1, ue]
        both_w = limit_to_w(both, recorded.look.limits)
        present, moved = recorded.compute_costs(both_w, np.full(2, round_index))
        return float(scale_to_reward(present - moved)), False, True

    def _observe(self) -> Seen:
        return self.recorded.seen[0, self.start["round"], self.start["ue"]].copy()

    def _build_info(self) -> Info:
        return {**self.start, "power_w": float(10.0 ** (self.dbw / 10.0))}
