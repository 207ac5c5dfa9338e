"""Modules whose examples cannot be collected without an optional dependency; and the threads of torch after a test.

Later tests of a process would compute with whatever number of threads a test leaves behind.
"""

import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("triton") else ["src/siggpde/numerics/triton/*"]


@pytest.fixture(autouse=True)
def threads_of_torch() -> Iterator[None]:
    """Sets the number of torch's threads back to that before a test."""
    torch = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    yield
    if torch is not None and torch.get_num_threads() != before:
        torch.set_num_threads(before)
