"""Fixtures that run a test on every backend that works here."""

import os

import pytest
from hypothesis import settings

from gpu_consensus.backends import NAMES, choose_backend, why_unavailable

# the same examples in every run; HYPOTHESIS_PROFILE=explore looks for new ones
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

AVAILABLE = [name for name in NAMES if name != "auto" and not why_unavailable(name)]


@pytest.fixture(params=AVAILABLE)
def backend(request):
    return choose_backend(request.param, None)
