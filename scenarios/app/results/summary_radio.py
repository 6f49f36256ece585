"""The summary of a radio study, computed from the run folder's tables alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.folder import read_table
from scenarios.app.results.summary_keys import check_declared

_STATISTICS = {5.0: "q05", 50.0: "median", 95.0: "q95"}


def radio_summary(folder: Path, handover: bool) -> dict[str, Any]:
    """All values of a radio study by key; handover: whether it is modelled."""
    samples, cdf = read_table(folder, "radio_samples"), read_table(folder, "radio_cdf")
    count, los_percent, ue_hours = (
        dict(zip(samples["selection"].tolist(), samples[name].tolist(), strict=True))
        for name in ("count", "los_percent", "ue_hours")
    )
    n, moves = count["all"], len(read_table(folder, "handovers")["ue"]) if handover else None
    values: dict[str, Any] = {
        keys.UES_COUNT.of(): len(read_table(folder, "ues")["ue"]),
        keys.RADIO_SAMPLES.of(): int(n),
        keys.RADIO_UE_HOURS.of(): ue_hours["all"],
        keys.RADIO_INDOOR.of(): 100.0 * count["indoor"] / n if n else float("nan"),
        keys.RADIO_LOS.of(): los_percent["all"],
        keys.HANDOVER_COUNT.of(): moves,
        keys.HANDOVER_RATE.of(): None if moves is None or not n else moves / ue_hours["all"],
    }
    wanted = np.isin(cdf["percent"], list(_STATISTICS))
    columns = [cdf[name][wanted].tolist() for name in ("quantity", "selection", "percent", "value")]
    for quantity, selection, percent, value in zip(*columns, strict=True):
        of = "" if selection == "all" else f"{selection}."
        values[f"radio.{quantity}.{of}{_STATISTICS[percent]}"] = value
    check_declared(values)
    return values
