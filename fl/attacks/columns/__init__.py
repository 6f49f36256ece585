"""Channels of what an attacker sees, as columns of numbers about places."""

from fl.attacks.columns.base import PlaceColumn
from fl.attacks.columns.filters import RowFilters
from fl.attacks.columns.spans import SpanMaps
from fl.attacks.columns.uploads import (
    ArrivalDelays,
    FloorArea,
    Losses,
    OperatorFixes,
    SendingCells,
)

COLUMNS: tuple[PlaceColumn, ...] = (
    FloorArea(),
    SendingCells(),
    ArrivalDelays(),
    Losses(),
    OperatorFixes(),
    SpanMaps(),
    RowFilters(),
)
