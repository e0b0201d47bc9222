"""``python -m gpu_consensus.doctor``: print what runs here."""

import sys

from gpu_consensus.cli.main import run

if __name__ == "__main__":
    sys.argv.insert(1, "doctor")
    run()
