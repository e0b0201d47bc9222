#!/usr/bin/env bash
# Write the constraints files anew: what the requirements in pyproject.toml resolve to
# today. Needs uv (pip install uv) and a registry; registry settings are not written.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# For the oldest Python the package supports, so that the pins suit every base image.
lock() { # lock OUTPUT INPUT [OPTION...]
    local output="docker/constraints-$1.txt"
    uv pip compile --quiet --upgrade --python-version 3.11 \
        --python-platform x86_64-manylinux_2_28 --only-binary :all: \
        --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
        --output-file "$output" "${@:2}" >/dev/null
    sed -i "1i # Made by docker/lock.sh on $(date -u +%F)." "$output"
    echo "$output: $(grep -c == "$output") packages"
}

lock cpu pyproject.toml
for extra in cuda12 cuda13 cuml12 cuml13; do
    lock "$extra" pyproject.toml --extra "$extra"
done
python3 -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["build-system"]["requires"], sep="\n")
print("ziglang>=0.13")  # hatch_build.py asks for it where there is no compiler
' | lock build -
