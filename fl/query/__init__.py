"""Query policies: which requests of the server a UE answers."""

from fl.query.base import Off, Query
from fl.query.policies import Custom, Strict
from netsim.part import OneOf

__all__ = ["QUERIES", "Custom", "Off", "Query", "Strict"]

QUERIES = OneOf("query", Off, Strict, Custom)
