"""Curation: what devices do to their own data before they learn from them."""

from fl.curation.random import RandomBatch
from netsim.part import OneOf

CURATIONS = OneOf("curation", RandomBatch)
