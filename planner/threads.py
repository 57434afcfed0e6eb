"""One thread for linear algebra: its sums then have one order, and answers the same last digit on any machine."""

import os

BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""What libraries ask when NumPy is imported."""


def use_one_thread() -> None:
    """Before NumPy is imported; who states another number keeps it."""
    for name in BLAS_THREADS:
        os.environ.setdefault(name, "1")
