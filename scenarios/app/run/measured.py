"""Measured distributions beside those of a radio study."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.errors import BadInput
from netsim.traces.source import read_table
from netsim.units import FloatArray

_BOUNDS = {"rsrp_dbm": (-160.0, -20.0), "sinr_db": (-60.0, 80.0), "cdf": (0.0, 1.0)}


@dataclass(frozen=True, eq=False)
class MeasuredCdf:
    """Values (n,), ascending, and the shares (n,) of samples up to them, as a line; None: they are the samples."""

    value: FloatArray
    share: FloatArray | None

    def quantiles(self, share: FloatArray) -> FloatArray:
        """Quantiles (p,) at shares (p,) in [0, 1]."""
        return np.quantile(self.value, share) if self.share is None else np.interp(share, self.share, self.value)

    def distance(self, samples: FloatArray) -> float:
        """Largest vertical distance between the distributions of these and of samples (m,) [Kolmogorov-Smirnov]."""
        from scipy.stats import ks_1samp, ks_2samp

        if self.share is None:
            return float(ks_2samp(samples, self.value, method="asymp").statistic)
        return float(ks_1samp(samples, lambda x: np.interp(x, self.value, self.share, 0.0, 1.0)).statistic)


def read_measured(file: str) -> dict[str, MeasuredCdf]:
    """The distributions of a CSV by quantity: columns rsrp_dbm and sinr_db of samples, or one of them and cdf.

    Raises BadInput with one line.
    """
    table = read_table(file, _BOUNDS)
    names = [name for name in table if name != "cdf" and table[name].notna().any()]
    if not names or ("cdf" in table and len(names) > 1):
        raise BadInput(f"{file}: measured: it needs a column rsrp_dbm or sinr_db of samples, or one of them and cdf")
    if "cdf" not in table:
        return {name: MeasuredCdf(np.sort(table[name].dropna().to_numpy()), None) for name in names}
    value, share = table.dropna().sort_values(names[0])[[names[0], "cdf"]].to_numpy().T
    if (np.diff(share) < 0).any() or not share[0] <= 0.5 <= share[-1]:
        raise BadInput(f"{file}: measured: cdf must grow with {names[0]}, and pass 0.5")
    return {names[0]: MeasuredCdf(value, share)}
