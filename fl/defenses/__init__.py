"""Defenses: clipping, noise and compression between a UE's update and the published model."""

from fl.defenses.adaptive_clip import AdaptiveClip
from fl.defenses.arb import Arb
from fl.defenses.central_gaussian import CentralGaussian
from fl.defenses.clip import Clip
from fl.defenses.gaussian import Gaussian
from fl.defenses.lapa import Lapa
from fl.defenses.noise_switch import NoiseSwitch
from fl.defenses.projection import Projection
from fl.defenses.quantise import Quantise
from fl.defenses.shaped_noise import EdgeNoise, GeometryAligned, UniformNoise
from fl.defenses.top_k import TopK
from fl.defenses.uniform_dp import UniformDp
from netsim.part import OneOf

DEFENSES = OneOf(
    "defense", Clip, AdaptiveClip, Gaussian, CentralGaussian, UniformNoise, GeometryAligned, EdgeNoise,
    UniformDp, Arb, Lapa, NoiseSwitch, Projection, TopK, Quantise,
)  # fmt: skip
