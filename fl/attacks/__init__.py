"""Attacks: estimates of the positions of UEs from the observed part of the training."""

from netsim.part import OneOf

ATTACKS = OneOf(
    "attack",
    places={
        "closed-form": "fl.attacks.closed_form:ClosedForm",
        "dlg": "fl.attacks.dlg:Dlg",
        "simulated-inversion": "fl.attacks.simulated_inversion:SimulatedInversion",
        "link-rounds": "fl.attacks.link_rounds:LinkRounds",
        "tracker": "fl.attacks.tracker:Tracker",
        "unit-votes": "fl.attacks.unit_votes:UnitVotes",
        "span": "fl.attacks.span:Span",
        "dwell": "fl.attacks.dwell:Dwell",
        "weighted-centroid": "fl.attacks.weighted_centroid:WeightedCentroid",
        "link-filter": "fl.attacks.link_filter:LinkFilter",
        "density-peak": "fl.attacks.density_peak:DensityPeak",
        "posterior": "fl.attacks.posterior:Posterior",
        "arrival-times": "fl.attacks.arrival_times:ArrivalTimes",
        "re-identify": "fl.attacks.re_identify:ReIdentify",
    },
)
