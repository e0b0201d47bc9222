"""Clusterers that hear the consensus: the parts of lambda-consensus."""
