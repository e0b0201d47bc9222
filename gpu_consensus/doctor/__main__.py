"""``python -m gpu_consensus.doctor``: print what runs here."""

import sys

from gpu_consensus.cli import main

if __name__ == "__main__":
    sys.exit(main(["doctor", *sys.argv[1:]]))
