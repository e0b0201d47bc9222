"""No module of tests that computes a consensus is left to one backend unnoticed."""

import ast
from pathlib import Path

import gpu_consensus as gpc

TESTS = Path(__file__).parent
COMPUTES = {
    *gpc.METHODS,
    "METHODS",
    "ConsensusClustering",
    "cluster",
    "consensus",
    "lambda_consensus",
    "open_task",
    "prc_consensus",
}
LEFT_OUT = {
    "test_accept.py": "the device alone",
    "test_anndata.py": "labels in and out, which the backend does not change",
    "test_interruptions.py": "processes of their own, which name no backend",
    "test_own_tables.py": "files in and out, which the backend does not change",
    "test_plan.py": "time and memory of the backend that users get",
    "test_bench.py": "tables of the benchmark, which names its backends",
    "test_browser.py": "a page on a result, which the backend does not change",
    "test_cupy_backend.py": "the device alone",
    "test_device_errors.py": "the device alone",
    "test_device_generation.py": "the device alone",
    "test_device_memory.py": "the device alone",
    "test_gpu.py": "the device alone",
    "test_native_backend.py": "compiled loops alone",
    "test_numbers.py": "what is refused before a backend is asked",
    "test_paths.py": "what is refused before a backend is asked",
    "test_plot.py": "pictures of a result, which the backend does not change",
    "test_quality.py": "tables of the benchmark, which names no backend",
    "test_quality_blobs.py": "tables of the benchmark, which names no backend",
    "test_report.py": "a page on a result, which the backend does not change",
    "test_saved_state.py": "files, which no backend reads or writes",
    "test_seams.py": "a backend of the test's own",
    "test_sparse.py": "what is refused before a backend is asked",
    "test_streams.py": "the device alone",
    "test_warnings.py": "where a warning points to, which the backend does not change",
}


def names_of_the_package(tree):
    """Names that a module takes from the package: ``gpc.name``, or imported."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="gpc" | "gpu_consensus")):
                yield node.attr
            case ast.ImportFrom(module=str(module), names=names):
                if module.split(".")[0] == "gpu_consensus":
                    yield from (alias.name for alias in names)


def test_modules_that_compute_run_on_every_backend():
    """Or stand above with a reason; the line to add is in conftest."""
    one_backend = set()
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        computes = COMPUTES & set(names_of_the_package(ast.parse(text)))
        if computes and "mark.every_backend" not in text:
            one_backend.add(path.name)
    assert one_backend == set(LEFT_OUT)
