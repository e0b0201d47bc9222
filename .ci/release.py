"""Build what is published, and test it where the sources are not.

On Linux, macOS and Windows, with the Python it is called with::

    python -m pip install --group release    # pip 25.1 or newer
    python .ci/release.py build              # dist/: sdist and wheel, checked
    python .ci/release.py build --tag v0.1.0 # and that this is the version of the tag
    python .ci/release.py build --wheel      # the wheel alone
    python .ci/release.py test               # the tests, against the wheel of dist/
    python .ci/release.py test tests/methods/test_kcc.py

A wheel is for all versions of Python and one platform, whose compiled code it has. On
Linux the ziglang wheel compiles it, whatever compiler there is: zig links for an old
glibc, which the name manylinux promises.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
# what a user of the wheel has not: the tests must find it installed
SOURCES = ("gpu_consensus", "cuda_kernels")
# tests of the checkout itself: they build the wheel once more, or read the guides
OF_SOURCES = ("test_house.py", "test_package.py")


def version() -> str:
    """Return the version that the package states."""
    text = (ROOT / "gpu_consensus" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if found is None:
        sys.exit("gpu_consensus/__init__.py should state __version__.")
    return found[1]


def check_tag(tag: str) -> None:
    """Refuse a tag that is not the version, or of which the changelog knows nothing."""
    if tag != f"v{version()}":
        sys.exit(f"tag={tag!r} should be 'v{version()}', the version of the package.")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if f"\n## [{version()}] - " not in changes:
        sys.exit(f"CHANGELOG.md should have a dated section [{version()}].")


def build(tag: str | None, wheel_only: bool) -> None:
    """Make ``dist/`` anew: the sdist, and from it the wheel; or the wheel alone."""
    if tag is not None:
        check_tag(tag)
    shutil.rmtree(DIST, ignore_errors=True)
    kinds = ["--wheel"] if wheel_only else []
    # hatch_build.py asks for zig where it finds no compiler
    env = {"PATH": "", "CC": ""} if sys.platform == "linux" else {}
    run(sys.executable, "-m", "build", *kinds, "--outdir", DIST, ROOT, env=env)
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir()))
    (wheel,) = DIST.glob("*.whl")
    wanted = "manylinux" if sys.platform == "linux" else "py3-none-"
    if wanted not in wheel.name or wheel.name.endswith("-none-any.whl"):
        sys.exit(f"{wheel.name} should be a {wanted} wheel with compiled code.")


def test(arguments: list[str]) -> None:
    """Run the tests of the sdist on the wheel, in a folder without the package."""
    (sdist,) = DIST.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (source,) = folder.iterdir()
        for package in SOURCES:
            shutil.rmtree(source / package)
        for module in ("gpu_consensus_command.py", *(f"tests/{x}" for x in OF_SOURCES)):
            (source / module).unlink()
        venv.create(folder / "venv", with_pip=True)
        scripts = sysconfig.get_path("scripts", "venv", {"base": str(folder / "venv")})
        python = Path(scripts) / "python"
        pip = (python, "-m", "pip", "--disable-pip-version-check")
        # of the wheels of all platforms, the one that pip would take here
        only = ("--no-deps", "--no-index", "--only-binary", ":all:")
        here = ("--find-links", DIST, "--dest", folder)
        run(*pip, "download", "-q", *only, *here, f"gpu-consensus=={version()}")
        (wheel,) = folder.glob("*.whl")
        run(*pip, "install", "-q", f"{wheel}[test]")
        where = "import gpu_consensus; print(gpu_consensus.__file__)"
        run(python, "-c", where, cwd=source)
        run(python, "-m", "pytest", *(arguments or ["tests"]), cwd=source)


def run(
    *command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None
) -> None:
    """Run a command without this process's Python settings, or end as it ended."""
    kept = {key: value for key, value in os.environ.items() if key[:6] != "PYTHON"}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=kept | (env or {}), check=False)
    if done.returncode:
        sys.exit(done.returncode)


def main() -> None:
    """Build or test, as the command line says."""
    parser = argparse.ArgumentParser(description="Build and test a release.")
    steps = parser.add_subparsers(dest="step", required=True)
    making = steps.add_parser("build", help="make dist/ and check it")
    making.add_argument("--tag", help="the tag, which should be v and the version")
    making.add_argument("--wheel", action="store_true", help="the wheel alone")
    steps.add_parser("test", help="test the wheel of dist/; more goes to pytest")
    arguments, rest = parser.parse_known_args()
    if arguments.step == "test":
        test(rest)
    elif rest:
        parser.error(f"unknown arguments: {' '.join(rest)}")
    else:
        build(arguments.tag, arguments.wheel)


if __name__ == "__main__":
    main()
