"""What holds for all tests: modules that are left out, the threads of torch, and settings of Hypothesis.

Modules that need an optional dependency are left out without it. After a test torch has as many threads as before, or
later tests of the process would compute with others, and the figures that were drawn are closed. Hypothesis accepts
slow examples, for the machine may be busy, and draws the same ones whichever tests run: it would take constants from
all modules that are imported.
"""

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
if hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = Constants

os.environ.setdefault("MPLBACKEND", "Agg")
collect_ignore_glob = [] if find_spec("triton") else ["src/siggpde/numerics/triton/*"]


@pytest.fixture(autouse=True)
def state_of_libraries() -> Iterator[None]:
    """Sets the number of torch's threads back to that before a test, and closes matplotlib's figures."""
    torch = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    yield
    if torch is not None and torch.get_num_threads() != before:
        torch.set_num_threads(before)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
