"""The house rules agree with each other: versions, commands, workflows."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

import gpu_consensus

ROOT = Path(__file__).resolve().parents[1]
HOOKS = ".pre-commit-config.yaml"


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def project():
    return tomllib.loads(read("pyproject.toml"))


def tools(project, group):
    """Requirements of a dependency group and of those that it includes."""
    for entry in project["dependency-groups"][group]:
        if isinstance(entry, dict):
            yield from tools(project, entry["include-group"])
        else:
            yield entry


def test_ci_runs_the_test_command_of_the_readme():
    (command,) = re.findall(r"^python3 .*-m pytest$", read("README.md"), re.MULTILINE)
    assert f"\n{command}\n" in read(".ci/run")


def test_every_tool_is_pinned_once_and_not_published(project):
    pins = set(tools(project, "dev"))
    names = [re.match(r"[\w-]+", pin)[0] for pin in pins]
    assert all(re.match(r"[\w-]+==[\d.]+(;|$)", pin) for pin in pins)
    assert len(set(names)) == len(names)
    assert set(tools(project, "lint")) <= pins
    assert "dev" not in project["project"]["optional-dependencies"]
    assert {"ruff", "mypy", "clang-format"} <= set(names)


def test_workflows_and_hooks_call_the_scripts_that_developers_call():
    assert "run: .ci/run\n" in read(".github/workflows/test.yml")
    assert "run: python .ci/lint.py\n" in read(".github/workflows/lint.yml")
    assert "run: python .ci/release.py test\n" in read(".github/workflows/release.yml")
    rules = re.findall(r"entry: python .ci/lint.py (?:--fix )?(\w+)", read(HOOKS))
    known = re.findall(r'^        "(\w+)": \[', read(".ci/lint.py"), re.MULTILINE)
    assert sorted(rules) == sorted(known)


def test_workflows_test_every_python_that_the_package_names(project):
    versions = [
        name.rpartition(" ")[2]
        for name in project["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", name)
    ]
    (row,) = re.findall(r"python: \[(.*)\]", read(".github/workflows/test.yml"))
    assert re.findall(r"[\d.]+", row) == versions
    assert project["project"]["requires-python"] == f">={versions[0]}"


def test_only_publishing_may_ask_for_a_token():
    for path in (ROOT / ".github" / "workflows").iterdir():
        text = path.read_text(encoding="utf-8")
        assert "\npermissions:\n  contents: read\n" in text, path.name
        asked = re.findall(r"[\w-]+: write", text)
        assert asked == (["id-token: write"] if path.name == "release.yml" else [])


def test_the_version_is_the_same_everywhere():
    version = gpu_consensus.__version__
    assert f"\nversion: {version}\n" in read("CITATION.cff")
    changes = read("CHANGELOG.md")
    assert "\n## [Unreleased]\n" in changes
    assert re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE
    )


@pytest.mark.parametrize("guide", ["CONTRIBUTING.md", "SECURITY.md"])
def test_files_that_a_guide_names_exist(guide):
    names = re.findall(r"`((?:\w+/|\.ci/)[\w./-]*\.\w+)`", read(guide))
    assert names or guide != "CONTRIBUTING.md"
    missing = [name for name in names if not (ROOT / name).exists()]
    assert not missing


def test_no_module_of_tests_imports_another():
    """What two of them need is in a module of its own, which holds no test."""
    imports = r"^(?:from|import) (test_\w+)"
    found = {
        path.name: names
        for path in (ROOT / "tests").rglob("*.py")
        if (names := re.findall(imports, path.read_text(encoding="utf-8"), re.M))
    }
    assert not found


def imported(path):
    """Names of all modules that a file imports, at its top or within a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{alias.name}" for alias in names)


def test_only_backends_know_the_compiler():
    """All others reach compiled code through backends/host_loops.py or a backend."""
    package = ROOT / "gpu_consensus"
    known = {
        path.relative_to(package)
        for path in package.rglob("*.py")
        for name in imported(path)
        if re.search(r"(^|\.)(ctypes|native)(\.|$)", name)
    }
    assert known
    # the doctor says how the library was built
    assert {path.parts[0] for path in known} == {"backends", "doctor"}


ROOMS = (
    "util",
    "backends",
    "ensemble",
    "data_files",
    "loop",
    "result",
    "metrics",
    "examples",
    "graphs",
    "generate",
    "feedback",
    "methods",
    "distributed",
    "select",
    "cluster",
    "anndata",
    "estimator",
    "plot",
    "doctor",
    "report",
    "accept",
    "cli",
)
"""Folders and modules of the package; each imports only from those before it."""


def test_imports_go_one_way():
    """Also those within functions; only entry points may look up."""
    package = ROOT / "gpu_consensus"
    wrong = []
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).with_suffix("").parts[0]
        if path.name == "__main__.py" or room == "__init__":
            continue
        for name in imported(path):
            parts = name.split(".")
            if parts[0] == "gpu_consensus" and len(parts) > 1 and parts[1] in ROOMS:
                above = ROOMS.index(parts[1]) > ROOMS.index(room)
                wrong += [f"{path.relative_to(ROOT)}: {name}"] * above
    assert not wrong
