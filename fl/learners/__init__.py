"""Learners: what is learnt, and how data become updates."""

from fl.learners.density import Density
from fl.learners.image_net import ImageNet
from fl.learners.radio_map import RadioMap
from fl.learners.rsrp_net import RsrpNet
from netsim.part import OneOf

LEARNERS = OneOf("learner", RsrpNet, RadioMap, Density, ImageNet)
