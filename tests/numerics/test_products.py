"""Sums of products of features, against matrix products in float64."""

import pytest
import torch
from torch import Tensor

from helpers.random_paths import generator, numbers_from
from siggpde.numerics.core import core
from siggpde.numerics.products import FeatureProducts, product
from siggpde.numerics.windows import LARGEST

WIDTHS = (1, 0, 7, 31, 128, 129, 1003)
KERNELS = (0, 2, 1, 0, 1, 2, 2)
UNITS = [0.5, 3.0, 1.0, 0.1, 0.25, 2.0, 0.7]


def whole(rows: int, columns: int, seed: int) -> Tensor:
    """Whole numbers, of which some have the largest size."""
    values = torch.randint(
        -int(LARGEST), int(LARGEST) + 1, (rows, columns), generator=generator(seed), dtype=torch.int16
    )
    return torch.where(values > 5000, int(LARGEST), values)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 130])
@pytest.mark.parametrize("m", [1, 3, 7, 70])
@pytest.mark.parametrize("together", [True, False])
def test_sums_of_whole_numbers_are_those_of_matrix_products(n: int, m: int, together: bool):
    landmarks = [whole(m, width, number) for number, width in enumerate(WIDTHS)]
    x = whole(n, sum(WIDTHS), 99)
    products = FeatureProducts(landmarks, UNITS, KERNELS)
    sums, own = None, [2 * unit for unit in UNITS]
    parts = x.split(list(WIDTHS), 1)
    if together:
        sums = products.add(sums, 0, x, own)
    else:
        for number, part in enumerate(parts):
            sums = products.add(sums, number, part, own[number : number + 1])
    gram, norms = torch.zeros(3, n, m).double(), torch.zeros(3, n).double()
    for part, other, kernel, unit, mine in zip(parts, landmarks, KERNELS, UNITS, own, strict=True):
        gram[kernel] += mine * unit * (part.double() @ other.double().T)  # exact: sums stay below 2^53
        norms[kernel] += mine * mine * part.double().square().sum(1)
    assert sums is not None and torch.equal(sums[0], gram) and torch.equal(sums[1], norms)


def test_the_largest_numbers_stay_in_range():
    x = torch.full((3, 1000), int(LARGEST), dtype=torch.int16)
    products = FeatureProducts([-x], [1.0], [0])
    gram, norms = products.add(None, 0, x, [1.0])
    assert bool((gram == -1000 * LARGEST**2).all()) and bool((norms == 1000 * LARGEST**2).all())


def test_features_in_floating_point_may_stand_beside_whole_numbers():
    floats = torch.randn(6, 20, generator=generator(1)).double()
    products = FeatureProducts([whole(6, 5, 2), floats], [0.5, 2.0], [0, 0])
    x, y = whole(4, 5, 3), torch.randn(4, 20, generator=generator(4)).double()
    sums = products.add(products.add(None, 0, x, [0.5]), 1, y, [1.0])
    expected = 0.25 * (x.double() @ whole(6, 5, 2).double().T) + 2 * y @ floats.T
    torch.testing.assert_close(sums[0][0], expected, rtol=1e-14, atol=1e-12)


@pytest.mark.parametrize(("n", "m", "columns"), [(1, 1, 1), (4, 9, 500), (9, 130, 33), (0, 3, 8)])
def test_a_split_product_has_the_digits_of_float64(n: int, m: int, columns: int):
    x, y = (torch.randn(rows, columns, generator=generator(rows)) for rows in (n, m))
    wide = x.double() + 1e-9
    actual = product(wide, y)
    torch.testing.assert_close(actual, wide @ y.double().T, rtol=1e-13, atol=1e-12)
    for row in range(n):
        assert torch.equal(product(wide[row : row + 1], y)[0], actual[row])


CODE = """
import torch
from siggpde.numerics.products import product
x = torch.linspace(-1, 1, 3 * 203).double().sin().reshape(3, 203)
y = torch.linspace(-3, 5, 11 * 203).cos().reshape(11, 203)
print(product(x, y).flatten().tolist())
"""


@pytest.mark.skipif(core is None, reason="the native core is not there")
@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_instruction_sets_give_the_same_bits(isa: str):
    assert numbers_from(CODE) == numbers_from(CODE, SIGGPDE_ISA=isa)
