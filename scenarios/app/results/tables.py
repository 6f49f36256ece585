"""The record tables of every kind of run: those of learning, and those of a radio study."""

from __future__ import annotations

from fl.round.tables import TABLES, Column

QUANTITIES = {
    "rsrp_dbm": "RSRP of the serving cell",
    "gain_db": "coupling gain of the serving cell: antenna gain, path loss, shadowing and penetration loss",
    "geometry_db": "received power of the serving cell over the sum of all other cells'",
    "sinr_db": "downlink SINR at full load",
    "rate_bps": "downlink rate of a UE that is given the whole band",
}
"""quantities of a radio study and their meaning"""
SHOWN = {
    "rsrp_dbm": ("RSRP", "dBm", 1.0),
    "gain_db": ("gain", "dB", 1.0),
    "geometry_db": ("geometry", "dB", 1.0),
    "sinr_db": ("SINR", "dB", 1.0),
    "rate_bps": ("rate", "Mbit/s", 1e-6),
}
"""quantity -> its name and unit in figures, and the factor to that unit"""
RADIO_STUDY = "radio"
"""the `kind` in the manifest of a run without learning"""
SELECTIONS = ("all", "indoor", "outdoor")
"""samples that a distribution is made of"""

RADIO: dict[str, dict[str, Column]] = {
    "ues": TABLES["ues"],
    "handovers": TABLES["handovers"],
    "tracks": TABLES["tracks"],
    "radio_samples": {
        "selection": Column("all, indoor or outdoor samples", type="text"),
        "count": Column("samples: one for each UE that is present at a sampling time", type="integer"),
        "ue_hours": Column("time that they stand for, summed over UEs", "h"),
        "los_percent": Column("share of samples whose serving cell is in line of sight", "%"),
    },
    "radio_cdf": {
        "quantity": Column(
            "; ".join(f"{name}: {meaning}" for name, meaning in QUANTITIES.items()), type="text"
        ),
        "selection": Column("all, indoor or outdoor samples", type="text"),
        "percent": Column("share of samples that are at most `value`, 0 to 100", "%"),
        "value": Column("quantile, in the unit that ends the name of the quantity"),
    },
    "coverage": TABLES["coverage"],
}  # fmt: skip
"""tables of a radio study"""
EVERY: dict[str, dict[str, Column]] = TABLES | RADIO
"""tables of all kinds of run"""
