"""Attacks: estimates of the positions of UEs from the observed part of the training."""

from netsim.part import OneOf

ATTACKS = OneOf(
    "attack",
    places={
        "closed-form": "fl.attacks.closed_form:ClosedForm",
        "dlg": "fl.attacks.dlg:Dlg",
        "tracker": "fl.attacks.tracker:Tracker",
        "neuron-votes": "fl.attacks.place_maps:NeuronVotes",
        "span": "fl.attacks.span:Span",
        "dwell": "fl.attacks.dwell:Dwell",
        "weighted-centroid": "fl.attacks.grid_updates:WeightedCentroid",
        "link-filter": "fl.attacks.grid_updates:LinkFilter",
        "density-peak": "fl.attacks.surfaces:DensityPeak",
        "posterior": "fl.attacks.surfaces:Posterior",
        "arrival-times": "fl.attacks.arrival_times:ArrivalTimes",
        "link-maps": "fl.attacks.link_maps:LinkMaps",
        "network-positioning": "fl.attacks.network_positioning:NetworkPositioning",
        "fused": "fl.attacks.columns.fused:Fused",
        "re-identify": "fl.attacks.re_identify:ReIdentify",
    },
)
