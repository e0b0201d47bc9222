"""Benchmarks: ``python -m bench papers`` in a checkout, and in the installed package.

The JSON file is the result; Markdown is made from it. See ``suite`` for how to add one.
"""
