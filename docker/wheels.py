"""Tell how many wheels an image takes and how large they are: wheels.py TOML PINS.

TOML is a ``pylock.toml`` as uv resolves it for one Python and platform, PINS the
constraints file that the Dockerfile installs. Fails where a package has no wheel, or
where one is not pinned; a pin more, for another Python, does no harm. Of the wheels
only the sizes are asked for.
"""

from __future__ import annotations

import sys
import tomllib
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def pins(text: str) -> dict[str, str]:
    """Read ``name==version`` lines; comments and empty lines are left out."""
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return dict(line.split("==") for line in lines if line)


def size(url: str) -> int:
    """Ask how many bytes a file has."""
    question = urllib.request.Request(url, method="HEAD")
    with urllib.request.urlopen(question, timeout=60) as answer:
        return int(answer.headers["Content-Length"])


def main(lock: str, constraints: str) -> str:
    """Return one line about the wheels, or exit and say what is wrong."""
    packages = tomllib.loads(Path(lock).read_text())["packages"]
    resolved = {package["name"]: package["version"] for package in packages}
    pinned = pins(Path(constraints).read_text())
    differ = sorted(dict(resolved.items() - pinned.items()))
    if differ:
        sys.exit(f"{', '.join(differ)}: not as pinned; run docker/lock.sh again.")
    without = [package["name"] for package in packages if not package.get("wheels")]
    if without:
        sys.exit(f"{', '.join(without)}: there is no wheel.")
    with ThreadPoolExecutor(8) as pool:
        wheels = [package["wheels"][0] for package in packages]
        sizes = list(pool.map(lambda w: w.get("size") or size(w["url"]), wheels))
    return f"{len(wheels)} wheels, {sum(sizes) / 1e6:,.0f} MB to download"


if __name__ == "__main__":
    print(main(*sys.argv[1:]))  # noqa: T201
