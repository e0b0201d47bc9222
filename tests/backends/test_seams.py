"""The two seams stay closed: what crosses them, and that nobody looks behind."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest
from random_ensembles import noisy
from toy_backend import ToyBackend

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.backends.protocol import Backend
from gpu_consensus.loop.local_rows import LocalRows
from gpu_consensus.loop.rows import Rows

PACKAGE = Path(gpc.__file__).parent
MOST_PRIMITIVES, MOST_OF_ROWS = 12, 13
ASKED = {"backend", "device", "rule"}  # what variables on either side are called


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def members(protocol):
    return {name for name in public(protocol) if callable(getattr(protocol, name))}


def test_the_seams_are_small():
    assert len(members(Backend)) <= MOST_PRIMITIVES
    assert len(members(Rows)) <= MOST_OF_ROWS
    assert public(Backend) | {"xp", "name"} == members(Backend) | {"xp", "name"}


def test_a_backend_has_no_public_member_that_the_protocol_lacks(backend):
    assert public(backend) == members(Backend) | {"name", "xp"}


def test_a_backend_has_the_signatures_of_the_protocol(backend):
    for name in members(Backend):
        expected = inspect.signature(getattr(Backend, name))
        assert inspect.signature(getattr(type(backend), name)) == expected, name


def test_local_rows_have_the_signatures_of_rows():
    for name in members(Rows):
        expected = inspect.signature(getattr(Rows, name))
        assert inspect.signature(getattr(LocalRows, name)) == expected, name


def is_asked(node):
    """Whether an expression is a backend or a rule, by what it is called."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in ASKED
    return False


def questions(tree):
    """Yield whatever asks a backend or a rule which one it is, and its function."""

    def visit(node, function):
        match node:
            case ast.FunctionDef(name=name):
                function = name
            case ast.Call(
                func=ast.Name(id="hasattr" | "getattr" | "isinstance" | "type"),
                args=[first, *_],
            ) if is_asked(first):
                yield node, function
            case ast.Compare(left=left, comparators=others):
                for side in (left, *others):
                    match side:
                        case ast.Attribute(value=value, attr="name") if is_asked(value):
                            yield node, function
            case ast.Match(subject=subject) if is_asked(subject):
                yield node, function
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function)

    yield from visit(tree, "")


@pytest.mark.parametrize(
    "text",
    [
        "hasattr(backend, 'gpu')",
        "getattr(task.backend, 'gpu', None)",
        "isinstance(self.rule, KccRule)",
        "type(backend) is NumpyBackend",
        "backend.name == 'cupy'",
        "'cupy' != task.backend.name",
        "self.device.name in ('cupy', 'native')",
    ],
)
def test_a_question_is_seen(text):
    assert list(questions(ast.parse(text)))


def test_nobody_asks_a_backend_or_a_rule_which_one_it_is():
    asked = {
        (path.relative_to(PACKAGE).as_posix(), function, ast.unparse(node))
        for path in PACKAGE.rglob("*.py")
        for node, function in questions(ast.parse(path.read_text(encoding="utf-8")))
    }
    # only the door, where what a user gave becomes a backend
    door = "backends/choose.py"
    assert asked == {
        (door, "choose_backend", "isinstance(backend, str)"),
        (door, "_check_backend", "isinstance(backend, type)"),
        (door, "_check_backend", "hasattr(backend, member)"),
    }


FINDS_N_CLUSTERS = {"best", "fusion_transfer", "least_squares", "vote"}
CALLS = [
    *((name, {}) for name in gpc.METHODS),
    ("kcc", {"init": "careful", "utility": "h"}),
    ("kcc", {"init": "random", "utility": "l5", "refine": True}),
]


@pytest.mark.parametrize(("name", "options"), CALLS, ids=str)
def test_a_backend_written_from_the_docstrings_serves_a_method(name, options):
    labels, _ = noisy(2, n=40, r=6, missing=0.2)
    n_clusters = None if name in FINDS_N_CLUSTERS else 3
    options = {**options, "random_state": 0}
    found = gpc.consensus(labels, n_clusters, name, backend=ToyBackend(), **options)
    expected = gpc.consensus(labels, n_clusters, name, backend="numpy", **options)
    assert found.backend == "toy"
    assert np.array_equal(found.labels, expected.labels)
    assert found.objective == pytest.approx(expected.objective, rel=1e-12)


def test_an_object_that_lacks_a_member_is_refused_by_its_name():
    class Half(ToyBackend):
        scores = property()  # as if there were none

    with pytest.raises(TypeError, match=r"^backend=.* has no member 'scores'; pass"):
        gpc.kcc(noisy(0)[0], 3, backend=Half())
    with pytest.raises(TypeError, match=r"^backend=ToyBackend is a class; pass an obj"):
        gpc.kcc(noisy(0)[0], 3, backend=ToyBackend)
    with pytest.raises(TypeError, match=r"^backend=3 has no member 'name'; pass one"):
        gpc.kcc(noisy(0)[0], 3, backend=3)


def test_codes_on_a_device_go_to_no_backend_of_the_host(device):
    ens = gpc.Ensemble(noisy(0)[0]).to("cupy")
    with pytest.raises(ValueError, match="on a CUDA device but backend='toy'"):
        gpc.kcc(ens, 3, backend=ToyBackend())
    given = choose_backend("cupy", None)
    found = gpc.kcc(ens, 3, backend=given, random_state=0)
    expected = gpc.kcc(ens, 3, backend="cupy", random_state=0)
    assert np.array_equal(found.labels.get(), expected.labels.get())


def attributes(paths):
    """Names of all attributes that some modules look up."""
    return {
        node.attr
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
    }


def test_every_member_is_of_use():
    """To code on the other side, not only to what checks and measures them."""
    beyond = {"backends", "doctor", "accept"}
    above = [
        path
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in beyond
    ]
    assert members(Backend) <= attributes(above)
    loop = ["lloyd.py", "exact_step.py", "fit.py", "seeding.py", "checkpoint.py"]
    loop += ["search.py", "best_start.py"]
    assert members(Rows) <= attributes(PACKAGE / "loop" / name for name in loop)
