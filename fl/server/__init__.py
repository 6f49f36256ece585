"""Server policies: when the server asks, when it merges, and what late updates are worth."""

from netsim.part import OneOf

SERVERS = OneOf(
    "server",
    places={
        "synchronous": "fl.server.synchronous:Synchronous",
        "fedbuff": "fl.server.fedbuff:FedBuff",
        "fedasync": "fl.server.fedasync:FedAsync",
    },
)
"""The server slot: when the server asks for updates, and when it merges them."""
