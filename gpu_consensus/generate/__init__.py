"""Basic partitions from features: on the host or on a device."""
