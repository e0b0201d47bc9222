"""Which form of a loop on the host runs, and that both take the same arguments."""

import inspect

import numpy as np
import pytest

from gpu_consensus.backends.host_loops import (
    compiled_form,
    compiled_loops,
    fastest,
    has_compiled_loops,
)
from gpu_consensus.backends.native import library
from gpu_consensus.feedback import tilo
from gpu_consensus.methods.agglomerate import numpy_merges
from gpu_consensus.methods.bottleneck import numpy_pair_sums
from gpu_consensus.methods.cumulative import numpy_vote_round
from gpu_consensus.methods.expectation import numpy_expectation, numpy_memberships
from gpu_consensus.methods.ipc import sweep_objects

REFERENCES = {
    "ipc_sweep": sweep_objects,
    "tilo_sweep": tilo.sweep,
    "merges": numpy_merges,
    "expectation": numpy_expectation,
    "memberships": numpy_memberships,
    "vote_round": numpy_vote_round,
    "pair_sums": numpy_pair_sums,
}


@pytest.mark.parametrize("loop", REFERENCES)
def test_both_forms_take_the_same_arguments(loop):
    forms = (REFERENCES[loop], compiled_form(loop))
    names = [list(inspect.signature(form).parameters) for form in forms]
    assert names[0] == names[1]


def test_without_the_library_the_reference_runs(monkeypatch):
    monkeypatch.setenv("GPU_CONSENSUS_NATIVE", "0")
    assert "GPU_CONSENSUS_NATIVE=0" in library.why_unavailable()
    with compiled_loops(True):
        assert not has_compiled_loops()
        assert fastest("ipc_sweep", np.sum) is np.sum


def test_the_library_may_be_left_out():
    with compiled_loops(False):
        assert fastest("ipc_sweep", np.sum) is np.sum
        with compiled_loops(True):
            assert fastest("ipc_sweep", np.sum) is compiled_form("ipc_sweep")
        assert not has_compiled_loops()
