"""Numbers of Tables 1 to 4 of the least-squares paper (Mirkin and Shestakov)."""

from __future__ import annotations

from typing import NamedTuple


class Printed(NamedTuple):
    """ARI against the generated classes, and number of clusters: mean and deviation."""

    ari: float
    ari_std: float
    n_clusters: float
    n_clusters_std: float


SETTINGS: dict[str, tuple[int, int]] = {
    "k = 9": (9, 9),
    "k = 6": (6, 6),
    "k = 12": (12, 12),
    "k in 6..12": (6, 12),
}
"""The k of the basic partitions in Tables 1, 2, 3 and 4; there are 9 classes."""

PAPER: dict[str, dict[str, Printed]] = {
    "k = 9": {
        "ARA": Printed(0.9578, 0.0246, 7.6, 0.5164),
        "Vote": Printed(0.7671, 0.0624, 8.9, 0.3162),
        "cVote": Printed(0.7219, 0.0882, 8.1, 0.7379),
        "Fus": Printed(0.7023, 0.0892, 11.6, 1.8379),
        "Borda": Printed(0.7938, 0.1133, 8.5, 0.7071),
        "MCLA": Printed(0.7180, 0.0786, 8.6, 0.6992),
    },
    "k = 6": {
        "ARA": Printed(0.8333, 0.0586, 6.2, 0.6325),
        "Vote": Printed(0.7769, 0.0895, 5.9, 0.3162),
        "cVote": Printed(0.7606, 0.0774, 5.6, 0.6992),
        "Fus": Printed(0.8501, 0.1154, 7.7, 1.3375),
        "Borda": Printed(0.7786, 0.0916, 6.0, 0.0),
        "MCLA": Printed(0.7902, 0.0516, 6.0, 0.0),
    },
    "k = 12": {
        "ARA": Printed(0.9729, 0.0313, 9.0, 0.9428),
        "Vote": Printed(0.6958, 0.0796, 11.4, 0.5164),
        "cVote": Printed(0.672, 0.0887, 10.9, 0.7379),
        "Fus": Printed(0.6339, 0.0827, 16.0, 4.0),
        "Borda": Printed(0.7132, 0.074, 11.1, 0.7379),
        "MCLA": Printed(0.6396, 0.0762, 11.9, 0.3162),
    },
    "k in 6..12": {
        "ARA": Printed(0.9648, 0.019, 6.8, 0.7888),
        "cVote": Printed(0.5771, 0.1695, 10.4, 1.2649),
        "Fus": Printed(0.62, 0.0922, 11.6, 2.0656),
        "MCLA": Printed(0.6567, 0.1661, 10.6, 1.3499),
    },
}
