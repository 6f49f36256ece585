"""Server policies: when the server asks, when it merges, and what late updates are worth."""

from fl.server.fedasync import FedAsync
from fl.server.fedbuff import FedBuff
from fl.server.synchronous import Synchronous
from netsim.part import OneOf

SERVERS = OneOf("server", Synchronous, FedBuff, FedAsync)
"""The server slot: when the server asks for updates, and when it merges them."""
