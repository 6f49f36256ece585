"""The `references:` section of `learning`: maps without federated learning, with which a final map is compared."""

from pydantic import Field

from netsim.part import Part


class References(Part):
    """Maps of the same training samples, drawn once at the end of a run that learns signals.

    They know all samples, as a server would to which every UE sent its data. A network like the one that was learnt is
    trained on all samples in one place: what federated learning costs is the ratio of the two errors.
    """

    neighbours: int | None = Field(default=25, ge=1, le=10_000)
    """neighbours of a nearest-neighbour map (mean weighted by inverse distance); none: no such map"""
    path_loss: bool = True
    """fit a law of three numbers to each model: log-distance to the nearest of its base stations, and an offset inside
    buildings; an unknown antenna of one cell is found by least squares"""
    kriging_samples: int = Field(default=1000, ge=0, le=5000)
    """samples of a model that kriging uses at most, evenly thinned (20,000 over all models); 0: no kriging"""
    central: bool = True
    """train the learner's network on the samples of all UEs together, with Adam"""
    central_epochs: int = Field(default=20, ge=1, le=1000)
    """passes of central training"""
    central_samples: int = Field(default=20_000, ge=1, le=10_000_000)
    """training samples of a model that it uses at most, evenly thinned (three times as many over all models)"""


def thinned(count: int, most: int) -> slice | list[int]:
    """Which of `count` samples to keep: all, or a bounded number evenly spaced in their order."""
    if count <= most:
        return slice(None)
    return [i * count // most for i in range(most)]
