"""Choosing the number of clusters: structure in features, agreement of labels."""
