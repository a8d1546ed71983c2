"""Shared settings: Hypothesis is derandomised unless EXPLORE=1 asks for fresh seeds."""

import os
from collections.abc import Iterator

import numpy  # noqa: F401  (what is not loaded cannot be limited)
import pytest
import scipy.linalg  # noqa: F401
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile("explore" if os.environ.get("EXPLORE") == "1" else "ci")


@pytest.fixture(scope="session", autouse=True)
def _shared_processors() -> Iterator[None]:
    """Each of several workers has its part of the processors for linear algebra."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    with threadpool_limits(max(1, (os.cpu_count() or 1) // workers), user_api="blas"):
        yield
