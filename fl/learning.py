"""The `learning:` section of a scenario: what is learnt, protected and attacked, and what fits together."""

from collections.abc import Iterable, Iterator
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fl.aggregation import AGGREGATIONS, Aggregation, FedAvg
from fl.attacks import ATTACKS
from fl.attacks.base import Attack
from fl.attacks.threat import Threat
from fl.availability import AVAILABILITIES, HOMES, Always, Availability
from fl.curation import CURATIONS, UNTOUCHED, Curation
from fl.data import DATA, EARLIER_RECORDS, RECORDS_ALONE, Data
from fl.data.measured import Measured
from fl.defenses import DEFENSES, WHOLE_BOUND, Defense
from fl.defenses.clip import AdaptiveClip
from fl.leakage.leakage import Leakage
from fl.learners import LEARNERS, Learner
from fl.query import QUERIES, Off, Query
from fl.references import References
from fl.server import SERVERS, Server, Synchronous
from fl.server_optimiser import LINEAR_STEP, SERVER_OPTIMISERS, ServerOptimiser
from fl.server_optimiser import FedAvgStep as FullStep
from fl.withholding import WITHHOLDINGS, DailyLimit, Withholding
from netsim.part import Named, Part, Section

if TYPE_CHECKING:
    from fl.membership.membership import Membership
else:
    Membership = Any


BITS_PER_NUMBER = 32
"""of a number that is sent as it is computed"""


class PrivacyBudget(Part):
    """A budget: the round that would take any UE beyond it is not played, and learning ends.

    All noise that hides one unit under one relation counts together, over all rounds, exactly where all UEs take
    part (see `fl.privacy.gaussian.GaussianFilter`), by RDP where users are sampled.
    """

    epsilon: float = Field(gt=0, le=1e9)
    """what no UE may exceed"""
    delta: float | None = Field(default=None, gt=0, lt=1)
    """at this delta; none: the smallest that a mechanism states"""


class Audit(Part):
    """Canaries that test the ledger: made-up updates of one UE beside the real ones, which nothing of the run sees.

    A canary sends a random direction of the clip norm, or of ten times that, through all defenses, with the noise that
    was really drawn, to the receiver that the epsilon covers. What is proven of epsilon, at a significance of 0.001,
    stands in the table `audit` beside what the ledger states; a run in which it is larger is `violated`.
    """

    canaries: int = Field(default=1000, ge=50, le=100_000)
    """number of scores with a canary, and of as many without one; at most half the numbers of an update"""


class Learning(Part):
    """One federated task over the UEs, in rounds."""

    round_s: float = Field(gt=0, le=1e9)
    """length of a round, from time 0 on; one of whole days ends at local midnight, also after
    clocks went forward or back"""
    rounds: int | None = Field(default=None, ge=1)
    """rounds that are played at most; none: until the world ends"""
    data: Annotated[Data, DATA] = Measured()
    """what a round learns from"""
    participation: float = Field(default=1.0, gt=0, le=1)
    """share of the UEs with data that the server asks in a round, drawn again each time (C of FedAvg), at least one; of
    the free ones at the end of each window where the server has no rounds"""
    sampling: Literal["fixed", "poisson", "cyclic"] = "fixed"
    """how it draws them: fixed, exactly that share; poisson, a coin for each UE, which central noise can count on;
    cyclic, all UEs are divided once into 1 / participation cohorts, which are asked in turn"""
    cohort_rounds: int = Field(default=1, ge=1, le=1_000_000)
    """windows of round_s for which it keeps those that it has drawn, so that company in sums stays the same; above 1 it
    draws from all UEs, with data or not, and of the drawn ones come those that can; noise then counts on no sampling"""
    privacy_budget: PrivacyBudget | None = None
    """a privacy budget that ends learning"""
    audit: Audit | None = None
    """canaries that prove a lower bound on epsilon"""
    availability: Annotated[Availability, AVAILABILITIES] = Always()
    """UEs that may be asked: always, or only while they charge, are at home, ..."""
    request_policy: Annotated[Query, QUERIES] = Off()
    """every UE's own policy about requests"""
    withholding: tuple[Annotated[Withholding, WITHHOLDINGS], ...] = ()
    """what devices hold back by themselves, each rule beside the others"""
    learner: Annotated[Learner, LEARNERS]
    """what is learnt"""
    curation: tuple[Annotated[Curation, CURATIONS], ...] = ()
    """what devices do to their data first, in order"""
    defenses: tuple[Annotated[Defense, DEFENSES], ...] = ()
    """what stands between an update and the server, in order"""
    aggregation: Annotated[Aggregation, AGGREGATIONS] = FedAvg()
    """how the server merges"""
    server: Annotated[Server, SERVERS] = Synchronous()
    """when the server asks and merges: in rounds, or whenever updates have come"""
    server_optimiser: Annotated[ServerOptimiser, SERVER_OPTIMISERS] = FullStep()
    """how the global models move along what was merged"""
    threat: Threat = Field(default_factory=Threat)
    """who attacks and what they see"""
    attacks: tuple[Annotated[Attack, ATTACKS], ...] = ()
    """what they try"""
    membership: Annotated[Membership, Section("fl.membership.membership:Membership")] | None = None
    """attacks that distinguish records that were learnt from, from others"""
    leakage: Leakage = Leakage()
    """how leakage is measured"""
    references: References = References()
    """maps that a final signal map is compared with"""

    @property
    def hides_who_came(self) -> bool:
        """Whether noise at the server hides who was in a round: then a window without data is a round like any other.

        A round that is played only because of one user's data would show that user. Weights are fixed (central noise
        needs that), so nothing else of the round depends on whether a UE responds.
        """
        return any("central noise" in d.offers for d in self.defenses)

    @property
    def hides_presence(self) -> bool:
        """Whether noise at the server is to hide whether a UE sends, and not only what: then neither may its own noise.

        Where UEs take turns, with `relation: add-remove`, neighbours send alike. A user whose data are replaced may
        have none afterwards.
        """
        relations = [relation for _, defense, _, relation in self._bounds() if "central noise" in defense.offers]
        return any(self.separation == 1 or relation == "replace" for relation in relations)

    def _bounds(self) -> Iterator[tuple[int, Defense, str, str]]:
        """Number of each defense, the defense, and unit and relation of the bound that it finds: a learner's or a
        clip's.
        """
        unit, relation = "record", "replace"
        for i, defense in enumerate(self.defenses):
            if hasattr(defense, "relation"):
                unit, relation = "user", defense.relation
            yield i, defense, unit, relation

    @property
    def sampling_rate(self) -> float:
        """Probability with which the server asks each UE, by a coin that noise at the server can count on; else 1.

        It can where it hides who came. A rule of a UE's silence that depends on who has sent before ties the coins of a
        UE in different rounds together, as a cohort does that is kept, and amplification adds up rounds whose coins are
        independent: then sampling counts nothing, which is safe.
        """
        independent = self.cohort_rounds == 1 and not self.by_history
        return self.participation if self.sampling == "poisson" and independent and self.hides_who_came else 1.0

    @property
    def by_history(self) -> list[str]:
        """Kinds of the rules by which a UE is silent because of what it has sent before."""
        rules: list[Withholding | Availability | Query] = [*self.withholding, self.availability, self.request_policy]
        return [rule.kind_name() for rule in rules if rule.by_history]

    @property
    def separation(self) -> int:
        """Windows from one request to a UE to its next, at least."""
        return round(1.0 / self.participation) if self.sampling == "cyclic" else 1

    @property
    def noise_in_shares(self) -> bool:
        """Whether UEs draw shares of the noise of a secure sum: then each sum needs the shares of enough of them."""
        return any("shared noise" in d.offers for d in self.defenses)

    @property
    def audited_view(self) -> str:
        """What canaries are looked for in: the view of the receiver that the epsilon of the last noise covers."""
        return "model" if self.hides_who_came else "aggregate" if self.noise_in_shares else "updates"

    @property
    def bits_per_number(self) -> int:
        """Bits of each number of an upload: those of the last defense that says so, or 32."""
        said = [d.bits_per_number for d in self.defenses if d.bits_per_number is not None]
        return said[-1] if said else BITS_PER_NUMBER

    @property
    def on_device(self) -> list[Defense]:
        """Defenses that draw noise on the update before it leaves the UE: they promise to hold against the server."""
        return [d for d in self.defenses if d.noise_on_device]

    @model_validator(mode="after")
    def _refused_unless_it_fits(self) -> Self:
        self.check()
        return self

    def check(self) -> None:
        """ValueError with the reason, where parts do not fit together."""
        for slot in ("withholding", "curation", "defenses", "attacks"):
            _unique(slot, getattr(self, slot))
        offered = set(self.data.offers)
        _meets("learner", self.learner, offered)
        _meets("request_policy", self.request_policy, set(self.learner.offers))
        offered |= self.learner.offers | {f"phase {name}" for name in self.learner.phases}
        offered |= {"single upload a round"} if len(self.learner.phases) == 1 else set()
        offered = self._after_withholding(offered)
        for i, step in enumerate(self.curation):
            _meets(f"curation[{i}]", step, offered)
            offered = (offered - {UNTOUCHED} if step.by_place else offered) | step.offers
        # the selection of records depends on all of them; a measurement may decide when its UE sends, no image does
        if self.curation or RECORDS_ALONE not in offered or ("positions" in offered and self.by_history):
            offered -= {"bound", "record bound"}
        hiding = None
        for i, defense in enumerate(self.defenses):
            if hiding is not None and (reason := self._spoils(defense, hiding)):
                raise ValueError(f"defenses[{i}]: {defense.kind_name()} {reason.format(hiding.kind_name())}")
            hiding = defense if {"central noise", "shared noise"} & defense.offers else hiding
            _meets(f"defenses[{i}]", defense, offered | self.aggregation.offers, _partly(self.defenses[:i]))
            lost = set() if defense.keeps_bound else {"bound", "record bound", WHOLE_BOUND}
            offered = (offered - lost) | defense.offers
        if self.privacy_budget is not None and "spend" not in offered:
            raise ValueError(
                "privacy_budget: nothing here spends a budget; put a defense that draws noise, or leave it out"
            )
        if self.audit is not None and not any("spend" in d.offers and "bound" not in d.offers for d in self.defenses):
            raise ValueError(
                "audit: no noise here has an epsilon that canaries could test; put some, or leave audit out"
            )
        if self.audit is not None and self.noise_in_shares and not self.server.in_rounds:
            raise ValueError("audit: canaries in secure sums need rounds; take server: {kind: synchronous}")
        share = self.aggregation.expected_participation
        if share is not None and share != self.participation:
            raise ValueError(
                f"aggregation: {self.aggregation.kind_name()} counts on a participation of {share:g}, the server asks "
                f"{self.participation:g} of the UEs; give both the same"
            )
        # a server that sees only their sum cannot weigh single rows
        _meets("aggregation", self.aggregation, offered | (set() if self.threat.sums_updates else {"updates"}))
        _meets("server_optimiser", self.server_optimiser, offered)
        _meets("server", self.server, offered)
        self._fits_company()
        self._fits_one_relation()
        self._fits_without_rounds()
        self._fits_noise_at_server()
        self._fits_shares()
        self._fits_turns()
        self._fits_channel()
        self.check_correlation(self.round_s)
        self._fits_days()
        # an attacker on published models sees updates through the server's optimiser, others see them before it
        shown = self.server_optimiser.offers if self.threat.observes == "model" else frozenset({LINEAR_STEP})
        self._fits_membership(offered | self.threat.offers | shown)
        for i, attack in enumerate(self.attacks):
            _meets(f"attacks[{i}]", attack, offered | self.threat.offers | shown)

    def _spoils(self, step: Defense, hiding: Defense) -> str:
        """How a step after a defense whose noise is in the sum undoes what that hides, in words; empty: it does not.

        Shares of noise are on the update already, and only more noise leaves all of them in the sum. Noise at the
        server comes later, so there updates may move closer.
        """
        if "shared noise" in hiding.offers:
            takes = "may take away some of the noise that {0} has put on updates; put it before {0}"
            return "" if step.adds_noise_only else takes
        if not step.contracts:
            return "may move updates further apart after {0} has taken their bound; put it before {0}"
        own = step.noise_on_device or step.adds_noise_only
        shows = (
            "draws noise of a UE's own, so that the variance of the sum shows who sends, which {0} is to hide; put it "
            "before {0} with a clip between them, or leave it out"
        )
        return shows if own and self.hides_presence else ""

    def _after_withholding(self, offered: set[str]) -> set[str]:
        by_place = self.availability.by_place or "block" in getattr(self.data, "held_out_by", ())
        for i, rule in enumerate(self.withholding):
            by_place |= rule.by_place
            _meets(f"withholding[{i}]", rule, offered | {HOMES})  # whether there are any, the world says
            if rule.waits_for_a_cell and EARLIER_RECORDS not in offered:
                raise ValueError(
                    f"withholding[{i}]: {rule.kind_name()} with defer_upload sends later what was measured before, and "
                    "these data keep no earlier records; set data.memory to all or a number, or leave defer_upload out"
                )
            if rule.by_place and self.learner.wants_sampled_places:
                raise ValueError(
                    f"withholding[{i}]: {rule.kind_name()} holds places back, and {self.learner.kind_name()} here has "
                    "those of the first round published for its bandwidths; give it bandwidths of its own"
                )
        return offered - {RECORDS_ALONE} if by_place and "positions" in offered else offered | {UNTOUCHED}

    def _fits_membership(self, offered: set[str]) -> None:
        """ValueError with the reason, where records cannot be asked about, or nothing says what training adds."""
        if self.membership is None:
            return
        _unique("membership.attacks", self.membership.attacks)
        if getattr(self.data, "hold_out", None) == 0:
            raise ValueError("membership: with data.hold_out: 0 no record is no member's; hold out a share, as 0.2")
        for i, inference in enumerate(self.membership.attacks):
            _meets(f"membership.attacks[{i}]", inference, offered)
            if self.data.holds_out_wholes and not inference.has_score_before:
                raise ValueError(
                    f"membership.attacks[{i}]: {inference.label} compares with other models than those before "
                    "training, and records held out by session, day or block differ by place or time alone; take "
                    "loss-threshold without reference_model, or hold out by sample"
                )
        if self.threat.observes != "model" and not self.threat.knows_weights:
            raise ValueError(
                "membership: the model of a device is what it started from plus its update; let the threat know "
                "weights, or see the model"
            )

    def _fits_noise_at_server(self) -> None:
        """ValueError with the reason, where one UE moves updates of others in or out of a sum with noise at the server.

        It hides one update. Dependence on the radio is refused or stated elsewhere (`Study`, `fl.round.caveats`).
        """
        for i, defense, _, relation in self._bounds():
            fixed = self.sampling == "fixed" and self.participation < 1
            if defense.noise_at_server and relation == "add-remove" and fixed:
                raise ValueError(
                    f"sampling: in a fixed share of the UEs one that comes takes the place of another, and "
                    f"{defense.kind_name()} of defenses[{i}] with relation: add-remove hides one of them only; take "
                    "sampling: poisson, or relation: replace"
                )
        if not self.hides_who_came:
            return
        if isinstance(self.server, Synchronous) and self.server.merge_after_updates is not None:
            raise ValueError(
                "server.merge_after_updates: a UE that is early takes the place of others among the first, and noise "
                "at the server hides one update only; leave merge_after_updates out, and set deadline_s"
            )
        self._hides_one("noise at the server")
        if self.threat.secagg_threshold is not None:
            raise ValueError(
                "threat.secagg_threshold: one UE may decide whether its whole group is merged, and noise at "
                "the server hides one update only; leave secagg_threshold out"
            )

    def _fits_one_relation(self) -> None:
        """ValueError with the reason, where a pair of neighbours moves mechanisms whose costs are not added up."""
        drawn = [each for each in self._bounds() if "spend" in each[1].offers]
        for i, defense, *group in drawn:
            if group != [*drawn[0][2:]]:
                both = [f"a {unit} by relation: {relation}" for unit, relation in (group, drawn[0][2:])]
                raise ValueError(
                    f"defenses[{i}]: {defense.kind_name()} hides {both[0]}, and noise before it {both[1]}; one user "
                    "moves both, and costs add up under one relation; give all clips the same, and put one before all "
                    "noise"
                )

    def _fits_shares(self) -> None:
        """ValueError with the reason, where a secure sum may hold fewer shares of noise than it needs, or others."""
        server = self.server
        shared = next((i for i, d in enumerate(self.defenses) if "shared noise" in d.offers), None)
        counts_in_shares = any(getattr(d, "noise", "") == "shares" for d in self.defenses)
        if shared is None:
            if counts_in_shares:
                raise ValueError(
                    "defenses: shares of noise on the count of an adaptive-clip need shares on the updates; add "
                    "{kind: distributed-gaussian} after it, or take noise: server"
                )
            return
        name = f"defenses[{shared}]: {self.defenses[shared].kind_name()}"
        least = self.threat.secagg_threshold
        if least is None:
            raise ValueError(
                f"{name} divides noise among the UEs of a secure sum, and nothing says how many there are at least; "
                "give threat: {observes: aggregate, secagg_threshold: ...}"
            )
        if any("central noise" in d.offers for d in self.defenses):
            raise ValueError(f"{name}: noise at the server beside it hides from readers alone; leave one of them out")
        if server.waits_for is not None and server.waits_for < least:
            raise ValueError(
                f"{name}: the server merges {server.waits_for} updates at a time, and a sum of fewer than {least} is "
                "not opened; take more, or a smaller threat.secagg_threshold"
            )
        if not server.in_rounds and getattr(server, "staleness_exponent", 0) != 0:
            raise ValueError(
                f"{name}: weights that fall with staleness weaken the shares of others in the sum; set "
                "server.staleness_exponent to 0"
            )
        ring = "whole numbers" in self.defenses[shared].offers
        if ring and self.threat.secagg_group_size is not None:
            raise ValueError(
                f"threat.secagg_group_size: {name} has one ring for all updates of a round; leave it out, or "
                "take distributed-gaussian"
            )
        if ring and counts_in_shares:
            raise ValueError(
                f"{name}: the count of an adaptive-clip with noise: shares is no whole number, and the ring holds no "
                "other; take clip, or distributed-gaussian"
            )
        self._hides_one("noise in shares")

    def _fits_channel(self) -> None:
        """ValueError with the reason, where noise that the channel's is to add to is changed before it gets there."""
        planned = ""
        for i, defense in enumerate(self.defenses):
            if planned and not defense.adds_noise_only:
                raise ValueError(
                    f"defenses[{i}]: {defense.kind_name()} changes noise that the channel's is to add to; put it "
                    f"before {planned}"
                )
            planned = defense.kind_name() if defense.needs_plan else planned

    def _hides_one(self, noise: str) -> None:
        """ValueError with the reason, where what UEs send hangs on others, beside noise that hides one of them."""
        parts = {"data": self.data} | {f"defenses[{i}]": defense for i, defense in enumerate(self.defenses)}
        for place, part in parts.items():
            if part.ties_ues:
                raise ValueError(f"{place}: {noise} hides one UE only, and {part.ties_ues}")

    def check_correlation(self, shortest_s: float) -> None:
        """ValueError with the reason, where noise that is correlated over rounds would not be what its account says.

        shortest_s: of all windows; where clocks go forward that of a day lasts 23 hours.
        """
        banded = next((i for i, d in enumerate(self.defenses) if getattr(d, "correlation", "none") == "banded"), None)
        if banded is None:
            return
        name = f"defenses[{banded}]: banded noise"
        if any(isinstance(d, AdaptiveClip) for d in self.defenses):
            raise ValueError(f"{name} needs one clip norm for all rounds, and adaptive-clip moves it; take clip")
        if self.server.has_deadline and self.server.limit_s(self.round_s) > shortest_s:
            raise ValueError(
                f"{name} counts rounds between two requests to a UE, and a deadline beyond the shortest window lets "
                f"windows pass; make server.deadline_s at most {shortest_s:.10g}"
            )

    def _fits_turns(self) -> None:
        """ValueError with the reason, where cohorts cannot take turns."""
        if self.sampling != "cyclic":
            return
        k = self.separation
        if k < 2 or abs(self.participation * k - 1.0) > 0.01:
            near = f"{1.0 / max(k, 2):.6g}"
            raise ValueError(
                f"participation: {self.participation:g} is not one over a whole number from 2, and with sampling: "
                f"cyclic so many cohorts take turns; take {near}"
            )
        if self.cohort_rounds > 1:
            raise ValueError("cohort_rounds: with sampling: cyclic cohorts take turns; leave it out")

    def _fits_days(self) -> None:
        """ValueError with the reason, where noise counts on fewer updates a day than UEs may send."""
        limit = min((rule.updates for rule in self.withholding if isinstance(rule, DailyLimit)), default=inf)
        for i, defense in enumerate(self.defenses):
            most = defense.most_updates_a_day
            if most is not None and limit > most:
                raise ValueError(
                    f"defenses[{i}]: {defense.kind_name()} counts on {most} updates of a UE a day, and "
                    f"{'nothing holds more of them back' if limit == inf else f'up to {limit} may be sent'}; put "
                    f"{{kind: daily-limit, updates: {most}}} into withholding"
                )

    def _fits_company(self) -> None:
        """ValueError with the reason, where company that is to stay the same cannot."""
        if self.cohort_rounds > 1 and self.participation == 1:
            raise ValueError(
                f"cohort_rounds: with participation 1 all UEs are asked, and there is no cohort to keep for "
                f"{self.cohort_rounds} rounds; leave it out, or take participation below 1"
            )
        if self.server.in_rounds:
            return
        kind = self.server.kind_name()
        if self.cohort_rounds > 1:
            raise ValueError(
                f"cohort_rounds: server {kind} merges the first updates, so company changes from merge to merge, got "
                f"{self.cohort_rounds}; leave it out, or take server: {{kind: synchronous}}"
            )
        if self.threat.groups == "fixed" and self.threat.secagg_threshold is None:
            raise ValueError(
                f"threat.groups: server {kind} merges the first updates, of a fixed group often one UE, whose update "
                f"is then the sum; give secagg_threshold (2 to {self.threat.secagg_group_size}), take groups: random, "
                "or server: "
                "{kind: synchronous}"
            )

    def _fits_without_rounds(self) -> None:
        """ValueError with the reason, where a part counts on rounds and the server has none."""
        kind = self.server.kind_name()
        if self.server.in_rounds:
            return
        for i, defense in enumerate(self.defenses):
            if defense.needs_rounds:
                raise ValueError(
                    f"defenses[{i}]: {defense.kind_name()} needs rounds, and server {kind} has none: "
                    f"{defense.needs_rounds}; take server: {{kind: synchronous}}"
                )
        if self.membership is not None:
            raise ValueError(
                f"membership: it is tested in rounds, and server {kind} has none; take server: {{kind: synchronous}}"
            )


def _unique(slot: str, parts: Iterable[Named]) -> None:
    labels = [p.label for p in parts]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(
                f"{slot}: {label!r} stands {labels.count(label)} times; give each a name of its own (name: ...)"
            )


def _partly(before: tuple[Defense, ...]) -> str:
    """Gap of a clip that covers one phase, in words; empty where there is none."""
    for step in before:
        if step.bounded_phase is not None:
            return f" (the clip before it covers phase {step.bounded_phase} only: leave its phase out)"
    return ""


def _meets(place: str, part: Part, offered: set[str], bound: str = "") -> None:
    """Refuse a part whose needs nothing before it offers; `bound`: what to add where it needs a bound."""
    for need, reason in part.needs.items():
        if need not in offered:
            plural = any(word.endswith("s") and not word.endswith("ss") for word in need.split())
            article = "" if plural else "a "
            raise ValueError(
                f"{place}: {part.kind_name()} needs {article}{need}: {reason}{bound if need == 'bound' else ''}"
            )
