"""The search for the minimum of a function of one number."""

from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from siggpde.gp.bounded_search import minimize_bounded


@given(st.floats(-1.0, 1.0), st.floats(0.1, 10.0))
def test_the_minimum_is_that_of_scipy_within_the_resolution(centre: float, steepness: float):
    def function(x: float) -> float:
        return steepness * (x - centre) ** 2 + 0.1 * (x - centre) ** 4

    exact = minimize_scalar(function, bounds=(-2.0, 3.0), method="bounded", options={"xatol": 1e-9}).x
    assert abs(minimize_bounded(function, -2.0, 3.0) - exact) <= 5.0 / 2000


def test_at_a_bound():
    assert abs(minimize_bounded(lambda x: x, 0.0, 1.0)) < 1 / 2000
