"""Linear algebra on one thread."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Generator[None, None, None]:
    """Linear algebra on one thread: sums keep their order, results their bits."""
    import scipy.linalg  # noqa: F401 - compiled loops call its BLAS, which is limited only if it is there by now
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(before)
