"""The house rules, in one command for developers, hooks and every CI.

It runs with the Python it is called with, on Linux, macOS and Windows::

    python -m pip install --group lint    # pip 25.1 or newer
    python .ci/lint.py                    # every rule
    python .ci/lint.py --fix format cuda  # let the formatters write

``types`` and ``native`` need the package's dependencies too, ``pip install -e
".[test]"``; ``native`` also a C compiler, and is skipped where there is none.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GROUP = "lint"
CPP_FOLDERS = ("bench", "cuda_kernels", "gpu_consensus", "tests")
CPP_SUFFIXES = {".c", ".cpp", ".cu", ".cuh", ".h"}
# every file that another program reads, and the schema that describes it
SCHEMAS = {
    ".github/workflows/*.yml": "vendor.github-workflows",
    ".github/dependabot.yml": "vendor.dependabot",
    ".github/ISSUE_TEMPLATE/config.yml": "vendor.github-issue-config",
    ".github/ISSUE_TEMPLATE/[!c]*.yml": "vendor.github-issue-forms",
    "CITATION.cff": "vendor.citation-file-format",
}
TIMEOUTS = "custom.github-workflows-require-timeout"


def commands(fix: bool) -> dict[str, list[list[str]]]:
    """Return the commands of each rule, without their folder."""
    cpp = [
        path.relative_to(ROOT).as_posix()
        for folder in CPP_FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in CPP_SUFFIXES
    ]
    workflows = files(".github/workflows/*.yml")
    return {
        "lint": [["ruff", "check", *(["--fix"] if fix else [])]],
        "format": [["ruff", "format", *([] if fix else ["--check"])]],
        "types": [["mypy"]],
        "cuda": [["clang-format", *(["-i"] if fix else ["-n", "-Werror"]), *cpp]],
        "native": [["python", ".ci/native.py"]],
        "files": [
            *(
                ["check-jsonschema", "--builtin-schema", schema, *files(pattern)]
                for pattern, schema in SCHEMAS.items()
            ),
            ["check-jsonschema", "--builtin-schema", TIMEOUTS, *workflows],
        ],
    }


def files(pattern: str) -> list[str]:
    """Return the files of a pattern, of which there must be one."""
    found = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern))
    if not found:
        sys.exit(f"no file is called {pattern}; mend SCHEMAS in .ci/lint.py.")
    return found


def wrong_versions() -> list[str]:
    """Return what is not installed as pyproject.toml pins it."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wrong = []
    for pin in groups["dependency-groups"][GROUP]:
        name, _, version = pin.partition("==")
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            found = "not installed"
        if found != version:
            wrong.append(f"{name} should be {version}, and is {found}")
    return wrong


def run(command: list[str]) -> bool:
    """Run a command of this environment in the root; return whether it passed."""
    program = shutil.which(command[0], path=sysconfig.get_path("scripts"))
    if command[0] == "python":  # this one, which need not be beside its scripts
        program = sys.executable
    if program is None:
        sys.exit(f"{command[0]} is not beside {sys.executable}.")
    print("$", *command[:4], *(["..."] if len(command) > 4 else []), flush=True)
    done = subprocess.run([program, *command[1:]], cwd=ROOT, check=False)
    return done.returncode == 0


def main() -> None:
    """Run the rules that are asked for, or all, and end with 1 if one is broken."""
    names = list(commands(fix=False))
    parser = argparse.ArgumentParser(description="Check the house rules.")
    parser.add_argument("rules", nargs="*", help=f"of {', '.join(names)}; default: all")
    parser.add_argument("--fix", action="store_true", help="mend what tools can mend")
    arguments = parser.parse_args()
    unknown = set(arguments.rules) - set(names)
    if unknown:
        parser.error(f"rules={sorted(unknown)} should be of {', '.join(names)}.")
    wrong = wrong_versions()
    if wrong:
        cure = f"{sys.executable} -m pip install --group {GROUP}  # pip 25.1 or newer"
        sys.exit("\n".join([*wrong, f"install them: {cure}"]))
    broken = []
    for name in arguments.rules or names:
        begin = time.monotonic()
        # every command of a rule, so that one round shows all complaints
        passed = [run(command) for command in commands(arguments.fix)[name]]
        print(f"{name}: {time.monotonic() - begin:.1f} s", flush=True)
        if not all(passed):
            broken.append(name)
    if broken:
        sys.exit(f"broken rules: {', '.join(broken)}")
    print("every rule holds")


if __name__ == "__main__":
    main()
