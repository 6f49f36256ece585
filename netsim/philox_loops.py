"""Philox4x64-10 of many counters, and orders of the numbers that it draws, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.compiled import compiled
from netsim.units import IntArray

Words = npt.NDArray[np.uint64]

_M0, _M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)  # [Salmon 2011, Table 2]
_W0, _W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_ROUNDS = 10
_LOW32, _32, _11, _0 = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(11), np.uint64(0)


@compiled
def philox(out: Words, item: Words, round_: np.uint64, owner: Words, key0: np.uint64, key1: np.uint64) -> None:
    """Words out (n, blocks, 4) of the counters (index, item, round, owner), index 1, 2, ... of the blocks.

    numpy steps the counter before its first block, so the first block has index 1.
    """
    n, blocks = out.shape[:2]
    for i in range(n):
        for b in range(blocks):
            out[i, b, 0], out[i, b, 1], out[i, b, 2], out[i, b, 3] = _block(
                np.uint64(b + 1), item[i], round_, owner[i], key0, key1
            )


@compiled
def orders(out: IntArray, ptr: IntArray, owner: Words, round_: np.uint64, key0: np.uint64, key1: np.uint64) -> None:
    """Writes to out[ptr[i]:ptr[i + 1]] the stable order of the uniform numbers of owner i (item 0)."""
    words = np.empty(4, np.uint64)
    for i in range(len(owner)):
        first, n = ptr[i], ptr[i + 1] - ptr[i]
        unit = np.empty(n)
        for b in range(-(-n // 4)):
            words[0], words[1], words[2], words[3] = _block(np.uint64(b + 1), _0, round_, owner[i], key0, key1)
            for j in range(min(4, n - 4 * b)):
                unit[4 * b + j] = (np.float64(words[j] >> _11) + 0.5) * 2.0**-53
        out[first : first + n] = np.argsort(unit, kind="mergesort")


@compiled
def _block(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, k0: np.uint64, k1: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Philox4x64-10 of one counter."""
    for _ in range(_ROUNDS):
        high0, high1 = _high(_M0, c0), _high(_M1, c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, _M1 * c2, high0 ^ c3 ^ k1, _M0 * c0
        k0, k1 = k0 + _W0, k1 + _W1
    return c0, c1, c2, c3


@compiled
def _high(a: np.uint64, b: np.uint64) -> np.uint64:
    """The high word of a 64 x 64 -> 128 bit product."""
    a_low, a_high, b_low, b_high = a & _LOW32, a >> _32, b & _LOW32, b >> _32
    cross = b_high * a_low + ((b_low * a_low) >> _32)
    middle = b_low * a_high + (cross & _LOW32)
    high: np.uint64 = b_high * a_high + (cross >> _32) + (middle >> _32)
    return high
