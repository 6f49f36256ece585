"""The world: city, UEs, base stations, radio, time.

The ground floor of the house. Nothing here knows about learning, attacks or scenarios; `fl`, `rl` and
`scenarios` stand on it. Importing this package costs nothing: each module imports what it needs.
"""

__version__ = "0.1.0"
