"""Curation: processing of a UE's local data before training."""

from fl.curation.diverse import DiverseBatch
from fl.curation.farthest import FarthestBatch
from fl.curation.gan import Gan
from fl.curation.geo_ind import GeoIndistinguishable
from fl.curation.random import RandomBatch
from netsim.part import OneOf

CURATIONS = OneOf("curation", RandomBatch, DiverseBatch, FarthestBatch, GeoIndistinguishable, Gan)
