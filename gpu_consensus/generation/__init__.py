"""The parts of ``generate_partitions``: what a partition sees, clusters and keeps."""
