"""Modules whose examples cannot be collected without an optional dependency."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("triton") else ["src/siggpde/numerics/triton/*"]
