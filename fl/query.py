"""The query slot: every UE's own answer to the server's request, before it touches its data."""

from abc import abstractmethod
from dataclasses import field
from math import erfc, exp, inf, log, pi, sqrt
from statistics import NormalDist
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.types import LastFigures, Metrics, Request, RoundContext, State
from netsim.clock import compute_rounding_s
from netsim.columns import frozen, replace_values
from netsim.geometry import Area
from netsim.part import OneOf, Part, Probability
from netsim.units import BoolArray, FloatArray, FloatQuadruple, IntArray, Ints

BANDS = 3  # assumed of a policy that states no number


class Query(Part):
    """A policy by which a UE accepts or refuses a round. It must not depend on position or
    motion.
    """

    kind: str = ""
    by_history: ClassVar = False
    """whether an answer depends on what the UE has sent before"""

    def start(self, n_ue: int) -> State:
        """The first state; None for a policy without memory."""
        return None

    @abstractmethod
    def accept(self, ue: IntArray, facts: RoundContext, state: State) -> tuple[BoolArray, State]:
        """Which of the UEs (n,) answer."""

    def figures(self, state: State) -> Metrics:
        """Figures of the last round for the table `metrics`; names with units."""
        return dict(getattr(state, "figures", {}))


def describe_bands(request: Request | None, bands: int) -> Metrics:
    """Probability of `bands` bands at the largest requested bandwidth by Lemma 3; empty without a
    request.
    """
    if request is None:
        return {}
    side_m = request.area.side_m[: request.dimensions].min()
    probability = compute_band_probability(
        request.bandwidth_m.max(), side_m, bands, request.dimensions
    )
    return {"bands": float(bands), "bands_probability": probability}


class Off(Query, kind="off"):
    """No policy: every UE answers every request."""

    reference = "netsim: the usual assumption of federated learning papers"

    def start(self, n_ue: int) -> LastFigures:
        return LastFigures()

    def accept(
        self, ue: IntArray, facts: RoundContext, state: LastFigures
    ) -> tuple[BoolArray, LastFigures]:
        return np.ones(len(ue), bool), LastFigures(describe_bands(facts.request, BANDS))


@frozen
class AnswersOfUes:
    """last_s (n_ue,): when each UE answered last, -inf for never; base_m: the base bandwidth, 0
    until it is known.
    """

    last_s: FloatArray
    base_m: float
    figures: Metrics = field(default_factory=dict)


class Custom(Query, kind="custom"):
    r"""A UE refuses requests whose answers would localise it, by public rules.

    A request for B features, bandwidths h and an area with largest square of side l is refused

        features   if B > max_features (the exact kernel counts as infinitely many)
        bandwidth  if the largest h > sqrt(gamma) l / (2 pi bands). Below it, by Lemma 3, that many
        bands cross the
                   square with probability at least 1 - C(gamma). Several bandwidths reveal as much
                   as the largest of them, so the rule is applied to that one.
        family     if an h is not a whole multiple k of the base bandwidth with k = 1, 5, 9, ...
        (Lemma 4)
        area       if it is not the agreed area, to which l refers
        rate       if the time since the UE's last answer is shorter than a UE at `speed_m_s` needs
        to travel the
                   wavelength of a share `passed` of all waves, in the plane or on a line as
                   requested: linked answers reveal displacements modulo a wavelength

    By default: 3 features, 3 bands with probability 0.95 in the plane and erfc(sqrt(0.05)) = 0.75
    on a line, where more waves are long, bandwidths of the family (4n + 1) h0, the agreed area.
    That refuses the bandwidths of all published experiments of its source.

    The rules use only the request, the time and public constants, so a refusal does not depend on
    position or motion. The table `metrics` has, for part `query`, the number of UEs that refused
    for each reason, and the probability of `bands` bands by Lemma 3 at the largest requested
    bandwidth.

    Departs from the paper: any whole multiple k keeps every k-th band in place, not only 4n + 1;
    the rate limit is added.
    """

    max_features: int | None = Field(3, ge=0)
    """largest number of features that a UE answers with (B_max); none: no limit"""
    bands: int = Field(3, ge=2, le=1000)
    """number of bands that must cross the area (j)"""
    gamma: float | None = Field(0.1, gt=0, le=100)
    """gamma of Lemma 3: the bands have probability exp(-gamma / 2) in the plane, less on a line;
    none: any bandwidth"""
    multiples: Literal["4n+1", "any"] | Ints = "4n+1"
    """allowed multiples of the smallest bandwidth of the first request that is answered (h0): the
    family of Lemma 4, a list of whole numbers, or any"""
    area_m: FloatQuadruple | None = None
    """agreed area: x, y of the south-western and the north-eastern corner; none: the area of the
    world"""
    speed_m_s: float | None = Field(None, gt=0, le=1e4)
    """public speed of the rate limit, m/s; none: no rate limit"""
    passed: Probability = 0.5
    """share of waves whose wavelength is travelled between two answers"""

    reference = "Zong et al., Privacy by Projection, PoPETs 2023, Lemmas 3 and 4, Algorithm 3"
    example = {"kind": "custom", "max_features": 8}
    needs = {
        "surfaces": (
            "it judges questions about a grid (bandwidth, features, area), which this "
            "learner does not ask"
        )
    }

    @property
    def by_history(self) -> bool:  # type: ignore[override]
        return self.speed_m_s is not None

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        check_corners(self.area_m)
        if not self.multiples or (isinstance(self.multiples, tuple) and min(self.multiples) < 1):
            raise ValueError(
                f"multiples: {list(self.multiples)} must be whole numbers from 1 on; or "
                f"say 4n+1, or any"
            )
        return self

    def start(self, n_ue: int) -> AnswersOfUes:
        return AnswersOfUes(np.full(n_ue, -inf), 0.0)

    def accept(
        self, ue: IntArray, facts: RoundContext, state: AnswersOfUes
    ) -> tuple[BoolArray, AnswersOfUes]:
        request = facts.request
        if request is None:
            raise ValueError(f"{self.kind}: nothing is asked")
        base_m = state.base_m or request.bandwidth_m.min()
        wrong = self._find_broken_rules(request, base_m, facts.public.area)
        early = self._find_early(ue, request, facts.time_s, state.last_s)
        accepted = ~early & (not any(wrong.values()))
        last_s = replace_values(state.last_s, ue[accepted], facts.time_s)
        figures = describe_bands(request, self.bands)
        figures |= {f"refused_{name}": float(len(ue) * broken) for name, broken in wrong.items()}
        figures["refused_rate"] = float(early.sum())
        agreed_m = base_m if accepted.any() else state.base_m
        return accepted, AnswersOfUes(last_s, agreed_m, figures)

    def _find_broken_rules(self, request: Request, base_m: float, service: Area) -> dict[str, bool]:
        agreed = service if self.area_m is None else Area(*self.area_m)
        low_m = agreed.low_m - request.area.low_m
        high_m = agreed.high_m - request.area.high_m
        away_m = np.abs([low_m, high_m]).max()
        side_m = agreed.side_m[: request.dimensions].min()
        max_features = inf if self.max_features is None else self.max_features
        max_m = inf
        if self.gamma is not None:
            max_m = compute_max_bandwidth_m(side_m, self.bands, self.gamma)
        is_allowed = np.array(True)
        if self.multiples != "any":
            is_allowed = is_in_family(request.bandwidth_m, base_m, self.multiples)
        return {
            "features": request.features > max_features,
            "bandwidth": request.bandwidth_m.max() > max_m * (1 + 1e-12),
            "family": not is_allowed.all(),
            "area": away_m > 1e-6,
        }

    def _find_early(
        self, ue: IntArray, request: Request, time_s: float, last_s: FloatArray
    ) -> BoolArray:
        if self.speed_m_s is None:
            return np.zeros(len(ue), bool)
        widest_m = request.bandwidth_m.max()
        least_s = compute_min_interval_s(widest_m, self.speed_m_s, self.passed, request.dimensions)
        return time_s - last_s[ue] < least_s - compute_rounding_s(least_s, time_s)


QUERIES = OneOf("query", Off, Custom)


def check_corners(area_m: FloatQuadruple | None) -> None:
    """Raise ValueError unless an area, if it is given, begins in the south-west."""
    if area_m is not None and not (area_m[0] < area_m[2] and area_m[1] < area_m[3]):
        raise ValueError(
            f"area_m: {list(area_m)}: the first corner must lie south-west of the second"
        )


def compute_band_probability(
    bandwidth_m: float, side_m: float, bands: int, dimensions: int = 2
) -> float:
    r"""Probability that `bands` wavelengths fit into a square of that side: P(j 2 pi / |omega| <
    l).

    With gamma = (2 pi j h / l)^2 it is exactly 1 - C(gamma): exp(-gamma / 2) in the plane,
    erfc(sqrt(gamma / 2)) on a line. [Lemma 3]
    """
    gamma = (2 * pi * bands * bandwidth_m / side_m) ** 2
    if dimensions == 2:
        return exp(-gamma / 2)
    return erfc(sqrt(gamma / 2))


def compute_max_bandwidth_m(side_m: float, bands: int, gamma: float) -> float:
    r"""The bandwidth sqrt(gamma) l / (2 pi j) up to which `bands` fit with probability 1 -
    C(gamma). [Lemma 3]
    """
    return sqrt(gamma) * side_m / (2 * pi * bands)


def is_in_family(bandwidth_m: FloatArray, base_m: float, multiples: str | Ints) -> BoolArray:
    """Which bandwidths are an allowed whole multiple of the base: 1, 5, 9, ... for `4n+1`. [Lemma
    4]

    Any whole multiple k keeps every k-th band in place, for the device's own band is where the wave
    begins; the family 4n + 1 of the paper is one choice.
    """
    ratio = bandwidth_m / base_m
    whole = np.rint(ratio).astype(np.int64)
    exact = np.abs(ratio - whole) <= 1e-9 * np.maximum(ratio, 1.0)
    if isinstance(multiples, str):
        allowed = (whole >= 1) & (whole % 4 == 1)
    else:
        allowed = np.isin(whole, multiples)
    return exact & allowed


def compute_min_interval_s(
    bandwidth_m: float, speed_m_s: float, share: float, dimensions: int = 2
) -> float:
    r"""Time in which a UE at that speed passes the wavelength of a `share` of all waves.

    P(2 pi h / |xi| < s) = share, solved for s, over the speed: |xi| exceeds r with probability
    exp(-r^2 / 2) in the plane and erfc(r / sqrt(2)) on a line. Snapshots that are farther apart
    leave that share of displacements known modulo a wavelength only.
    """
    exceeded = sqrt(2 * log(1 / share)) if dimensions == 2 else -NormalDist().inv_cdf(share / 2)
    return 2 * pi * bandwidth_m / exceeded / speed_m_s
