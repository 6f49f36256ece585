"""The `learning:` section of a scenario: what is learnt, protected and attacked, and what fits
together.
"""

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
from fl.data import DATA, RECORDS_ALONE, Data
from fl.data.measured import Measured
from fl.defenses import DEFENSES, WHOLE_BOUND, Defense
from fl.leakage.leakage import Leakage
from fl.learners import LEARNERS, Learner
from fl.query import QUERIES, Off, Query
from fl.references import References
from fl.round.malicious import MALICIOUS, Malicious
from fl.server import SERVERS, Server, Synchronous
from fl.server_optimiser import LINEAR_STEP, SERVER_OPTIMISERS, ServerOptimiser
from fl.server_optimiser import FedAvgStep as FullStep
from fl.withholding import WITHHOLDINGS, DailyLimit, Withholding
from netsim.fit import refuse_broken, word
from netsim.part import Amount, Count, Named, Part, Section, Share

if TYPE_CHECKING:
    from fl.membership.membership import Membership
else:
    Membership = Any


BITS_PER_NUMBER = 32
"""of a number that is sent as it is computed"""
_WHOLE = 0.01  # by which participation times the number of cohorts may miss 1


class PrivacyBudget(Part):
    """A budget: the round that would take any UE beyond it is not played, and learning ends.

    All noise that hides one unit under one relation counts together, over all rounds, exactly where
    all UEs take part (see `fl.privacy.gaussian.GaussianFilter`), by RDP where users are sampled.
    """

    epsilon: Amount
    """what no UE may exceed"""
    delta: float | None = Field(default=None, gt=0, lt=1)
    """at this delta; none: the smallest that a mechanism states"""


class Audit(Part):
    """Canaries that test the ledger: made-up updates of one UE beside the real ones, which nothing
    of the run sees.

    A canary sends a random direction of the clip norm, or of ten times that, through all defenses,
    with the noise that was really drawn, to the receiver that the epsilon covers. What is proven of
    epsilon, at a significance of 0.001, stands in the table `audit` beside what the ledger states;
    a run in which it is larger is `violated`.
    """

    canaries: int = Field(default=1000, ge=50, le=100_000)
    """number of scores with a canary, and of as many without one; at most half the numbers of an
    update"""


class Learning(Part):
    """One federated task over the UEs, in rounds."""

    round_s: Amount
    """length of a round, from time 0 on; one of whole days ends at local midnight, also after
    clocks went forward or back"""
    rounds: int | None = Field(default=None, ge=1)
    """rounds that are played at most; none: until the world ends"""
    data: Annotated[Data, DATA] = Measured()
    """what a round learns from"""
    participation: Share = 1.0
    """share of the UEs with data that the server asks in a round, drawn again each time (C of
    FedAvg), at least one; of the free ones at the end of each window where the server has no
    rounds"""
    sampling: Literal["fixed", "poisson", "cyclic"] = "fixed"
    """how it draws them: fixed, exactly that share; poisson, a coin for each UE, which central
    noise can count on; cyclic, all UEs are divided once into 1 / participation cohorts, which are
    asked in turn"""
    cohort_rounds: Count = 1
    """windows of round_s for which it keeps those that it has drawn, so that company in sums stays
    the same; above 1 it draws from all UEs, with data or not, and of the drawn ones come those that
    can; noise then counts on no sampling"""
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
    malicious: Annotated[Malicious, MALICIOUS] | None = None
    """UEs that send what is to harm the model; none: there are none"""
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
        """Whether noise at the server hides who was in a round: then a window without data is a
        round like any other.

        A round that is played only because of one user's data would show that user. Weights are
        fixed (central noise needs that), so nothing else of the round depends on whether a UE
        responds.
        """
        return any("central noise" in d.offers for d in self.defenses)

    @property
    def hides_presence(self) -> bool:
        """Whether noise at the server is to hide whether a UE sends, and not only what: then
        neither may its own noise.

        Where UEs take turns, with `relation: add-remove`, neighbours send alike. A user whose data
        are replaced may have none afterwards.
        """
        return any(
            "central noise" in defense.offers and (self.separation == 1 or relation == "replace")
            for _, defense, _, relation in self._list_bounds()
        )

    def _list_bounds(self) -> Iterator[tuple[int, Defense, str, str]]:
        """Number of each defense, the defense, and unit and relation of the bound that it finds: a
        learner's or a clip's.
        """
        unit = "record"
        relation = "replace"
        for i, defense in enumerate(self.defenses):
            if hasattr(defense, "relation"):
                unit = "user"
                relation = defense.relation
            yield i, defense, unit, relation

    @property
    def sampling_rate(self) -> float:
        """Probability with which the server asks each UE, by a coin that noise at the server can
        count on; else 1.

        It can where it hides who came. A rule of a UE's silence that depends on who has sent before
        ties the coins of a UE in different rounds together, as a cohort does that is kept, and
        amplification adds up rounds whose coins are independent: then sampling counts nothing,
        which is safe.
        """
        independent = self.cohort_rounds == 1 and not self.by_history
        if self.sampling == "poisson" and independent and self.hides_who_came:
            return self.participation
        return 1.0

    @property
    def by_history(self) -> list[str]:
        """Kinds of the rules by which a UE is silent because of what it has sent before."""
        rules: list[Withholding | Availability | Query] = [
            *self.withholding,
            self.availability,
            self.request_policy,
        ]
        return [rule.kind_name() for rule in rules if rule.by_history]

    @property
    def separation(self) -> int:
        """Windows from one request to a UE to its next, at least."""
        if self.sampling == "cyclic":
            return round(1.0 / self.participation)
        return 1

    @property
    def uneven_turns(self) -> float:
        """The participation nearest to that of `cyclic` with which whole cohorts take turns; 0
        where they do.
        """
        k = max(self.separation, 2)
        if abs(self.participation * k - 1.0) > _WHOLE:
            return 1.0 / k
        return 0.0

    @property
    def hides_who_joins(self) -> str:
        """The first noise on a sum that hides whether a UE is in it, in words; empty: none does."""
        joins = (
            f"{defense.kind_name()} of defenses[{i}]"
            for i, defense, _, relation in self._list_bounds()
            if "spend" in defense.offers
            and not defense.noise_on_device
            and relation == "add-remove"
        )
        return next(joins, "")

    @property
    def budgets(self) -> int:
        """How many defenses draw noise by a budget that follows what all UEs sent."""
        return sum(bool(d.ties_ues) for d in self.defenses)

    @property
    def most_a_day(self) -> float:
        """Updates of a UE and a day that its rules of withholding let pass; infinite without one
        that counts them.
        """
        limits = [rule.updates for rule in self.withholding if isinstance(rule, DailyLimit)]
        return min(limits, default=inf)

    @property
    def noise_in_shares(self) -> bool:
        """Whether UEs draw shares of the noise of a secure sum: then each sum needs the shares of
        enough of them.
        """
        return any("shared noise" in d.offers for d in self.defenses)

    @property
    def audited_view(self) -> str:
        """What canaries are looked for in: the view of the receiver that the epsilon of the last
        noise covers.
        """
        if self.hides_who_came:
            return "model"
        return "aggregate" if self.noise_in_shares else "updates"

    @property
    def bits_per_number(self) -> int:
        """Bits of each number of an upload: those of the last defense that says so, or 32."""
        bits = [d.bits_per_number for d in self.defenses if d.bits_per_number is not None]
        return bits[-1] if bits else BITS_PER_NUMBER

    @property
    def on_device(self) -> list[Defense]:
        """Defenses that draw noise on the update before it leaves the UE: they promise to hold
        against the server.
        """
        return [d for d in self.defenses if d.noise_on_device]

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        self.check()
        return self

    def check(self) -> None:
        """ValueError with the reason, where parts do not fit together."""
        offered = self.collect_offers()
        for i, attack in enumerate(self.attacks):
            refuse_unmet(f"attacks[{i}]", attack, offered)

    def collect_offers(self) -> set[str]:
        """What attacks may need; ValueError with the reason, where the other parts do not fit
        together.
        """
        for slot in ("withholding", "curation", "defenses", "attacks"):
            _check_unique(slot, getattr(self, slot))
        if self.membership is not None:
            _check_unique("membership.attacks", self.membership.attacks)
        offered = set(self.data.offers)
        refuse_unmet("learner", self.learner, offered)
        refuse_unmet("request_policy", self.request_policy, set(self.learner.offers))
        offered |= self.learner.offers | {f"phase {name}" for name in self.learner.phases}
        offered |= {"single upload a round"} if len(self.learner.phases) == 1 else set()
        offered = self._apply_withholding(offered)
        for i, step in enumerate(self.curation):
            refuse_unmet(f"curation[{i}]", step, offered)
            offered = (offered - {UNTOUCHED} if step.by_place else offered) | step.offers
        if self.malicious is not None:
            refuse_unmet("malicious", self.malicious, offered)
        # the selection of records depends on all of them; a measurement may decide when its UE
        # sends, no image does
        if (
            self.curation
            or RECORDS_ALONE not in offered
            or ("positions" in offered and self.by_history)
        ):
            offered -= {"bound", "record bound"}
        for i, defense in enumerate(self.defenses):
            for before in self.defenses[:i][::-1]:
                if reason := self._explain_spoiling(defense, before):
                    raise ValueError(
                        f"defenses[{i}]: {defense.kind_name()} {reason.format(before.kind_name())}"
                    )
            partial_clips = (
                f" (the clip before it covers phase {step.bounded_phase} only: leave its phase out)"
                for step in self.defenses[:i]
                if step.bounded_phase is not None
            )
            refuse_unmet(
                f"defenses[{i}]",
                defense,
                offered | self.aggregation.offers,
                next(partial_clips, ""),
            )
            lost = set() if defense.keeps_bound else {"bound", "record bound", WHOLE_BOUND}
            offered = (offered - lost) | defense.offers
        # a server that sees only their sum cannot weigh single rows
        refuse_unmet(
            "aggregation",
            self.aggregation,
            offered | (set() if self.threat.sums_updates else {"updates"}),
        )
        refuse_unmet("server_optimiser", self.server_optimiser, offered)
        refuse_unmet("server", self.server, offered)
        self._check_relation()
        self.check_correlation(self.round_s)
        refuse_broken(self)
        # an attacker on published models sees updates through the server's optimiser, others see
        # them before it
        if self.threat.observes == "model":
            shown = self.server_optimiser.offers
            if "merged by number" in self.aggregation.offers:
                shown -= {LINEAR_STEP}
        else:
            shown = frozenset({LINEAR_STEP})
        offered |= self.threat.offers | shown
        for i, inference in enumerate(() if self.membership is None else self.membership.attacks):
            refuse_unmet(f"membership.attacks[{i}]", inference, offered)
        return offered

    def _explain_spoiling(self, step: Defense, before: Defense) -> str:
        """How a step undoes what a defense before it does, in words; empty: it does not.

        Noise that the channel's is to add to stays as it is. Shares of noise are on the update
        already, and only more noise leaves all of them in the sum. Noise at the server comes later,
        so there updates may move closer.
        """
        if before.needs_plan and not step.adds_noise_only:
            return "changes noise that the channel's is to add to; put it before {0}"
        if "shared noise" in before.offers:
            takes = "may take away some of the noise that {0} has put on updates; put it before {0}"
            return "" if step.adds_noise_only else takes
        if "central noise" not in before.offers:
            return ""
        if not step.contracts:
            return (
                "may move updates further apart after {0} has taken their bound; put it before {0}"
            )
        draws_on_device = step.noise_on_device or step.adds_noise_only
        shows = (
            "draws noise of a UE's own, so that the variance of the sum shows who sends, which "
            "{0} is to hide; put it before {0} with a clip between them, or leave it out"
        )
        return shows if draws_on_device and self.hides_presence else ""

    def _apply_withholding(self, offered: set[str]) -> set[str]:
        by_place = self.availability.by_place or "block" in getattr(self.data, "held_out_by", ())
        for i, rule in enumerate(self.withholding):
            by_place |= rule.by_place
            # whether there are any, the world says
            refuse_unmet(f"withholding[{i}]", rule, offered | {HOMES})
        if by_place and "positions" in offered:
            return offered - {RECORDS_ALONE}
        return offered | {UNTOUCHED}

    def _check_relation(self) -> None:
        """ValueError with the reason, where a pair of neighbours moves mechanisms whose costs are
        not added up.
        """
        drawn = [bound for bound in self._list_bounds() if "spend" in bound[1].offers]
        for i, defense, *group in drawn:
            if group != [*drawn[0][2:]]:
                both = [
                    f"a {unit} by relation: {relation}" for unit, relation in (group, drawn[0][2:])
                ]
                raise ValueError(
                    f"defenses[{i}]: {defense.kind_name()} hides {both[0]}, and noise before it "
                    f"{both[1]}; one user moves both, and costs add up under one relation; give "
                    "all clips the same, and put one before all noise"
                )

    def check_correlation(self, shortest_s: float) -> None:
        """ValueError with the reason, where noise that is correlated over rounds would not be what
        its account says.

        shortest_s: of all windows; where clocks go forward that of a day lasts 23 hours.
        """
        banded = word("defenses.correlation: banded").find_bearers(self)
        if (
            banded
            and self.server.has_deadline
            and self.server.get_limit_s(self.round_s) > shortest_s
        ):
            raise ValueError(
                f"{banded[0].place}: banded noise counts rounds between two requests to a UE, and "
                "a deadline beyond the shortest window lets windows pass; make server.deadline_s "
                f"at most {shortest_s:.10g}"
            )


def _check_unique(slot: str, parts: Iterable[Named]) -> None:
    labels = [p.label for p in parts]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(
                f"{slot}: {label!r} stands {labels.count(label)} times; give each a name "
                f"of its own (name: ...)"
            )


def refuse_unmet(place: str, part: Part, offered: set[str], bound: str = "") -> None:
    """Refuse a part whose needs nothing before it offers; `bound`: what to add where it needs a
    bound.
    """
    for need, reason in part.needs.items():
        if need not in offered:
            plural = any(word.endswith("s") and not word.endswith("ss") for word in need.split())
            article = "" if plural else "a "
            raise ValueError(
                f"{place}: {part.kind_name()} needs {article}{need}: "
                f"{reason}{bound if need == 'bound' else ''}"
            )
