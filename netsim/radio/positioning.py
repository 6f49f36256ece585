r"""What a network measures of a UE's place: cell, timing advance, angle of arrival, levels.

Enhanced cell identity [3GPP TS 36.305, Section 8.3; TS 38.305, Sections 8.9 and 8.14]. With d the
distance in space from the serving base station and e the excess of a path without line of sight,

    timing advance = step round((d + e) / step)
    log10 (e / 9.5 m) ~ N(0, 0.4^2)                     [TR 38.901 V17.0.0, Table 7.6.9-1]
    angle of arrival = azimuth + N(0, std^2).

In sight the error of an angle is the receiver's, new at every connection. Without sight it is that
of reflections, as e is: drawn once for each cell and square of 11 m, the decorrelation distance of
angles indoors [TR 38.901, Table 7.5-6, UMa O2I ASD].
"""

from pydantic import Field

from netsim.columns import Columns, frozen
from netsim.part import Part
from netsim.units import FloatArray, IntArray

EXCESS_MEAN_M = 14.5
"""mean of e"""
EXCESS_STD_M = 16.8
"""its standard deviation"""
EXCESS_MEDIAN_M = 9.5
"""its median"""
EXCESS_DECADES = 0.4
"""standard deviation of log10 e"""
SQUARE_M = 11.0
"""side of squares in which reflections stay the same"""
N_LEVELS = 3
"""strongest sites whose levels a UE reports"""


@frozen
class NetworkFixes(Columns):
    """Measurements of UEs (n,) at one time each; NaN where there is none.

    cell (n,) serves, -1 for none; path_m (n,) is the distance in space that its timing advance
    tells; azimuth_deg (n,) that of the UE seen from it, clockwise from north; level_dbm (n, n_cell)
    are RSRP of the strongest cells of the three strongest sites, in whole dB.
    """

    cell: IntArray
    path_m: FloatArray
    azimuth_deg: FloatArray
    level_dbm: FloatArray


class Positioning(Part):
    """How well base stations measure where a UE is, from the connection over which it sends.

    A step of timing advance is 16 * 64 T_c c / 2 / 2^mu of distance with T_c = 1 / (480 kHz *
    4096), and mu the numerology [TS 38.213, Section 4.2]: 78.07 m at 15 kHz, 39.04 m at 30 kHz.

    Angles are those of beams of N columns of antennas, of half-power width 101.5 deg / N [Van
    Trees, Optimum Array Processing, 2002, Section 2.4.1], and as likely anywhere in a beam: 29.3
    deg / N. Without line of sight the spread of angles at the base station adds to it, 10^(1.5 -
    0.1144 log10 f) deg, f in GHz and at least 6: 25.8 deg [TR 38.901 V17.0.0, Table 7.5-6, UMa NLOS
    ASD]. Defaults are those of four columns.
    """

    timing_step_m: float = Field(78.07, ge=0, le=1e4)
    """step of the distance that a timing advance tells, m; 0: exact"""
    angle_los_deg: float = Field(7.3, ge=0, le=180)
    """error of an angle of arrival in line of sight, standard deviation, degrees; 0: exact"""
    angle_nlos_deg: float = Field(26.8, ge=0, le=180)
    """the same without line of sight"""

    reference = "3GPP TS 38.305, Sections 8.9 and 8.14; TR 38.901 V17.0.0, Tables 7.5-6 and 7.6.9-1"
