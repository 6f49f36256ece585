"""Curation: processing of a UE's local data before training."""

from netsim.part import OneOf

CURATIONS = OneOf(
    "curation",
    places={
        "random": "fl.curation.random:RandomBatch",
        "diverse-batch": "fl.curation.diverse:DiverseBatch",
        "farthest-batch": "fl.curation.farthest:FarthestBatch",
        "geo-indistinguishable": "fl.curation.geo_ind:GeoIndistinguishable",
        "gan": "fl.curation.gan:Gan",
    },
)
