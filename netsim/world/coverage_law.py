r"""Expected RSRP at a place from public knowledge: the laws that a radio is drawn from, without the
draws.

The strongest cell at x has M = max over sites of a mean with or without sight and normal
shadowing::

    P(M < t) = prod over sites [p Phi((t - a) / sigma_a) + (1 - p) Phi((t - b) / sigma_b)]
    m(x) = E r(M - W + e),   e ~ N(0, noise^2)

a, b: power and antenna gain of the best sector of the site less the path loss with and without
sight; p: probability of sight; sigma: shadowing with and without sight, or indoors. W is 0 outside;
inside it is the mix of buildings of low and high loss, PL_tw + 0.5 dB a metre of depth with
deviation sigma_P [TR 38.901, Section 7.4.3.1]. r clips to the range of quantised reports; exact
ones have none. M and W are independent; in sight the deviation of rma is that before its
breakpoint.
"""

from dataclasses import replace

import numpy as np

from netsim.columns import frozen, split_blocks
from netsim.errors import BadInput
from netsim.radio.link_budget import Budget
from netsim.rng import ndtr
from netsim.ues import Indoors
from netsim.units import ArrayPair, FloatArray, FloatPair, IntArray
from netsim.world.setting import Radio

_LEVEL_DB = 2.0
_MAX_STDS = 8.0
_MIN_STD_DB = 0.05  # of a radio without shadowing, in place of steps
_PLACES = 1000  # at once


@frozen
class CoverageLaw:
    """The laws of a radio, and the geometry of its links; site (n_bs,) of each base station.

    Of the budget no field is read.
    """

    radio: Radio
    budget: Budget
    site: IntArray

    def check(self) -> None:
        """Raise BadInput where sight follows from buildings, for which no probability is known."""
        if (kind := self.radio.line_of_sight.kind_name()) not in ("always", "never", "probability"):
            raise BadInput(
                f"learning.learner.prior: coverage needs a probability of sight, "
                f"world.radio.line_of_sight is {kind}; "
                "take probability, always or never there, or another prior"
            )

    def compute_mean_dbm(
        self, place_m: FloatArray, cells: IntArray, floor: int, depth_m: float | None
    ) -> FloatArray:
        """m (n,) at places (n, 2) of the strongest of some cells (k,); depth_m: from the facade,
        None outside.
        """
        radio = self.radio
        noise_db = radio.measurement_noise_db
        clip_dbm = radio.report_dbm
        walls = [(1.0, 0.0, 0.0)]
        indoors = Indoors.outdoors(np.arange(len(place_m)))
        if depth_m is not None:
            walls = radio.penetration.list_walls(radio.path_loss, radio.carrier_hz, depth_m)
            none = indoors.floor
            indoors = replace(
                indoors, building=none, floor=none + floor, depth_m=np.full(len(none), depth_m)
            )
        mean = np.empty(len(place_m))
        for rows in split_blocks(len(place_m), _PLACES):
            level, below = self._tabulate_cdf(place_m[rows], cells, indoors.select(rows))
            between = (level[1:] + level[:-1]) / 2
            middle = np.concatenate([level[:1], between, level[-1:]])
            reported = sum(
                share * _average_clipped(middle - loss, np.hypot(std, noise_db), clip_dbm)
                for share, loss, std in walls
            )
            mean[rows] = reported @ np.diff(below, axis=0, prepend=0.0, append=1.0)
        return mean

    def _tabulate_cdf(self, place_m: FloatArray, cells: IntArray, indoors: Indoors) -> ArrayPair:
        """Levels t of M (levels,) and P(M < t) (levels, n) in front of the facade."""
        pairs, seen_dbm = self.budget.compute_unshadowed_dbm(place_m, indoors, True)
        hidden_dbm = self.budget.compute_unshadowed_dbm(place_m, indoors, False)[1]
        kind = self.radio.line_of_sight.kind_name()
        share = np.full(seen_dbm.shape, float(kind == "always"))
        if kind == "probability":
            share = self.radio.path_loss.los_probability(pairs)
        *stds, _, within = self.radio.shadowing.choose_stds(self.radio.path_loss)
        if within is not None and indoors.inside.any():
            stds = [within, within]
        stds = np.maximum(stds, _MIN_STD_DB).tolist()
        # M beyond these levels counts as the last
        both = np.stack([seen_dbm, hidden_dbm])[:, :, cells]
        beyond = _MAX_STDS * max(stds)
        low = both.min(axis=0).max(axis=1).min() - beyond
        high = both.max() + beyond
        level = _LEVEL_DB * np.arange(low // _LEVEL_DB, high // _LEVEL_DB + 2)
        below = np.ones((len(level), len(place_m)))
        for s in np.unique(self.site[cells]):
            site_cells = cells[self.site[cells] == s]
            p = share[:, site_cells[0]]
            seen, hidden = (
                ndtr((level[:, None] - mean_dbm[:, site_cells].max(axis=1)) / std)
                for mean_dbm, std in zip((seen_dbm, hidden_dbm), stds, strict=True)
            )
            below *= p * seen + (1.0 - p) * hidden
        return level, below


def _average_clipped(mean: FloatArray, std: float, clip_dbm: FloatPair | None) -> FloatArray:
    """E clip(X) of X ~ N(mean, std^2), clipped to the range of reports, if there is one."""
    if clip_dbm is None:
        return mean
    from scipy.stats import norm  # here, since it loads for long

    low, high = clip_dbm
    law = norm(mean, max(std, _MIN_STD_DB))
    share = law.cdf(high) - law.cdf(low)
    slope = law.pdf(low) - law.pdf(high)
    inner = mean * share + law.var() * slope
    return low * law.cdf(low) + high * law.sf(high) + inner
