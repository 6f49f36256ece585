"""What the last digits of numbers hang on: the processor, and which of their kernels the libraries
choose for it."""

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

PLAIN = {
    "OPENBLAS_CORETYPE": "Prescott",
    "OPENBLAS_NUM_THREADS": "1",
    "OPENBLAS_L2_SIZE": "512",
    "OMP_NUM_THREADS": "1",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-AVX,-FMA,-FMA4,-AVX512F",
}
"""kernels that every x86-64 processor has: one with them gives the last digits of another, as far
as libraries obey"""
PROCESSOR = "processor"
OF_LIBRARIES = ("numpy", "scipy", "torch", "numba", "scikit-learn", "POT", "pyproj", "shapely")


def in_plain_kernels():
    """Start this command anew if it does not have them: libraries choose when they are loaded."""
    if any(os.environ.get(name) != value for name, value in PLAIN.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | PLAIN)


def machine():
    """This one: processor, kernels in use, versions."""
    import numba
    import numpy as np
    import torch
    from threadpoolctl import threadpool_info

    blas = sorted(
        {str(item.get("architecture")) for item in threadpool_info() if item["user_api"] == "blas"}
    )
    result = np.show_config(mode="dicts")["SIMD Extensions"]
    return {
        PROCESSOR: _processor(),
        "OpenBLAS": " ".join(blas),
        "torch kernels": torch.backends.cpu.get_cpu_capability(),
        "numpy kernels": " ".join(_on(result)),
        "numba kernels": str(numba.config.CPU_NAME or "host"),
        "C library": " ".join(platform.libc_ver()),
        "Python": platform.python_version(),
    } | {name: version(name) for name in OF_LIBRARIES}


def _on(result):
    """Vector units that numpy uses: what it was built for and what it found and may use."""
    off = os.environ.get("NPY_DISABLE_CPU_FEATURES", "").split()
    return [
        *result.get("baseline", ()),
        *(unit for unit in result.get("found", ()) if unit not in off),
    ]


def _processor():
    """Its name, family, model and stepping, which clouds do not hide."""
    text = {}
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        key, _, value = line.partition(":")
        text.setdefault(key.strip(), value.strip())
    parts = [text[key] for key in ("model name", "cpu family", "model", "stepping") if key in text]
    return ", ".join([platform.machine(), *parts])


def elsewhere(made_on, local):
    """What of the kernels and versions that made numbers differs from those here; empty: nothing
    does."""
    keys = [
        key
        for key in {**made_on, **local}
        if key != PROCESSOR and made_on.get(key) != local.get(key)
    ]
    return "; ".join(
        f"{key}: {made_on.get(key, 'none')} there, {local.get(key, 'none')} here" for key in keys
    )
