"""What can be told of the images without building them; docker/check.sh builds them."""

import fnmatch
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
COMPILED = (".so", ".dylib", ".dll")  # of this machine
DOCKER = ROOT / "docker"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def requirements(extra):
    """What an installation with this extra asks for itself, extras of ours included."""
    if extra == "build":
        found = PROJECT["build-system"]["requires"]
    else:
        found = list(PROJECT["project"]["dependencies"])
        waiting = [extra] if extra != "cpu" else []
        while waiting:
            for text in PROJECT["project"]["optional-dependencies"][waiting.pop()]:
                if Requirement(text).name == "gpu-consensus":
                    waiting.extend(Requirement(text).extras)
                else:
                    found.append(text)
    return [Requirement(text) for text in found]


@pytest.mark.parametrize(
    "extra", ["cpu", "cuda12", "cuda13", "cuml12", "cuml13", "build"]
)
def test_the_pins_are_what_the_package_asks_for(extra):
    lines = (DOCKER / f"constraints-{extra}.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert all(re.fullmatch(r"[\w.]+", version) for version in pins.values())
    for requirement in requirements(extra):
        pin = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pin), f"run docker/lock.sh: {requirement}"


def test_every_target_is_there_and_cpu_is_the_default():
    text = (DOCKER / "Dockerfile").read_text()
    stages = re.findall(r"^FROM \S+ AS (\S+)$", text, re.MULTILINE)
    assert {"cpu", "gpu", "gpu-cuml"} <= set(stages)
    assert stages[-1] == "cpu"


def fits(pattern, path):
    if pattern.startswith("**/"):
        return fnmatch.fnmatch(path.split("/")[-1], pattern[3:])
    return path.count("/") == pattern.count("/") and fnmatch.fnmatch(path, pattern)


def sent(path):
    """Whether .dockerignore lets a file through: the last line that fits decides."""
    parts = path.split("/")
    and_above = ["/".join(parts[:i]) for i in range(1, len(parts) + 1)]
    decision = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if any(fits(line.lstrip("!"), part) for part in and_above):
            decision = line.startswith("!")
    return decision


def test_the_builder_gets_what_the_wheel_needs_and_nothing_else():
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    folders = [*wheel["packages"], *wheel["force-include"]]
    files = [
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        *PROJECT["project"]["license-files"],
    ]
    for folder in folders:
        inside = [p for p in (ROOT / folder).rglob("*") if p.is_file()]
        files += [
            str(p.relative_to(ROOT))
            for p in inside
            if "__pycache__" not in str(p) and p.suffix not in COMPILED
        ]
    files += [f"docker/{path.name}" for path in DOCKER.glob("constraints-*.txt")]
    assert [path for path in files if not sent(path)] == []
    private = [".git/config", ".venv/pip.conf", "tests/conftest.py", "docker/check.sh"]
    private += [f"gpu_consensus/backends/native/gpc{end}" for end in COMPILED]
    private += ["gpu_consensus/__pycache__/cli.cpython-312.pyc", ".pypirc", "data.csv"]
    assert [path for path in private if sent(path)] == []


def test_the_compose_file_is_valid():
    pytest.importorskip("check_jsonschema")
    schema = ["--builtin-schema", "vendor.compose-spec"]
    command = [sys.executable, "-m", "check_jsonschema", *schema]
    done = subprocess.run(
        [*command, DOCKER / "compose.yaml"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
