"""Queries: which of the server's requests a UE answers."""

from fl.query.base import Off, Query
from fl.query.policies import Custom, Strict
from netsim.part import OneOf

__all__ = ["QUERIES", "Custom", "Off", "Query", "Strict"]

QUERIES = OneOf("query", Off, Strict, Custom)
