"""Defenses: clipping, noise and compression between a UE's update and the published model."""

from netsim.part import OneOf

DEFENSES = OneOf(
    "defense",
    places={
        "clip": "fl.defenses.clip:Clip",
        "adaptive-clip": "fl.defenses.adaptive_clip:AdaptiveClip",
        "gaussian": "fl.defenses.gaussian:Gaussian",
        "central-gaussian": "fl.defenses.central_gaussian:CentralGaussian",
        "uniform-noise": "fl.defenses.shaped_noise:UniformNoise",
        "geometry-aligned": "fl.defenses.shaped_noise:GeometryAligned",
        "edge-noise": "fl.defenses.shaped_noise:EdgeNoise",
        "uniform-dp": "fl.defenses.uniform_dp:UniformDp",
        "arb": "fl.defenses.arb:Arb",
        "lapa": "fl.defenses.lapa:Lapa",
        "noise-switch": "fl.defenses.noise_switch:NoiseSwitch",
        "projection": "fl.defenses.projection:Projection",
        "top-k": "fl.defenses.top_k:TopK",
        "quantise": "fl.defenses.quantise:Quantise",
    },
)
