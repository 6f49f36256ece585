"""Even and odd parts of maps along y, and maps from these, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.compiled import compiled

Numbers = npt.NDArray[np.float32]


@compiled
def folded(p: Numbers) -> Numbers:
    """(n, 2, h, nx) of maps (n, ny, nx): sums and differences of rows from both ends."""
    n, ny, nx = p.shape
    h = (ny + 1) // 2
    out = np.empty((n, 2, h, nx), np.float32)
    for u in range(n):
        for r in range(h):
            one, other, even, odd = p[u, r], p[u, ny - 1 - r], out[u, 0, r], out[u, 1, r]
            for c in range(nx):
                even[c] = one[c] + other[c]
                odd[c] = one[c] - other[c]
        if ny % 2:
            middle, even, odd = p[u, h - 1], out[u, 0, h - 1], out[u, 1, h - 1]
            for c in range(nx):
                even[c] = middle[c]
                odd[c] = 0.0
    return out


@compiled
def unfolded(q: Numbers, p: Numbers, stay: Numbers, jump: Numbers, target: Numbers) -> Numbers:
    """max(m_u + stay_u p_u + jump_u target_u, 0), with m of which q (n, 2, h, nx) are even and odd parts, for maps
    (n, ny, nx); one target may serve all.
    """
    n, ny, nx = p.shape
    out = np.empty_like(p)
    for u in range(n):
        w, j, ends = stay[u], jump[u], target[u if len(target) > 1 else 0]
        for r in range(ny):
            far = r >= q.shape[2]
            sign, at = np.float32(-1.0 if far else 1.0), ny - 1 - r if far else r
            even, odd, to, own, end = q[u, 0, at], q[u, 1, at], out[u, r], p[u, r], ends[r]
            for c in range(nx):
                value = even[c] + sign * odd[c] + w * own[c] + j * end[c]
                to[c] = value if value > 0 else np.float32(0.0)
    return out
