"""On real series the truncated signature never has more than the kernel: what is left out has a variance, not less."""

import pytest
import torch
from torch import Tensor

import siggpde
from siggpde import signature, signature_kernel_diag
from siggpde.datasets import load_dataset

WORDS = 500
SCALES = (0.1, 0.5, 1.0)
LARGEST_LOGARITHM = 709.78  # of a float64


def paths(name: str, max_series: int | None, part: str) -> Tensor:
    """Series with time i/l in front, every channel standardised on the training set: (n, length, channels)."""
    try:
        data = load_dataset(name)
    except FileNotFoundError as error:
        pytest.skip(f"{name} is not here: {str(error).splitlines()[0]}")

    def with_time(x: Tensor) -> Tensor:
        time = torch.arange(x.shape[1]).double() / x.shape[1]
        return torch.cat([time[None, :, None].expand(len(x), -1, 1), x], 2)

    train = with_time(torch.from_numpy(data.X_train).double().transpose(1, 2))
    test = with_time(torch.from_numpy(data.X_test).double().transpose(1, 2))
    mean, spread = train.mean((0, 1)), train.std((0, 1))
    chosen = {"train": train, "test": test, "all": torch.cat([train, test])}[part]
    return ((chosen - mean) / spread)[:max_series]


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
    ("name", "max_series", "part"),
    [
        ("PenDigits", None, "all"),
        ("Crop", 400, "train"),
        ("BasicMotions", None, "all"),
        ("UWaveGestureLibrary", None, "train"),
    ],
)
def test_tails_are_not_negative(name: str, max_series: int | None, part: str, theta: float):
    assert check_tails(theta * paths(name, max_series, part)) == 0


def test_tails_are_not_negative_where_some_kernels_overflow():
    x = 2 * paths("BasicMotions", None, "all")
    assert 0 < check_tails(x) < len(x)


@pytest.mark.slow
@pytest.mark.parametrize("theta", SCALES)
@pytest.mark.parametrize("name", ["PenDigits", "Crop", "BasicMotions", "UWaveGestureLibrary"])
def test_tails_are_not_negative_in_the_whole_set(name: str, theta: float):
    check_tails(theta * paths(name, None, "all"))
