"""Query policies: which requests of the server a UE answers."""

from netsim.part import OneOf

QUERIES = OneOf(
    "query",
    places={
        "off": "fl.query.base:Off",
        "strict": "fl.query.policies:Strict",
        "custom": "fl.query.policies:Custom",
    },
)
