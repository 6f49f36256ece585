"""Attacks: estimates of the positions of UEs from the observed part of the training."""

from fl.attacks.arrival_times import ArrivalTimes
from fl.attacks.closed_form import ClosedForm
from fl.attacks.density_peak import DensityPeak
from fl.attacks.dlg import Dlg
from fl.attacks.dwell import Dwell
from fl.attacks.likelihood import Likelihood
from fl.attacks.link_rounds import LinkRounds
from fl.attacks.multi_query import MultiQuery
from fl.attacks.phase import Phase
from fl.attacks.ramp_aware import RampAware
from fl.attacks.re_identify import ReIdentify
from fl.attacks.simulated_inversion import SimulatedInversion
from fl.attacks.span import Span
from fl.attacks.tracker import Tracker
from fl.attacks.unit_votes import UnitVotes
from fl.attacks.weighted_centroid import WeightedCentroid
from netsim.part import OneOf

ATTACKS = OneOf(
    "attack",
    ClosedForm,
    Dlg,
    SimulatedInversion,
    LinkRounds,
    Tracker,
    UnitVotes,
    Span,
    Dwell,
    WeightedCentroid,
    RampAware,
    Likelihood,
    DensityPeak,
    Phase,
    MultiQuery,
    ArrivalTimes,
    ReIdentify,
)
