"""Threads of the core and of torch's pool."""

import threading

import pytest
import torch

from siggpde.numerics.core import FEW, limited, torch_threads, usual_threads, waits_passively
from siggpde.numerics.inputs import thread_count

PASSIVE = {"OMP_WAIT_POLICY": "Passive "}


def test_few_series_leave_torch_one_thread_and_the_core_all_of_them():
    before = torch.get_num_threads()
    with limited(3, rows=40):
        assert (thread_count(None), thread_count(2), torch.get_num_threads()) == (3, 2, 1)
        with limited(2):
            assert (usual_threads(), torch.get_num_threads()) == (2, 2)
        assert (usual_threads(), torch.get_num_threads()) == (3, 1)
    assert usual_threads() == torch.get_num_threads() == before


def test_threads_are_put_back_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(KeyError), limited(before + 1, rows=1):
        raise KeyError
    assert usual_threads() == torch.get_num_threads() == before


def test_one_thread_does_not_limit_another():
    seen = []
    with limited(1009, rows=40):
        other = threading.Thread(target=lambda: seen.append(usual_threads()))
        other.start()
        other.join()
        assert usual_threads() == 1009
    assert seen[0] != 1009


@pytest.mark.parametrize("rows", [1, FEW, FEW + 1, 10**6])
@pytest.mark.parametrize("environment", [{}, PASSIVE, {"GOMP_SPINCOUNT": "0"}, {"KMP_BLOCKTIME": "200"}])
def test_torch_has_more_threads_for_many_series_where_they_sleep(rows, environment):
    sleeps = environment in (PASSIVE, {"GOMP_SPINCOUNT": "0"})
    assert waits_passively(environment) == sleeps
    assert torch_threads(4, rows, environment) == (4 if rows > FEW and sleeps else 1)
    assert torch_threads(4, None, environment) == 4
