"""Helpers that know nothing of series: files that survive crashes, hashes, progress."""
