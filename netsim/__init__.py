"""The world: city, UEs, base stations, radio, time.

The lowest layer: nothing here depends on learning, attacks or scenarios, and `fl`, `rl` and
`scenarios` import it. Importing the package itself imports no other module.
"""

__version__ = "1.0.0"
