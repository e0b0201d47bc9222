"""The package as users get it: built, installed elsewhere, imported, called."""

from __future__ import annotations

import ast
import csv
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import gpu_consensus

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(gpu_consensus.__file__).parent
# of an environment, on any system
SCRIPTS = Path(sysconfig.get_path("scripts", "venv", {"base": ""}).strip("/\\"))
SITE_PACKAGES = Path(sysconfig.get_path("purelib", "venv", {"base": ""}).strip("/\\"))
NOT_ON_IMPORT = {
    "cuml",
    "cupy",
    "dask",
    "jinja2",
    "joblib",
    "matplotlib",
    "pandas",
    "rich",
    "scipy",
    "sklearn",
}


def run(*command, cwd):
    """Run a command without this process's Python settings; return what it prints."""
    env = {key: value for key, value in os.environ.items() if key[:6] != "PYTHON"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy so that the checkout stays clean."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    files = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore")
    for name in files:
        shutil.copy(ROOT / name, source)
    shutil.copy(ROOT / "gpu_consensus_command.py", source)
    for name in ("gpu_consensus", "cuda_kernels", "bench"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-q"]
    options = ["--no-deps", "--no-index", "--no-build-isolation", "-w", folder]
    run(*pip, *options, source, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def clean(wheel, tmp_path_factory):
    """A new environment with the wheel; dependencies are read from this one's."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        folder,
    ]
    run(*pip, "install", "-q", "--no-deps", "--no-index", wheel, cwd=folder)
    dependencies = [path for path in sys.path if path.endswith("-packages")]
    paths = folder / SITE_PACKAGES / "dependencies.pth"
    paths.write_text("\n".join(dependencies), encoding="utf-8")
    return folder


@pytest.fixture
def python(clean, tmp_path):
    """Run code in the clean environment, away from the checkout."""
    return lambda code: run(
        clean / SCRIPTS / "python", "-c", code, cwd=tmp_path
    ).strip()


def test_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
    tops = {name.split("/")[0] for name in files}
    version = gpu_consensus.__version__
    command = "gpu_consensus_command.py"
    assert tops == {"gpu_consensus", command, f"gpu_consensus-{version}.dist-info"}
    assert "gpu_consensus/py.typed" in files
    assert {f"gpu_consensus/report/page.{kind}" for kind in ("html.j2", "css")} <= set(
        files
    )
    assert any(n.startswith("gpu_consensus/cuda_kernels/") for n in files)
    assert any(n.startswith("gpu_consensus/bench/") for n in files)
    modules = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    kernels = {
        path.relative_to(ROOT).as_posix() for path in ROOT.glob("cuda_kernels/*")
    }
    driver = {
        path.relative_to(ROOT).as_posix() for path in ROOT.glob("bench/kernels/*")
    }
    assert driver
    assert {f"gpu_consensus/{name}" for name in modules | kernels | driver} <= set(
        files
    )


def test_installed_package_is_the_one_imported(python, clean):
    found = python("import gpu_consensus; print(gpu_consensus.__file__)")
    assert clean.resolve() in Path(found).resolve().parents


def test_installed_package_works(python):
    code = "import gpu_consensus as gpc; print(gpc.Ensemble.from_partitions([[0, 1]]))"
    assert python(code).startswith("Ensemble(1 partition of 2 objects")


def test_installed_package_has_its_data(python, clean):
    installed = clean / SITE_PACKAGES / "gpu_consensus"
    assert (installed / "py.typed").is_file()
    assert any((installed / "cuda_kernels").glob("*.cuh"))
    assert any((installed / "bench").glob("*.py"))


def test_metadata_has_the_version(python):
    code = "import importlib.metadata as m; print(m.version('gpu-consensus'))"
    assert python(code) == gpu_consensus.__version__
    code = "import gpu_consensus; print(gpu_consensus.__version__)"
    assert python(code) == gpu_consensus.__version__


def test_command_says_its_version(clean, tmp_path):
    command = clean / SCRIPTS / "gpu-consensus"
    assert gpu_consensus.__version__ in run(command, "--version", cwd=tmp_path)


def test_command_has_the_benchmarks(clean, tmp_path):
    (tmp_path / "bench").mkdir()
    command = [clean / SCRIPTS / "gpu-consensus", "bench"]
    assert "usage: gpu-consensus bench" in run(*command, "--help", cwd=tmp_path)


def test_command_clusters_an_example(clean, tmp_path):
    command = [clean / SCRIPTS / "gpu-consensus", "cluster", "--example", "iris"]
    options = ["--n-clusters", 3, "--n-partitions", 10, "--seed", 0]
    run(*command, *options, "--output", "labels.csv", cwd=tmp_path)
    with (tmp_path / "labels.csv").open(newline="") as file:
        first = [row[0] for row in csv.reader(file)]
    labels = [cell for cell in first if cell.isdigit()]
    assert len(labels) == 150
    assert len(first) - len(labels) <= 1  # a header
    assert set(labels) == {"0", "1", "2"}


def test_import_is_light_and_quick(tmp_path):
    code = f"""
import sys, time
sys.path.insert(0, {str(PACKAGE.parent)!r})
import numpy
before = set(sys.modules)
begin = time.process_time()
import gpu_consensus
print(time.process_time() - begin)
print(*{{name.split(".")[0] for name in set(sys.modules) - before}})
"""
    runs = [
        run(sys.executable, "-c", code, cwd=tmp_path).splitlines() for _ in range(3)
    ]
    assert NOT_ON_IMPORT.isdisjoint(runs[0][1].split())
    assert min(float(seconds) for seconds, _ in runs) < 0.2


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_module_has_a_docstring(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_public_names_resolve():
    names = gpu_consensus.__all__
    assert len(set(names)) == len(names)
    assert set(names) <= set(dir(gpu_consensus))
    for name in names:
        assert getattr(gpu_consensus, name) is not None
