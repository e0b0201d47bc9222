"""Clusterers that get the consensus as feedback: the parts of lambda-consensus."""
