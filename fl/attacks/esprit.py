r"""Reads the waves of a surface: s(g) = sum_b a_b cos(omega_b . (g - c) - phase_b), c the middle of
the grid.

Every wave is two exponentials exp(+-i omega . g), so windows of the surface span a space of rank 2
B, and a shift of the window by a point east (north) is a linear map of that space with eigenvalues
exp(i omega_x Dx) (exp(i omega_y Dy)). Eigenvectors of a mix of both maps pair the two. Gauss and
Newton's method on all points then removes noise and rounding.

Reference: Rouquette and Najim, "Estimation of frequencies and damping factors by two-dimensional
ESPRIT type methods", IEEE Transactions on Signal Processing, 2001.
"""

from __future__ import annotations

import numpy as np

from netsim.columns import frozen
from netsim.units import FloatArray, IntArray

_FEW = 8  # points a side that are left at least where a grid is thinned
# weight of the second shift: no two waves have the same mix but by chance
_MIX = 0.6180339887498949
_STEPS = 8
_WIDEST = 8  # points of a window a side at most,
_WINDOWS = 40  # and windows


@frozen
class EstimatedWaves:
    """omega (B, 2) per metre, part (B,) = a e^(i phase), and what they leave of the surface (P *
    Q,); misfit, the share of energy not explained.
    """

    omega: FloatArray
    part: FloatArray
    rest: FloatArray
    misfit: float

    @property
    def columns(self) -> FloatArray:
        """omega and phase, omega . (d - c) modulo 2 pi, of each wave (B, 3)."""
        return np.column_stack([self.omega, np.angle(self.part)])


@frozen
class Lattice:
    """An evenly spaced grid about its middle: x (P,), y (Q,) in metres; on a line Q is 1."""

    x: FloatArray
    y: FloatArray

    @classmethod
    def from_axes(cls, x_m: FloatArray, y_m: FloatArray) -> Lattice:
        return cls(x_m - (x_m[0] + x_m[-1]) / 2, y_m - (y_m[0] + y_m[-1]) / 2)

    @property
    def extent_m(self) -> float:
        """The longer side."""
        return float(max(np.ptp(self.x), np.ptp(self.y)))

    def compute_waves(self, omega: FloatArray) -> FloatArray:
        """exp(i omega . (g - c)) of omega (B, 2): (B, P * Q)."""
        x = np.exp(1j * omega[:, :1] * self.x)
        y = np.exp(1j * omega[:, 1:] * self.y)
        return (x[:, :, None] * y[:, None]).reshape(len(omega), -1)


def read_waves(
    surface: FloatArray, grid: Lattice, count: int, bandwidth_m: float
) -> EstimatedWaves:
    """`count` waves of a surface (P, Q), whose omega is of the size of 1 / bandwidth."""
    x_stride = _choose_stride(grid.x, bandwidth_m)
    y_stride = _choose_stride(grid.y, bandwidth_m)
    shift = _estimate_angles_per_point(surface[::x_stride, ::y_stride], count)
    step_m = [_measure_step_m(grid.x) * x_stride, _measure_step_m(grid.y) * y_stride]
    best = fit_phases(surface, grid, shift / step_m)
    for _ in range(_STEPS):
        moved = fit_phases(surface, grid, _refine_omega(grid, best))
        if not moved.misfit < best.misfit:
            break
        best = moved
    return best


def fit_phases(surface: FloatArray, grid: Lattice, omega: FloatArray) -> EstimatedWaves:
    """Phases of waves of known omega (B, 2), by least squares."""
    wave = grid.compute_waves(omega)
    flat = surface.ravel()
    basis = np.concatenate([wave.real, wave.imag])
    part = _solve_least_squares(basis, flat)
    rest = flat - part @ basis
    energy = (surface**2).sum()
    misfit = 1.0
    if energy > 0:
        misfit = (rest**2).sum() / energy
    real, imaginary = part.reshape(2, -1)
    return EstimatedWaves(omega, real + 1j * imaginary, rest, misfit)


def _refine_omega(grid: Lattice, waves: EstimatedWaves) -> FloatArray:
    """omega (B, 2) after one step of Gauss and Newton on amplitudes and omega."""
    wave = grid.compute_waves(waves.omega)
    scale = 1.0 / grid.extent_m
    slope = (-waves.part.conj()[:, None] * wave).imag * scale
    x, y = np.broadcast_arrays(grid.x[:, None], grid.y)
    basis = np.concatenate([wave.real, wave.imag, slope * x.ravel(), slope * y.ravel()])
    step = _solve_least_squares(basis, waves.rest)
    return waves.omega + scale * step[2 * len(wave) :].reshape(2, -1).T


def _solve_least_squares(basis: FloatArray, flat: FloatArray) -> FloatArray:
    """Weights (k,) of a basis (k, n) that come nearest to numbers (n,)."""
    return np.asarray(np.linalg.lstsq(basis @ basis.T, basis @ flat, rcond=1e-13)[0])


def _measure_step_m(axis: FloatArray) -> float:
    if len(axis) > 1:
        return float(axis[1] - axis[0])
    return 1.0


def _choose_stride(axis: FloatArray, bandwidth_m: float) -> int:
    """By how many points to thin an axis: no wave of omega h up to 4.5 turns by half a circle in
    between.
    """
    return int(max(1, min(0.7 * bandwidth_m / _measure_step_m(axis), len(axis) // _FEW)))


def _estimate_angles_per_point(surface: FloatArray, count: int) -> FloatArray:
    """Angles per point (count, 2) of waves of a surface (P, Q), one of each pair +-omega."""
    p, q = surface.shape
    shape = min((p + 1) // 2, _WIDEST), min((q + 1) // 2, _WIDEST)
    windows = np.lib.stride_tricks.sliding_window_view(surface, shape)
    windows = windows[:: p // _WINDOWS + 1, :: q // _WINDOWS + 1]
    number = np.arange(np.prod(shape)).reshape(shape)
    left, _, _ = np.linalg.svd(windows.reshape(-1, number.size).T, full_matrices=False)
    span = left[:, : 2 * count]
    east = _find_shift_map(span, number[:-1], number[1:])
    north = _find_shift_map(span, number[:, :-1], number[:, 1:])
    _, vectors = np.linalg.eig(east + _MIX * north)
    x = np.angle(np.einsum("ij,ij->j", vectors.conj(), east @ vectors))
    y = np.angle(np.einsum("ij,ij->j", vectors.conj(), north @ vectors))
    sign = np.where((x < 0) | ((x == 0) & (y < 0)), -1.0, 1.0)
    angle = np.column_stack([x * sign, y * sign])
    order = np.lexsort(angle.T[::-1])
    return angle[order][::2][:count]  # pairs stand side by side


def _find_shift_map(span: FloatArray, before: IntArray, after: IntArray) -> FloatArray:
    """Map of the space spanned by columns (n, r) that turns rows `before` into rows `after`."""
    if not before.size:
        return np.eye(span.shape[1])
    shift, *_ = np.linalg.lstsq(span[before.ravel()], span[after.ravel()], rcond=None)
    return np.asarray(shift)


def find_kernel_peak_offset_m(
    surface: FloatArray, grid: Lattice, bandwidth_m: float
) -> FloatArray | None:
    """Where the kernel exp(-|g - m|^2 / 2 h^2), times any factor, has its peak, less c (2,); None
    where it is none.

    Its logarithm falls by (x - m) / h^2 per metre: read where the kernel is large, weighted by its
    squares, also of a peak that lies off the grid.
    """
    place = np.zeros(2)
    value = surface / np.abs(surface).max()
    for k, axis in enumerate((grid.x, grid.y)):
        if len(axis) < 2:
            continue
        along = np.moveaxis(value, k, 0)
        low = along[:-1]
        high = along[1:]
        weight = np.where((low > 1e-9) & (high > 1e-9), low * high, 0.0)
        ratio = np.divide(high, low, out=np.ones_like(low), where=weight > 0)
        total = weight.sum() or np.nan  # no place where the kernel is large
        slope = (weight * np.log(ratio)).sum() / total / _measure_step_m(axis)
        middle = (weight.sum(axis=1) @ (axis[:-1] + axis[1:])) / 2 / total
        place[k] = middle + slope * bandwidth_m**2
    x = np.exp(-(((grid.x - place[0]) / bandwidth_m) ** 2) / 2)
    y = np.exp(-(((grid.y - place[1]) / bandwidth_m) ** 2) / 2)
    model = x[:, None] * y
    model = model / max(model.max(), 1e-300)
    rest = ((value - model) ** 2).sum()
    if rest <= 1e-3 * (value**2).sum():
        return place
    return None
