"""The kernels by the PDE: against float64 at a tight tolerance, long paths, pivots, series that are alike."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from helpers.view_data import batches, ragged, random_walks, standardised
from siggpde import signature_kernel
from siggpde.series import PathOptions, PathTransform, SeriesBatch
from siggpde.series.batch import pool
from siggpde.views import KernelView
from siggpde.views import kernels as module
from siggpde.views.base import Centring, Rows
from siggpde.views.kernels import KernelBlock

VIEWS = {
    "linear": KernelView("k"),
    "base point": KernelView("k", base_point=True),
    "lifted": KernelView("k", bandwidth=0.5, time_weight=3.0),
}
every_view = pytest.mark.parametrize("name", VIEWS)


def precisely(block: KernelBlock, batch: SeriesBatch, landmarks: SeriesBatch) -> Rows:
    """The rows before centring, in float64 from the definition."""
    view, sides = block.view, []
    for side in (batch, landmarks):
        paths = block.transform.paths(pool(side, view.max_points))
        sides.append((paths.values * block.theta, paths.lengths))
    (x, lengths), (y, y_lengths) = sides
    static = {"static": "rbf", "bandwidth": block.scales[0], "amplitude": block.scales[1]}
    gram = signature_kernel(
        x, y, lengths=lengths, y_lengths=y_lengths, tol=1e-10, normalize=True,
        **({} if view.bandwidth is None else static),
    )  # fmt: skip
    return Rows(gram, torch.ones(len(x)).double())


def lengths_of(block: KernelBlock, paths: SeriesBatch) -> Tensor:
    """The lengths (n,) of paths in the Hilbert space of the static kernel."""
    if block.view.bandwidth is None:
        return module.path_lengths(paths.values)
    return block.scales[1] * module._lifted_lengths(paths.values, block.scales[0])


def smooth(n: int, spread: float = 1.0) -> SeriesBatch:
    """Waves that differ by their phase alone: their kernel has few eigenvalues that are not rounding."""
    times = torch.linspace(0, 1, 24).double()
    phases = torch.linspace(0, spread, n).double()
    return standardised(SeriesBatch(torch.sin(6 * times + phases[:, None])[:, :, None]))


@every_view
@pytest.mark.parametrize("series", ["plain", "ragged", "times", "two points", "long", "many channels"])
def test_rows_are_the_normalised_kernel(name: str, series: str):
    batch = batches()[series]
    block, landmark_rows = VIEWS[name].fit(batch)
    slow = precisely(block, batch, batch)
    torch.testing.assert_close(block.raw(batch)["k"].gram, slow.gram, rtol=0, atol=3e-5)
    wanted = Centring.of(slow)(slow)
    for actual in (landmark_rows["k"], block.rows(batch)["k"]):
        torch.testing.assert_close(actual.gram, wanted.gram, rtol=0, atol=1e-4)
        torch.testing.assert_close(actual.variance, wanted.variance, rtol=0, atol=1e-4)


@pytest.mark.parametrize("factor", [1.0, 10.0, 30.0])
def test_long_paths_are_solved_in_double_precision(factor: float):
    """exp(88) is the end of float32; k(X, X) of paths of length 80 is far beyond it."""
    batch = standardised(SeriesBatch(random_walks(12, 20, 2)))
    batch = SeriesBatch(batch.values.clone())
    batch.values[:3] *= factor
    block, landmark_rows = VIEWS["linear"].fit(batch)
    lengths = lengths_of(block, block.landmarks)
    assert bool((lengths > 31).any()) == (factor > 1)
    kept = lengths < 0.9 * module._LONGEST  # longer ones are shrunk
    slow = precisely(block, batch, batch).gram
    actual = block.raw(batch)["k"].gram
    torch.testing.assert_close(actual[kept][:, kept], slow[kept][:, kept], rtol=0, atol=3e-5)
    assert bool((actual.abs() <= 1 + 1e-6).all()) and float(torch.linalg.eigvalsh(landmark_rows["k"].gram)[0]) > -1e-5


@pytest.mark.parametrize("name", ["linear", "lifted"])
def test_new_paths_that_are_long_are_solved_beside_short_ones(name: str):
    landmarks = standardised(SeriesBatch(random_walks(12, 20, 2)))
    block, _ = VIEWS[name].fit(landmarks)
    new = SeriesBatch(random_walks(6, 20, 2, 1) * torch.tensor([0.1, 10.0, 0.1, 8.0, 0.2, 0.1])[:, None, None].double())
    lengths = lengths_of(block, block._paths(new))
    assert float(lengths.max()) > 5 * float(lengths.min())
    actual, alone = block.raw(new)["k"].gram, [block.raw(new[i : i + 1])["k"].gram for i in range(6)]
    assert torch.equal(actual, torch.cat(alone))
    kept = lengths < 0.9 * module._LONGEST
    torch.testing.assert_close(actual[kept], precisely(block, new, landmarks).gram[kept], rtol=0, atol=3e-5)


@pytest.mark.parametrize("name", ["linear", "lifted"])
def test_rough_rows_are_those_of_float32_but_for_long_paths(name: str):
    landmarks = standardised(SeriesBatch(random_walks(12, 20, 2)))
    block, _ = VIEWS[name].fit(landmarks)
    factors = torch.tensor([0.1, 10.0, 0.1, 8.0, 0.2, 0.1])[:, None, None].double()
    new = SeriesBatch(random_walks(6, 20, 2, 1) * factors)
    rough, exact = block.roughly().rows(new)["k"], block.rows(new)["k"]
    torch.testing.assert_close(rough.gram, exact.gram, rtol=0, atol=1e-4)
    assert not torch.equal(rough.gram, exact.gram) and not block.rough
    long = lengths_of(block, block._paths(new)) > 30
    assert bool(long.any()) == (name == "linear")
    assert torch.equal(block.roughly().raw(new)["k"].gram[long], block.raw(new)["k"].gram[long])


def test_lifts_that_can_be_out_of_range_are_solved_by_logarithms():
    """Of 11 series that hardly move, at different levels, and one that goes far: exp(800) is out of range."""
    values = 0.03 * random_walks(12, 30, 1) + torch.arange(12).double()[:, None, None]
    values[0] = 3.0 * torch.arange(30).double()[:, None]
    block, _ = KernelView("k", bandwidth=0.3, time_weight=1e-6).fit(standardised(SeriesBatch(values)))
    assert float(lengths_of(block, block.landmarks).max()) > 400
    values = standardised(SeriesBatch(values)).values
    gram = block.raw(SeriesBatch(values))["k"].gram
    assert bool(torch.isfinite(gram).all()) and bool((gram.abs() <= 1 + 1e-6).all())
    torch.testing.assert_close(gram.diagonal(), torch.ones(12).double(), rtol=0, atol=1e-9)


def test_long_paths_keep_their_time_and_time_weighs_as_much_as_all_channels():
    landmarks = standardised(SeriesBatch(random_walks(12, 20, 1)))
    block, _ = VIEWS["linear"].fit(landmarks)
    (one,), (far,) = (block._paths(SeriesBatch(landmarks.values[:1] * f)).values for f in (1.0, 1e4))
    assert torch.equal(one[:, 0], far[:, 0])
    assert float(far[:, 1].diff().abs().sum()) == pytest.approx(module._LONGEST, rel=1e-9)
    batch = standardised(SeriesBatch(random_walks(9, 20, 4)))
    block, _ = KernelView("k", time_weight=1.0).fit(batch)
    path = PathTransform(PathOptions(base_point=False)).fit(batch).paths(batch).values[0, :, 0]
    clock = float(path[-1] - path[0]) * float(block.theta[0] / block.theta[1])
    assert clock == pytest.approx(2.0, rel=1e-6)  # sqrt(channels)


@pytest.mark.parametrize("name", ["linear", "base point", "lifted"])
def test_median_paths_are_as_long_as_asked(name: str):
    batch = standardised(ragged(9, 20))
    for wanted in (2.0, 6.0):
        block, _ = replace(VIEWS[name], path_length=wanted).fit(batch)
        assert float(lengths_of(block, block.landmarks).median()) == pytest.approx(wanted, rel=1e-6)


def test_the_length_of_a_lift_is_that_of_its_increments():
    batch = standardised(SeriesBatch(random_walks(5, 12, 2)))
    block, _ = VIEWS["lifted"].fit(batch)
    values, (bandwidth, amplitude) = block.landmarks.values, block.scales

    def kappa(x: Tensor, y: Tensor) -> Tensor:
        return amplitude**2 * torch.exp(-(x - y).square().sum(-1) / (2 * bandwidth**2))

    ends, starts = values[:, 1:], values[:, :-1]
    steps = kappa(ends, ends) - 2 * kappa(ends, starts) + kappa(starts, starts)
    torch.testing.assert_close(lengths_of(block, block.landmarks), steps.sqrt().sum(1))
    # The static kernel of the solver is the same one: over one short step k(X, X) is 1 + |dX|² + ..
    short = values[:1, :1] + torch.tensor([0.0, 1e-3]).double()[:, None]
    step = float(lengths_of(block, SeriesBatch(short.reshape(1, 2, 3)))[0])
    solved = signature_kernel(short.reshape(1, 2, 3), static="rbf", bandwidth=bandwidth, amplitude=amplitude, tol=1e-12)
    assert float(solved) == pytest.approx(1 + step**2, rel=1e-6)


@every_view
@pytest.mark.parametrize("series", ["walks", "waves", "doubles", "lines", "nearly alike"])
def test_pivots_stand_for_all_landmarks(name: str, series: str):
    """Also where the kernel has fewer directions than there are pivots, and its errors decide what comes next."""
    times = torch.linspace(0, 1, 24).double()
    batch = {
        "walks": lambda: standardised(SeriesBatch(random_walks(80, 20, 2))),
        "waves": lambda: smooth(80),
        "doubles": lambda: standardised(SeriesBatch(random_walks(16, 20, 2).repeat(5, 1, 1))),
        "lines": lambda: standardised(SeriesBatch((torch.linspace(-3, 3, 80).double()[:, None] * times)[:, :, None])),
        "nearly alike": lambda: standardised(
            SeriesBatch(torch.sin(6 * times)[None, :, None] + 1e-3 * random_walks(80, 24, 1))
        ),
    }[series]()
    full, exact = VIEWS[name].fit(batch)
    block, landmark_rows = replace(VIEWS[name], max_pivots=60).fit(batch)
    assert block.pivots is not None and len(block.pivots) <= 60 and full.pivots is None
    assert torch.equal(block.rows(batch)["k"].gram, landmark_rows["k"].gram)
    actual, wanted = landmark_rows["k"], exact["k"]
    assert float((actual.gram - wanted.gram).square().mean().sqrt()) < 0.03
    tails = actual.variance - actual.gram.diagonal()
    assert float(tails.min()) > -1e-3 and float(tails.mean()) < 0.15
    assert float(torch.linalg.eigvalsh(actual.gram)[0]) > -1e-8


@every_view
def test_series_that_are_alike_are_solved_precisely(name: str):
    """1 - k is of the size of the errors that other series are solved with: centring would leave only these."""
    batch = smooth(20, 0.003)
    block, landmark_rows = VIEWS[name].fit(batch)
    assert block.precise and float(torch.linalg.eigvalsh(landmark_rows["k"].gram)[0]) > -1e-6
    slow = precisely(block, batch, batch)
    torch.testing.assert_close(landmark_rows["k"].gram, Centring.of(slow)(slow).gram, rtol=0, atol=1e-3)
    again = KernelBlock.from_state(block.state(), batch)
    assert again.precise and not VIEWS[name].fit(standardised(SeriesBatch(random_walks(20, 20, 1))))[0].precise
