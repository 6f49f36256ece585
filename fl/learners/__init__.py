"""Learners: what is learnt, and how data become updates."""

from netsim.part import OneOf

LEARNERS = OneOf(
    "learner",
    places={
        "rsrp-net": "fl.learners.rsrp_net:RsrpNet",
        "radio-map": "fl.learners.radio_map:RadioMap",
        "density": "fl.learners.density:Density",
        "image-net": "fl.learners.image_net:ImageNet",
    },
)
