"""Values of the signature kernel have the properties the mathematics says, and the accuracy that was asked for.

The series solver keeps its promise, |error| <= tol sqrt(k(X,X) k(Y,Y)), and finite differences are the paper's. On real
series the truncated signature never has more than the kernel: what is left out has a variance, not less.
"""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import siggpde
from helpers.random_paths import FAMILIES, batches, brownian, few, generator, make, modest, smooth
from siggpde import signature, signature_kernel, signature_kernel_diag
from siggpde.datasets import load_dataset
from siggpde.numerics import reference
from siggpde.numerics.autograd import Pairs
from siggpde.numerics.goursat import LEGENDRE, empty_cells, solve_goursat, split_path
from siggpde.numerics.static_kernels import KernelSettings
from siggpde.numerics.words import count_up_to

PRECISE = 1e-12
seeds = st.integers(0, 2**31)
dtypes = st.sampled_from([torch.float64, torch.float32])


def kernel(x: Tensor, y: Tensor) -> Tensor:
    return signature_kernel(x, y, tol=PRECISE)


def diag(x: Tensor) -> Tensor:
    return signature_kernel_diag(x, tol=PRECISE)


def sizes(x: Tensor, y: Tensor) -> Tensor:
    """sqrt(k(X, X) k(Y, Y)), (n, m), what errors are measured against."""
    return (diag(x)[:, None] * diag(y)[None, :]).sqrt()


def close(got: Tensor, wanted: Tensor | float, scale: Tensor | float) -> bool:
    allowed = 1e-10 if got.dtype == torch.float64 else 1e-4
    return bool(((got.double() - wanted).abs() <= allowed * scale).all())


def bessel(product: float) -> float:
    """sum over n of product^n / n!^2: I_0(2 sqrt(product)), or J_0 for a negative product."""
    terms, term = [1.0], 1.0
    for n in range(1, 80):
        term *= product / n**2
        terms.append(term)
    return math.fsum(terms)


@modest
@given(seeds, st.integers(1, 30), st.floats(0, 6), st.floats(0, 6), st.integers(2, 300), dtypes)
def test_straight_lines_give_bessel_functions(
    seed: int, channels: int, a: float, b: float, points: int, dtype: torch.dtype
):
    random = generator(seed)
    ends = torch.randn(2, channels, generator=random).double()
    ends = ends * torch.tensor([[a], [b]], dtype=torch.float64) / ends.norm(dim=1, keepdim=True)
    shares = torch.cat([torch.zeros(1), torch.rand(points - 2, generator=random).sort().values, torch.ones(1)])
    x, y = (shares[None, :, None] * ends[0]).to(dtype), torch.stack([torch.zeros(channels), ends[1]])[None].to(dtype)
    product, size = float(ends[0] @ ends[1]), math.sqrt(bessel(a * a) * bessel(b * b))
    assert close(kernel(x, y), bessel(product), size)
    assert close(kernel(x, -y), bessel(-product), size)
    assert close(diag(x), bessel(a * a), bessel(a * a))


@modest
@given(batches(min_length=2, max_length=100), st.integers(1, 20), dtypes)
def test_order_direction_position_and_repeated_ends_do_not_matter(x: Tensor, more: int, dtype: torch.dtype):
    x, y = x.to(dtype), make("smooth", 0, 3, 7, x.shape[2], 1.5).to(dtype)
    padded = torch.cat([x, x[:, -1:].expand(-1, more, -1)], 1)
    wanted, size, norms = kernel(x, y), sizes(x, y), diag(x)
    for same in (kernel(y, x).T, kernel(x.flip(1), y.flip(1)), kernel(x + 1.0, y - 2.0), kernel(padded, y)):
        assert close(same, wanted, size)
    # The kernel of a reversed path with itself is that of the path: a fall along one is a rise along the other.
    for same in (diag(x + 3.0), diag(padded)):
        assert close(same, norms, norms)


def test_repeating_the_last_point_changes_no_bit_of_a_short_path():
    x = make("smooth", 2, 5, 20, 3, 0.5)
    padded = torch.cat([x, x[:, -1:].expand(-1, 9, -1)], 1)
    assert torch.equal(diag(padded), diag(x))


@modest
@given(batches(min_length=2, max_length=100, max_channels=8), st.data())
def test_a_point_on_a_segment_changes_nothing(x: Tensor, data: st.DataObject):
    at, share = data.draw(st.integers(1, x.shape[1] - 1)), data.draw(st.floats(0, 1))
    middle = x[:, at - 1 : at] * (1 - share) + x[:, at : at + 1] * share
    longer = torch.cat([x[:, :at], middle, x[:, at:]], 1)
    # Where a path comes back on itself, k(X, X) is smaller than on the way, and rounding as large as there.
    largest = torch.stack([diag(x[:, :stop]) for stop in range(2, x.shape[1] + 1)]).amax(0)
    assert close(diag(longer), diag(x), largest)
    y = make("brownian", 1, 2, 5, x.shape[2])
    assert close(kernel(longer, y), kernel(x, y), (largest[:, None] * diag(y)).sqrt())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_paths_that_do_not_move_give_one(dtype: torch.dtype):
    y = make("brownian", 0, 4, 9, 3).to(dtype)
    for still in (torch.full((2, 1, 3), 5.0), torch.full((2, 30, 3), -1.5), torch.zeros(2, 2, 3)):
        assert torch.equal(kernel(still.to(dtype), y), torch.ones(2, 4, dtype=dtype))
        assert torch.equal(kernel(y, still.to(dtype)), torch.ones(4, 2, dtype=dtype))
        assert torch.equal(signature_kernel(still.to(dtype)), torch.ones(2, 2, dtype=dtype))
        assert torch.equal(diag(still.to(dtype)), torch.ones(2, dtype=dtype))
        assert torch.equal(signature_kernel_diag(still.to(dtype), log=True), torch.zeros(2, dtype=dtype))


@few
@given(seeds, st.integers(1, 3), st.floats(0.1, 2))
def test_deep_signatures_tend_to_the_kernel_from_below(seed: int, channels: int, size: float):
    x = torch.stack([smooth(generator(seed + i), 15, channels, size) for i in range(4)])
    k = diag(x)
    for depth in (2, 5, 8):
        coefficients = signature(x, depth=depth)
        assert coefficients.shape[1] == count_up_to(channels, depth)
        tail = k - coefficients.square().sum(1)
        # A path of length L has |S_n| <= L^n / n!.
        bound = sum((size**n / math.factorial(n)) ** 2 for n in range(depth + 1, 60))
        assert (tail >= -1e-13 * k).all()
        assert (tail <= bound + 1e-13 * k).all()
    gram = coefficients @ coefficients.T
    assert ((gram - kernel(x, x)).abs() <= bound + 1e-11 * sizes(x, x)).all()


@few
@given(batches(n=12, max_length=40, max_channels=6))
def test_gram_matrices_are_positive_and_their_diagonal_is_the_diagonal(x: Tensor):
    x = torch.cat([x, x[:2], x[:1] * 0.99])
    gram = signature_kernel(x, tol=PRECISE)
    assert torch.equal(gram, gram.T)
    assert close(gram.diagonal(), diag(x), diag(x))
    assert close(gram, kernel(x, x), sizes(x, x))
    eigenvalues = torch.linalg.eigvalsh(gram)
    assert eigenvalues[0] >= -1e-10 * eigenvalues[-1]


@modest
@given(batches(max_length=100), dtypes)
def test_logarithms_are_logarithms(x: Tensor, dtype: torch.dtype):
    x = x.to(dtype)
    got = signature_kernel_diag(x, log=True, tol=PRECISE)
    assert got.dtype == dtype
    assert close(got, diag(x.double()).log(), 1 + got.abs())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("points", [2, 40])
def test_logarithms_exist_where_the_kernel_overflows(dtype: torch.dtype, points: int):
    x = (torch.linspace(0, 1, points)[:, None] * torch.tensor([300.0, 400.0])).to(dtype)[None]
    got = signature_kernel_diag(x, log=True)
    wanted = torch.special.i0e(torch.tensor([1000.0]).double()).log() + 1000
    assert got.dtype == dtype
    assert torch.allclose(got.double(), wanted, rtol=1e-10 if dtype == torch.float64 else 1e-6)


def test_logarithms_grow_with_the_path_past_the_range_of_the_kernel():
    x = make("brownian", 3, 3, 60, 3, 80.0)
    logs = torch.stack([signature_kernel_diag(x * scale, log=True, tol=1e-10) for scale in (0.5, 0.7, 1.0)])
    assert (logs[1:] > logs[:-1]).all()
    assert (logs[-1] > 709).any()  # past what a float64 holds
    assert (logs[-1] <= 2 * x.diff(dim=1).norm(dim=2).sum(1)).all()


@modest
@given(batches(max_length=100, max_channels=10, max_size=1.0))
def test_float32_is_close_to_float64(x: Tensor):
    assert close(signature_kernel_diag(x.float()), diag(x.float().double()), diag(x))
    y = torch.stack([brownian(generator(7), 8, x.shape[2], 1.0)])
    assert close(signature_kernel(x.float(), y.float()), kernel(x.float().double(), y.float().double()), sizes(x, y))


# Family and size: from hardly any movement to kernels of about a thousand, or falls of U(i, i) of as much.
CASES = [
    ("smooth", 0.1), ("smooth", 1.0), ("smooth", 4.4),
    ("brownian", 0.1), ("brownian", 1.0), ("brownian", 4.0),
    ("spiky", 0.5), ("spiky", 1.5),
    ("drift", 0.5), ("drift", 4.0),
    ("heavy-tailed", 0.3), ("heavy-tailed", 2.0),
    ("out-and-back", 0.5), ("out-and-back", 2.0), ("out-and-back", 4.4),
    ("stride-and-return", 0.5), ("stride-and-return", 2.0), ("stride-and-return", 4.4),
]  # fmt: skip
TOLERANCES = [1e-4, 1e-8, 1e-12]


def rounding(x: Tensor) -> float:
    """What rounding leaves beside k: more where U(i, i) falls along the way, as it does when a path comes back."""
    steps = split_path(x, None, LEGENDRE)
    rho = steps @ steps.transpose(1, 2)
    cells = empty_cells(rho, LEGENDRE.degree)
    end = solve_goursat(rho, LEGENDRE, cells=cells)
    along = torch.cat([cells.corner.diagonal(dim1=1, dim2=2), end[:, None]], 1)
    return 1e-13 + 1e-15 * float((along.cummax(1).values / along).max()) ** 2


@pytest.mark.parametrize(("family", "size"), CASES)
def test_the_tolerance_is_kept(family: str, size: float):
    others = [("smooth", 1.0), ("brownian", 2.0), ("stride-and-return", 2.5)]
    for seed, (length, channels) in enumerate([(6, 2), (22, 1), (13, 12)]):
        x = make(family, seed, 3, length, channels, size)
        y = torch.cat([make(name, seed + 9, 1, 7, channels, scale) for name, scale in others])
        of_x, of_y = (reference.diagonal(z, None, KernelSettings(), False, True) for z in (x, y))
        symmetric, cross = reference.gram(Pairs(x), True), reference.gram(Pairs(x, y=y), True)
        for tol in TOLERANCES:
            allowed = tol + rounding(x)
            assert ((signature_kernel_diag(x, tol=tol) - of_x).abs() / of_x).max() <= allowed
            assert (signature_kernel_diag(x, tol=tol, log=True) - of_x.log()).abs().max() <= 1.01 * allowed
            error = (signature_kernel(x, tol=tol) - symmetric).abs() / torch.outer(of_x, of_x).sqrt()
            assert error.max() <= allowed
            error = (signature_kernel(x, y, tol=tol) - cross).abs() / torch.outer(of_x, of_y).sqrt()
            assert error.max() <= max(allowed, tol + rounding(y))


def test_a_smaller_tolerance_is_not_for_nothing():
    x = make("brownian", 0, 20, 30, 2, 3.0)
    wanted = reference.diagonal(x, None, KernelSettings(), False, True)
    coarse, fine = ((signature_kernel_diag(x, tol=tol) - wanted).abs().max() for tol in (1e-2, 1e-10))
    assert coarse > 1e-9 and fine < coarse / 100


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("refine", [0, 1, 2, 3])
def test_finite_differences_are_those_of_the_reference(family: str, refine: int):
    plain = KernelSettings(None, refine)
    x, y = make(family, 1, 3, 17, 3, 1.0), make("brownian", 2, 4, 9, 3, 1.0)
    wanted = reference.diagonal(x, None, plain, False, True)
    assert torch.allclose(signature_kernel_diag(x, solver="fd", refine=refine), wanted, rtol=1e-13, atol=1e-13)
    got = signature_kernel_diag(x, solver="fd", refine=refine, log=True)
    assert torch.allclose(got, wanted.log(), rtol=1e-12, atol=1e-13)
    got = signature_kernel(x, y, solver="fd", refine=refine)
    assert torch.allclose(got, reference.gram(Pairs(x, y=y, settings=plain), True), rtol=1e-13, atol=1e-13)
    symmetric = reference.gram(Pairs(x, settings=plain), True)
    assert torch.allclose(signature_kernel(x, solver="fd", refine=refine), symmetric, rtol=1e-13, atol=1e-13)


def test_finite_differences_of_one_cell_by_hand():
    x = torch.tensor([[[0.0], [0.6]]], dtype=torch.float64)
    p = 0.36
    wanted = 2 * (1 + p / 2 + p * p / 12) - (1 - p * p / 12)
    assert signature_kernel_diag(x, solver="fd").item() == pytest.approx(wanted, rel=1e-15)


@pytest.mark.parametrize("family", ["smooth", "brownian", "drift"])
def test_finite_differences_converge_with_order_two(family: str):
    x, y = make(family, 5, 3, 12, 2, 1.5), make("smooth", 6, 2, 10, 2, 1.5)
    exact, exact_gram = signature_kernel_diag(x, tol=1e-13), signature_kernel(x, y, tol=1e-13)
    errors, gram_errors = [], []
    for refine in range(4, 8):
        errors.append((signature_kernel_diag(x, solver="fd", refine=refine) - exact).norm())
        gram_errors.append((signature_kernel(x, y, solver="fd", refine=refine) - exact_gram).norm())
    for sequence in (torch.stack(errors), torch.stack(gram_errors)):
        ratio = sequence[:-1] / sequence[1:]
        assert ((ratio > 3.5) & (ratio < 4.5)).all(), ratio


WORDS = 500
SCALES = (0.1, 0.5, 1.0)
LARGEST_LOGARITHM = 709.78  # of a float64


def paths(name: str, max_series: int | None) -> Tensor:
    """Series with time i/l in front, every channel standardised on the training set: (n, length, channels)."""
    try:
        data = load_dataset(name)
    except FileNotFoundError as error:
        pytest.skip(f"{name} is not here: {str(error).splitlines()[0]}")
    x = torch.cat([torch.from_numpy(part).double().mT for part in (data.X_train, data.X_test)])
    time = torch.arange(x.shape[1]).double() / x.shape[1]
    x = torch.cat([time[None, :, None].expand(len(x), -1, 1), x], 2)
    train = x[: len(data.X_train)]
    return ((x - train.mean((0, 1))) / train.std((0, 1)))[:max_series]


def check_tails(x: Tensor) -> int:
    """Asserts k - |S_M|^2 >= 0 to rounding wherever k exists, and returns for how many series it does not."""
    logarithm = signature_kernel_diag(x, log=True, tol=1e-12)
    too_large = logarithm > LARGEST_LOGARITHM
    if too_large.any():
        first = int(too_large.nonzero()[0])
        with pytest.raises(OverflowError, match=rf"kernel of series {first} of x is too large for torch.float64"):
            signature_kernel_diag(x, tol=1e-12)
    kept = x[~too_large]
    k = signature_kernel_diag(kept, tol=1e-12)
    assert torch.allclose(k.log(), logarithm[~too_large], rtol=1e-11, atol=1e-11)
    features = signature(kept, words=siggpde.words(x.shape[2], WORDS))
    assert (features[:, 0] == 1).all()
    tail = k - features.square().sum(1)
    assert (tail >= -1e-11 * k).all(), float((tail / k).min())
    return int(too_large.sum())


@pytest.mark.parametrize("theta", SCALES)
@pytest.mark.parametrize(
    ("name", "max_series"),
    [
        ("PenDigits", None), ("Crop", 400), ("BasicMotions", None), ("UWaveGestureLibrary", 120),
        *(pytest.param(name, None, marks=pytest.mark.slow) for name in ("Crop", "UWaveGestureLibrary")),
    ],
)  # fmt: skip
def test_tails_are_not_negative(name: str, max_series: int | None, theta: float):
    overflows = check_tails(theta * paths(name, max_series))
    assert overflows == 0 or (name == "UWaveGestureLibrary" and max_series is None)


def test_tails_are_not_negative_where_some_kernels_overflow():
    x = 2 * paths("BasicMotions", None)
    assert 0 < check_tails(x) < len(x)
