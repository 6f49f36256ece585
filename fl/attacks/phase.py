r"""Direction, wavelength and phase of a single wave, and the change of the phase over rounds."""

from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np
from pydantic import Field

from fl.attacks.base import Attack, View, latest, recall
from fl.learners.base import SurfaceLearner
from fl.types import Estimates, Facts
from netsim.rng import Rng
from netsim.row_id import row_id
from netsim.units import BoolArray, FloatArray, IntArray

_TOGETHER = 64  # surfaces that are read at once: bounds the memory
_REFINEMENTS = 5


@dataclass(frozen=True, eq=False)
class Waves:
    """Waves a cos(u) + b sin(u), u = omega . (g - c), read from n surfaces.

    omega (n, 2) per metre, phase (n,) = atan2(b, a) = omega . (d - c) modulo 2 pi, misfit (n,) the share of a surface's
    energy that is not of the wave.
    """

    omega: FloatArray
    phase: FloatArray
    misfit: FloatArray


def read_waves(surface: FloatArray, x_m: FloatArray, y_m: FloatArray) -> Waves:
    r"""Read one wave from each surface (n, P, Q) on an evenly spaced grid; c is the middle of the grid.

    Neighbours of a wave obey s_{p+1} + s_{p-1} = 2 cos(omega_x Dx) s_p, which gives |omega_x| and likewise |omega_y|;
    of the two signs of omega_y / omega_x the one that fits is right (omega and -omega are the same wave). Noise spoils
    that for long waves; the peak of the spectrum, which is coarse and robust, is the third guess. Newton's method on
    all four numbers of the best then removes noise and rounding.
    """
    x, y = x_m - (x_m[0] + x_m[-1]) / 2, y_m - (y_m[0] + y_m[-1]) / 2
    omega = np.stack([_wave_number(surface, x), _wave_number(np.swapaxes(surface, 1, 2), y)], axis=1)
    guesses = np.stack([omega, omega * [1.0, -1.0], _spectral_peak(surface, x, y)])  # (3, n, 2)
    misfits = np.stack([_in_phase(surface, w, x, y)[1] for w in guesses])
    omega = guesses[np.argmin(misfits, axis=0), np.arange(len(surface))]
    for _ in range(_REFINEMENTS):
        omega = _refined(surface, omega, x, y)
    parts, misfit = _in_phase(surface, omega, x, y)
    return Waves(omega, np.arctan2(parts[:, 1], parts[:, 0]), misfit)


def read_phase(surface: FloatArray, omega: FloatArray, x_m: FloatArray, y_m: FloatArray) -> Waves:
    """The phase of waves whose omega (n, 2) is known."""
    x, y = x_m - (x_m[0] + x_m[-1]) / 2, y_m - (y_m[0] + y_m[-1]) / 2
    parts, misfit = _in_phase(surface, omega, x, y)
    return Waves(omega, np.arctan2(parts[:, 1], parts[:, 0]), misfit)


def _wave_number(surface: FloatArray, x: FloatArray) -> FloatArray:
    """|omega| along the first axis of surfaces (n, P, Q); 0 along an axis of fewer than three points."""
    if len(x) < 3:
        return np.zeros(len(surface))
    middle, around = surface[:, 1:-1], surface[:, 2:] + surface[:, :-2]
    energy = (middle**2).sum(axis=(1, 2))
    cosine = (middle * around).sum(axis=(1, 2)) / (2 * np.where(energy > 0, energy, 1.0))
    return np.asarray(np.arccos(np.clip(cosine, -1.0, 1.0)) / (x[1] - x[0]))


def _spectral_peak(surface: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Where the spectrum of surfaces (n, P, Q), padded to twice their size, is highest: omega (n, 2)."""
    shape = tuple(2 * len(axis) if len(axis) > 1 else 1 for axis in (x, y))
    power = np.abs(np.fft.fft2(surface, shape)).reshape(len(surface), shape[0] * shape[1])
    at = np.unravel_index(np.argmax(power, axis=1), shape)
    steps = [float(axis[1] - axis[0]) if len(axis) > 1 else 1.0 for axis in (x, y)]
    return np.stack([2 * np.pi * np.fft.fftfreq(n, d)[k] for n, d, k in zip(shape, steps, at, strict=True)], axis=1)


def _turned(omega: FloatArray, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """cos and sin of omega . (g - c): (n, P * Q) each."""
    u = (omega[:, :1, None] * x[:, None] + omega[:, 1:, None] * y).reshape(len(omega), -1)
    return np.cos(u), np.sin(u)


def _in_phase(surface: FloatArray, omega: FloatArray, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Least-squares a, b (n, 2) of waves of known omega, and the misfit (n,)."""
    c, s = _turned(omega, x, y)
    flat = surface.reshape(len(surface), len(x) * len(y))
    parts = _solved(np.stack([c, s], axis=1), flat)
    rest = flat - parts[:, :1] * c - parts[:, 1:] * s
    energy = (flat**2).sum(axis=1)
    return parts, np.where(energy > 0, (rest**2).sum(axis=1) / np.where(energy > 0, energy, 1.0), 1.0)


def _refined(surface: FloatArray, omega: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """One step of Gauss and Newton on (a, b, omega), kept where it does not fit worse."""
    parts, misfit = _in_phase(surface, omega, x, y)
    c, s = _turned(omega, x, y)
    a, b = parts[:, :1], parts[:, 1:]
    slope = b * c - a * s
    gx, gy = (g.reshape(1, -1) for g in np.broadcast_arrays(x[:, None], y))
    scale = 1.0 / max(float(np.ptp(x)), float(np.ptp(y)))  # so that all four columns are of one size
    basis = np.stack([c, s, scale * gx * slope, scale * gy * slope], axis=1)
    rest = surface.reshape(len(surface), -1) - a * c - b * s
    moved = omega + scale * _solved(basis, rest)[:, 2:]
    better = _in_phase(surface, moved, x, y)[1] <= misfit
    return np.where(better[:, None], moved, omega)


def _solved(basis: FloatArray, value: FloatArray) -> FloatArray:
    """Least squares (n, k) of values (n, m) in the basis (n, k, m), the smallest where it is not unique."""
    gram = basis @ np.swapaxes(basis, 1, 2)
    return np.asarray(
        np.linalg.pinv(gram, rcond=1e-13, hermitian=True) @ np.einsum("nkm,nm->nk", basis, value)[..., None]
    )[..., 0]


@dataclass(frozen=True, eq=False)
class LastWaves:
    """The last wave of every device: track (k,) ascending, wave (k, 3) omega per metre and phase in radians."""

    equal_rows: ClassVar[bool] = True
    track: IntArray
    wave: FloatArray


class Phase(Attack):
    r"""Estimates direction, wavelength and phase of a UE's single wave, and tracks the phase from round to round.

    A surface cos(omega . (g - d)) determines omega (up to its sign) and omega . d modulo 2 pi: the UE's position along
    omega modulo the wavelength 2 pi / |omega|, but not across. Two surfaces that are known to be of one UE determine
    its displacement along omega modulo the wavelength, so frequent answers reveal the relative track along one axis.

    Estimates: `centroid`, of all points on the device's bands the one nearest to the middle of the grid; `step`, the
    displacement along omega since the device's last answer, the shortest that fits. A surface that is not one wave (the
    exact kernel, two features or more, a wave drawn anew) has status `no wave`, or `new wave`, and no step.
    """

    kind: Literal["phase"] = "phase"
    misfit: float = Field(default=0.1, gt=0, lt=1)
    """largest share of a surface's energy that is not explained by one wave"""

    reference: ClassVar = "against Zong et al., Privacy by Projection, PoPETs 2023, Section 3.5, Multiple Queries"
    example: ClassVar = {"kind": "phase"}
    needs: ClassVar = {
        "surfaces": "reads waves from answers about a grid of points",
        "rows": "reads every device's own wave; merged ones cannot be told apart",
    }

    def start(self) -> LastWaves:
        return LastWaves(np.zeros(0, dtype=np.int64), np.zeros((0, 3)))

    def run(self, view: View, facts: Facts, state: LastWaves, rng: Rng) -> tuple[Estimates, LastWaves]:
        learner = cast(SurfaceLearner, view.learner)
        constants = view.model_before.constants
        x_m, y_m = constants["x_m"], constants["y_m"]
        surface = learner.surfaces(view.model_before, view.update)[:, 0]
        track = row_id(view.ue, view.model)[np.argsort(view.source)]  # one target a row
        before = recall(state.track, state.wave, track)  # (n, 3): omega, phase
        now, same = self._read(surface, before[:, :2], x_m, y_m)
        good = now.misfit <= self.misfit
        turn = np.angle(np.exp(1j * (now.phase - before[:, 2])))
        square = np.maximum((now.omega**2).sum(axis=1), 1e-300)[:, None]
        middle = np.array([x_m[0] + x_m[-1], y_m[0] + y_m[-1]]) / 2
        said = np.where(good[:, None], middle + now.phase[:, None] * now.omega / square, np.nan)
        status = [_word(g, s, np.isfinite(p)) for g, s, p in zip(good, same, before[:, 2], strict=True)]
        linked = np.flatnonzero(good & same)
        step = (turn[:, None] * now.omega / square)[linked]
        estimates = [
            view.spread("centroid", np.arange(len(said)), said, status=status),
            view.spread("step", linked, step),
        ]
        every, newest = latest(track[good], state.track)
        waves = np.column_stack([now.omega, now.phase])[good]
        return Estimates.join(estimates), LastWaves(every, np.concatenate([waves, state.wave])[newest])

    def _read(
        self, surface: FloatArray, known: FloatArray, x_m: FloatArray, y_m: FloatArray
    ) -> tuple[Waves, BoolArray]:
        """Waves of all surfaces, by the omega of before (n, 2) where it still fits; and where it does."""
        pieces, same = [], np.zeros(len(surface), dtype=np.bool_)
        for first in range(0, len(surface), _TOGETHER):
            some = slice(first, first + _TOGETHER)
            fresh = read_waves(surface[some], x_m, y_m)
            old = read_phase(surface[some], np.nan_to_num(known[some]), x_m, y_m)
            same[some] = (old.misfit <= self.misfit) & np.isfinite(known[some]).all(axis=1)
            pick = same[some]
            pieces.append(
                Waves(
                    np.where(pick[:, None], old.omega, fresh.omega),
                    np.where(pick, old.phase, fresh.phase),
                    np.where(pick, old.misfit, fresh.misfit),
                )
            )
        if not pieces:
            return Waves(np.zeros((0, 2)), np.zeros(0), np.zeros(0)), same
        columns = zip(*((p.omega, p.phase, p.misfit) for p in pieces), strict=True)
        return Waves(*(np.concatenate(column) for column in columns)), same


def _word(good: bool, same: bool, known: bool) -> str:
    return "no wave" if not good else "ok" if same or not known else "new wave"
