"""What holds for the blocks of all views on all series: rows by themselves, centring, states."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.random_paths import few
from helpers.view_data import batches, random_walks, standardised, views
from siggpde.series import SeriesBatch
from siggpde.views import KernelView
from siggpde.views.base import Block, Centring, Rows, Standard
from siggpde.views.kernels import KernelBlock
from siggpde.views.paths import PathBlock
from siggpde.views.windows import WindowsBlock

BATCHES, VIEWS = batches(), views()
every_view = pytest.mark.parametrize("view", VIEWS)
every_batch = pytest.mark.parametrize("series", BATCHES)


def rows_one_by_one(block: Block, batch: SeriesBatch) -> dict[str, Rows]:
    """The rows of every series cut to its own length, in a batch of its own."""
    actual: dict[str, list[Rows]] = {}
    for i, count in enumerate(batch.counts().tolist()):
        times = None if batch.times is None else batch.times[i : i + 1, :count]
        for name, rows in block.rows(SeriesBatch(batch.values[i : i + 1, :count].clone(), None, times)).items():
            actual.setdefault(name, []).append(rows)
    return {
        name: Rows(torch.cat([part.gram for part in rows]), torch.cat([part.variance for part in rows]))
        for name, rows in actual.items()
    }


def close(one: dict[str, Rows], other: dict[str, Rows], tolerance: float) -> None:
    assert one.keys() == other.keys()
    for name, rows in one.items():
        for mine, theirs in zip(rows, other[name], strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=tolerance, msg=name)


@every_view
@every_batch
def test_rows_are_a_kernel_do_not_depend_on_the_batch_and_come_back_from_the_state(view: str, series: str):
    batch = BATCHES[series]
    block, landmark_rows = VIEWS[view].fit(batch)
    for name, rows in landmark_rows.items():
        assert rows.gram.shape == (len(batch), len(batch)) and rows.gram.dtype == rows.variance.dtype == torch.float64
        assert bool(torch.isfinite(rows.gram).all()) and bool((rows.variance > 0).all())
        torch.testing.assert_close(rows.gram, rows.gram.T, rtol=0, atol=1e-9)
        size = max(1.0, float(rows.gram.abs().max()))
        assert float(torch.linalg.eigvalsh(rows.gram)[0]) > -1e-5 * size
        assert bool((rows.gram.diagonal() <= rows.variance + 2e-5 * size).all())
        if block.centring[name].scale:
            assert float(rows.variance.mean()) == pytest.approx(1, abs=1e-9)
            torch.testing.assert_close(rows.gram.mean(0), torch.zeros(len(batch)).double(), rtol=0, atol=1e-9)
        else:
            assert not bool(rows.gram.any())
    actual = block.rows(batch)
    close(rows_one_by_one(block, batch), actual, 1e-12)
    order = torch.randperm(len(batch), generator=torch.Generator().manual_seed(0))
    turned = {name: Rows(rows.gram[order], rows.variance[order]) for name, rows in actual.items()}
    close(block.rows(batch[order]), turned, 1e-12)
    # Of landmarks half of the pairs are solved, and the others are their mirror images.
    close(landmark_rows, actual, 1e-9 if block.kind in ("kernel", "lifted") else 1e-12)
    makers: dict[type, Any] = {KernelBlock: KernelBlock, PathBlock: PathBlock, WindowsBlock: WindowsBlock}
    again = makers[type(block)].from_state(block.state(), batch)
    again.centring = block.centring
    close(again.rows(batch), block.rows(batch), 0.0)
    assert again.kind == block.kind and again.width == block.width and again.state().keys() == block.state().keys()


@every_view
def test_series_alike_are_no_kernel_and_blocks_are_kept_by_names(view: str):
    for series in ("alone", "identical"):
        block, landmark_rows = VIEWS[view].fit(BATCHES[series])
        assert all(centring.scale == 0 for centring in block.centring.values())
        other = block.rows(standardised(SeriesBatch(random_walks(3, 20, 2, 20))))
        assert all(not bool(rows.gram.any()) for rows in (*landmark_rows.values(), *other.values()))
    block, _ = VIEWS[view].fit(BATCHES["plain"])
    assert block.keep({"another"}) is None
    kept = block.keep(set(block.centring))
    assert kept is not None
    close(kept.rows(BATCHES["plain"]), block.rows(BATCHES["plain"]), 0.0)


@every_view
@pytest.mark.parametrize("series", ["plain", "long", "many channels", "ragged"])
def test_series_far_from_the_landmarks_have_finite_rows(view: str, series: str):
    batch = BATCHES[series]
    standard = Standard.fit(batch)
    block, _ = VIEWS[view].fit(standard(batch))
    for factor in (0.0, 1e-30, 1e2, 1e6, 1e30, 1e300):
        far = standard(SeriesBatch(batch.values * factor, batch.lengths, batch.times))
        for rows in block.rows(far).values():
            assert bool(torch.isfinite(rows.gram).all() and torch.isfinite(rows.variance).all())


def features(seed: int, n: int, p: int) -> Tensor:
    return torch.randn(n, p, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 999))
@few
def test_centring_is_that_of_features(n: int, p: int, seed: int):
    landmarks, new = features(seed, n, p), features(seed + 1, 4, p)
    centring = Centring.of(Rows(landmarks @ landmarks.T, landmarks.square().sum(1)))
    actual = centring(Rows(new @ landmarks.T, new.square().sum(1)))
    mean = landmarks.mean(0)
    scale = 1 / (landmarks - mean).square().sum(1).mean()
    assert centring.scale == pytest.approx(float(scale), rel=1e-9)
    torch.testing.assert_close(actual.gram, scale * (new - mean) @ (landmarks - mean).T)
    torch.testing.assert_close(actual.variance, scale * (new - mean).square().sum(1))


def test_a_series_at_the_mean_has_some_variance():
    landmarks = torch.tensor([[-1.0], [1.0]]).double()
    centring = Centring.of(Rows(landmarks @ landmarks.T, landmarks.square().sum(1)))
    actual = centring(Rows(torch.zeros(1, 2).double(), torch.zeros(1).double()))
    assert 0 < float(actual.variance) < 1e-6


def test_widths_are_what_is_kept_of_a_landmark():
    actual = {name: view.fit(BATCHES["plain"])[0].width for name, view in VIEWS.items()}
    assert actual["kernel"] == 0 and actual["kernel with pivots"] == 6 and actual["linear"] > 10 < actual["windows"]
    assert KernelView("P", max_pivots=9).fit(BATCHES["plain"])[0].width == 0
