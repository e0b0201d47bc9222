"""Which form of a loop on the host runs, and that both take the same arguments."""

import importlib.util
import inspect
import sys

import numpy as np
import pytest

from gpu_consensus.backends import host_loops
from gpu_consensus.backends.host_loops import compiled_loops, fastest, pays
from gpu_consensus.feedback import tilo
from gpu_consensus.loop import refine
from gpu_consensus.methods.ipc import sweep_objects

REFERENCES = {
    "find_move": refine.find_move,
    "ipc_sweep": sweep_objects,
    "tilo_sweep": tilo.sweep,
}


@pytest.mark.parametrize("loop", REFERENCES)
def test_both_forms_take_the_same_arguments(loop):
    reference = REFERENCES[loop]
    with compiled_loops(True):
        form = fastest(loop, reference, 0)
    names = [list(inspect.signature(f).parameters) for f in (reference, form.py_func)]
    assert names[0] == names[1]


@pytest.mark.parametrize("loop", sorted(host_loops._LOOPS))
def test_without_numba_the_reference_runs(monkeypatch, loop):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not pays(loop, 1 << 40)
    with compiled_loops(True):
        assert not pays(loop, 1 << 40)
    assert fastest(loop, np.sum, 1 << 40) is np.sum


@pytest.mark.parametrize("loop", sorted(host_loops._LOOPS))
def test_small_work_loads_nothing(monkeypatch, loop):
    monkeypatch.delitem(sys.modules, "gpu_consensus.backends.numba_jit", raising=False)
    assert not pays(loop, 47)
    assert pays(loop, 1 << 22)
    with compiled_loops(False):
        assert not pays(loop, 1 << 40)
        with compiled_loops(True):
            assert pays(loop, 0)
        assert not pays(loop, 1 << 40)
