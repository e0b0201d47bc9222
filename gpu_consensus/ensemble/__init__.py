"""An ensemble of basic partitions: its labels as codes, in memory and on disk."""
