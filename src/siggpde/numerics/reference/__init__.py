"""Slow, obvious implementations of the numerical operations, in plain torch: the oracles of the fast ones."""
