"""Pictures of ensembles and of what was found in them; they need matplotlib.

Each function takes results and, if you like, the ``ax`` to draw on, and returns it. A
picture has a title, a text alternative (:func:`text_of`) and its numbers as a table
(:func:`table_of`). Colours are those of Okabe and Ito, or cividis, and none of them is
the only sign of anything: clusters carry their numbers.
"""

from gpu_consensus.plot.candidates import candidates
from gpu_consensus.plot.cluster_tree import cluster_tree
from gpu_consensus.plot.coassociation import coassociation
from gpu_consensus.plot.confidence import confidence
from gpu_consensus.plot.contingency import contingency
from gpu_consensus.plot.embedding import embedding
from gpu_consensus.plot.history import history
from gpu_consensus.plot.pair_distribution import pair_distribution
from gpu_consensus.plot.picture import Note, table_of, text_of
from gpu_consensus.plot.quality_diversity import quality_diversity
from gpu_consensus.plot.selection import selection
from gpu_consensus.plot.similarity import similarity

__all__ = [
    "Note",
    "candidates",
    "cluster_tree",
    "coassociation",
    "confidence",
    "contingency",
    "embedding",
    "history",
    "pair_distribution",
    "quality_diversity",
    "selection",
    "similarity",
    "table_of",
    "text_of",
]
