"""Compile all kernels for all architectures; print the tables, or write them."""

import argparse
import sys

from readme_tables import PATH, write

from nvrtc import compile_all, why_no_nvrtc
from nvrtc.readme import SECTION, render


def main() -> None:
    parser = argparse.ArgumentParser(prog="nvrtc", description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help=f"put the tables into {PATH.name}"
    )
    arguments = parser.parse_args()
    reason = why_no_nvrtc()
    if reason:
        sys.exit(f"cannot compile CUDA kernels: {reason}.")
    usages, warnings = compile_all()
    body = render(usages)
    if arguments.write:
        write(SECTION, body)
    else:
        sys.stdout.write(body)
    sys.stderr.writelines(f"{line}\n" for line in warnings)


if __name__ == "__main__":
    main()
