"""The one loop of the k-means family, and what it needs."""
