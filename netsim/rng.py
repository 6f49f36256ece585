r"""Named random streams: a counter-based generator, so that no draw shifts another.

A draw is a pure function of (seed, purpose, what, owner, round, index)::

    word = Philox4x64-10(key = H(seed, purpose, what), counter = (index, item, round, owner))

Adding a UE, a defense or an attack shifts no other stream; nothing has to be saved to resume;
drawing for a million UEs is one call. Few owners with many draws go through numpy's own Philox;
many owners with few draws through a compiled evaluation of the same function, so the way taken
never changes a value.

References: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11
(Philox).
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray, IntPair, Ints

_U64 = np.uint64
Words = npt.NDArray[np.uint64]
_MASK64 = (1 << 64) - 1
_BELOW_ONE = 1.0 - 2.0**-53  # the largest word plus one half rounds to 1
# words per owner from which one numpy generator per owner is faster than the compiled form
_LONG_ROW = 1024
_FEW = 32  # Philox blocks that are not worth loading compiled code


@dataclass(frozen=True)
class Streams:
    """All the randomness of a run, from one seed."""

    seed: int

    def derive_rng(self, purpose: str, round_: int = 0) -> Rng:
        """The stream of one purpose in one round (or day, or any other non-negative period)."""
        return Rng(self.seed, purpose, round_)


@dataclass(frozen=True)
class Rng:
    """One named stream. It has no state: the same call gives the same numbers.

    Every draw says by its `label` what it is for, so two draws for one owner never share numbers by
    accident. `owner` is an integer array (n,) of stable ids (UE, base station, ...), `item` an
    optional second id (a time, a leg of a walk) that broadcasts with it; the result has shape (n,
    *size).
    """

    seed: int
    purpose: str
    round: int = 0

    def uniform(
        self, label: str, owner: npt.ArrayLike, size: Ints = (), item: npt.ArrayLike = 0
    ) -> FloatArray:
        """Uniform on the open interval (0, 1), 53 bits, shape (n, *size)."""
        words = self._draw_words(label, owner, prod(size), item)
        words >>= _U64(11)
        # in place from here on: noise on all updates is as large as they are
        unit = words.astype(np.float64)
        unit += 0.5
        unit *= 2.0**-53
        return np.minimum(unit, _BELOW_ONE, out=unit).reshape(len(words), *size)

    def normal(
        self, label: str, owner: npt.ArrayLike, size: Ints = (), item: npt.ArrayLike = 0
    ) -> FloatArray:
        """Standard normal by inversion, shape (n, *size)."""
        from scipy.special import ndtri  # here, so that checking a scenario does not pay for it

        unit = self.uniform(label, owner, size, item)
        return ndtri(unit, out=unit)

    def exponential(
        self, label: str, owner: npt.ArrayLike, size: Ints = (), item: npt.ArrayLike = 0
    ) -> FloatArray:
        """Exponential with mean 1, shape (n, *size)."""
        return -np.log(self.uniform(label, owner, size, item))

    def draw_keys(self, label: str, owner: int, count: int) -> FloatArray:
        """`count` sort keys: ``np.argsort`` of them is a uniform permutation."""
        return self.uniform(label, [owner], (count,))[0]

    def draw_orders(self, label: str, owner: npt.ArrayLike, count: IntArray) -> IntArray:
        """Uniform orders of 0..count - 1 of each owner (n,), end to end (sum of counts,): stable
        argsorts of `draw_keys`.
        """
        max_count = count.max(initial=0)
        inside = np.arange(max_count) < count[:, None]
        keys = np.where(inside, self.uniform(label, owner, (max_count,)), 1.0)
        return np.argsort(keys, axis=1, kind="stable")[inside]

    def make_generator(self, label: str, owner: int = 0, item: int = 0) -> np.random.Generator:
        """An ordinary numpy generator, for a library that wants one; it starts afresh at each
        call.
        """
        key = _derive_key(self.seed, self.purpose, label)
        counter = np.array([0, item & _MASK64, self.round, owner & _MASK64], dtype=_U64)
        return np.random.Generator(np.random.Philox(key=np.array(key, dtype=_U64), counter=counter))

    def _draw_words(
        self, label: str, owner: npt.ArrayLike, count: int, item: npt.ArrayLike
    ) -> Words:
        owners = np.atleast_1d(np.asarray(owner, dtype=np.int64))
        items = np.asarray(item, dtype=np.int64)
        if owners.shape != items.shape:
            owners, items = np.broadcast_arrays(owners, items)
        blocks = -(-count // 4)
        # loading compiled code takes longer
        few = owners.size * blocks <= _FEW and "numba" not in sys.modules
        if count >= _LONG_ROW or few:
            rows = np.empty((owners.size, count), dtype=_U64)
            for row, o, i in zip(rows, owners, items, strict=True):
                row[:] = self.make_generator(label, int(o), int(i)).bit_generator.random_raw(count)
            return rows
        key = map(_U64, _derive_key(self.seed, self.purpose, label))
        words = _philox(blocks, items.astype(_U64), _U64(self.round), owners.astype(_U64), *key)
        return words[:, :count]


# [Salmon 2011, Table 2]
_M0 = np.uint64(0xD2E7470EE14C6C93)
_M1 = np.uint64(0xCA5A826395121157)
_W0 = np.uint64(0x9E3779B97F4A7C15)
_W1 = np.uint64(0xBB67AE8584CAA73B)
_ROUNDS = 10
_LOW32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@compiled
def _philox(
    blocks: int, item: Words, round_: np.uint64, owner: Words, key0: np.uint64, key1: np.uint64
) -> Words:
    """Words (n, 4 * blocks) of the counters (index, item, round, owner) of items and owners
    (n,).
    """
    out = np.empty((len(owner), 4 * blocks), np.uint64)
    for i in range(len(owner)):
        for block in range(blocks):
            c0 = np.uint64(block + 1)  # numpy steps its counter before the first block
            c1 = item[i]
            c2 = round_
            c3 = owner[i]
            k0 = key0
            k1 = key1
            for _ in range(_ROUNDS):
                high0 = _multiply_high(_M0, c0)
                high1 = _multiply_high(_M1, c2)
                c0, c1, c2, c3 = high1 ^ c1 ^ k0, _M1 * c2, high0 ^ c3 ^ k1, _M0 * c0
                k0 = k0 + _W0
                k1 = k1 + _W1
            first = 4 * block
            out[i, first] = c0
            out[i, first + 1] = c1
            out[i, first + 2] = c2
            out[i, first + 3] = c3
    return out


@compiled
def _multiply_high(a: np.uint64, b: np.uint64) -> np.uint64:
    """The high word of a 64 x 64 -> 128 bit product."""
    a_low = a & _LOW32
    a_high = a >> _32
    b_low = b & _LOW32
    b_high = b >> _32
    cross = b_high * a_low + ((b_low * a_low) >> _32)
    middle = b_low * a_high + (cross & _LOW32)
    return b_high * a_high + (cross >> _32) + (middle >> _32)


def _derive_key(seed: int, purpose: str, label: str) -> IntPair:
    digest = hashlib.blake2b(f"{seed}\0{purpose}\0{label}".encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def ndtr(x: npt.ArrayLike) -> FloatArray:
    """Probability of a standard normal number below x (...)."""
    from scipy import special

    return special.ndtr(x)


def ndtri(p: npt.ArrayLike) -> FloatArray:
    """The number below which a standard normal one is with probability p (...)."""
    from scipy import special

    return special.ndtri(p)
