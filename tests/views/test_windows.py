"""Windows as a view: blocks that are kept in part, names, spectra."""

import pytest
import torch

from helpers.view_data import batches, ragged, standardised, walks
from siggpde.series import SeriesBatch
from siggpde.views import WindowsView
from siggpde.views.defaults import KINDS, default_views
from siggpde.views.spectrum import log_spectrum
from siggpde.views.windows import spectrum_bins
from siggpde.windows import WindowFeatures, WindowScaler, WindowSettings

BATCH = standardised(SeriesBatch(walks(10, 40, 5)))  # of more than three channels groups are drawn


@pytest.mark.parametrize("wanted", [{"x1"}, {"x3"}, {"dx1", "zn3"}, {"cum1", "another"}])
def test_what_is_kept_is_as_before(wanted: set[str]):
    block, own = WindowsView(WindowSettings(max_dilations=2)).fit(BATCH)
    new = standardised(SeriesBatch(walks(4, 40, 5, 1)))
    whole, kept = block.rows(new), block.keep(wanted)
    assert kept is not None and kept.width < block.width and wanted - {"another"} <= kept.centring.keys()
    found = kept.rows(new)
    assert {name[:-1] for name in found} == {name[:-1] for name in wanted if name in own}
    for name, rows in found.items():
        assert torch.equal(rows.gram, whole[name].gram) and torch.equal(rows.variance, whole[name].variance)
        assert torch.equal(kept.rows(BATCH)[name].gram, own[name].gram)
    assert [len(names) for names in kept.names(list("abcde"))] == [part.values.shape[1] for part in kept.landmarks]
    assert kept.keep({"another"}) is None


def test_a_kernel_is_the_mean_over_its_views():
    settings = WindowSettings(lifts=("x",), max_dilations=3)
    block, own = WindowsView(settings).fit(BATCH)
    features = WindowFeatures.fit(BATCH, settings)
    _, parts = WindowScaler.fit_transform(features.blocks(BATCH))
    for name in ("x1", "x3"):
        mine = [part.values.double() for part in parts if part.name == name]
        assert len(mine) > 2
        gram = torch.stack([values @ values.T for values in mine]).mean(0)
        centred = gram - gram.mean(0) - gram.mean(1, keepdim=True) + gram.mean()
        torch.testing.assert_close(own[name].gram, centred / centred.diagonal().mean(), rtol=0, atol=1e-9)
    assert block.width == sum(part.values.shape[1] for part in parts)


def test_spectra_are_windows_of_the_log_spectrum():
    batch = batches()["long"]
    settings = WindowSettings(lifts=("x", "dx"), max_dilations=2)
    block, own = WindowsView(settings, 32).fit(batch)
    plain, wanted = WindowsView(settings).fit(log_spectrum(batch, 32))
    assert block.kind == "spectrum" and plain.kind == "windows" and own.keys() == {"spectrum1", "spectrum3"}
    for end in "13":
        both = torch.stack([wanted[f"{lift}{end}"].gram for lift in ("x", "dx")])
        found = own[f"spectrum{end}"].gram
        assert float(torch.corrcoef(torch.stack([found.flatten(), both.mean(0).flatten()]))[0, 1]) > 0.99
    names = block.names(["height"])
    assert all(name.startswith("spectrum") and "height" in name for name in names[0])


def test_bins_of_spectra():
    def bins(lengths: list[int]) -> int | None:
        return spectrum_bins(SeriesBatch(torch.zeros(len(lengths), max(lengths), 1), torch.tensor(lengths)))

    assert bins([15]) is None and bins([16]) == 8 and bins([3, 50, 60]) == 25 and bins([1000]) == 128
    assert spectrum_bins(ragged()) is None


def test_windows_and_spectra_go_by_the_order_of_points_and_paths_by_time_stamps():
    plain = walks(10, 40, 2)
    steps = torch.rand(10, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.01
    even = standardised(SeriesBatch(plain, times=torch.arange(40.0).double().expand(10, 40)))
    uneven = standardised(SeriesBatch(plain, times=steps.cumsum(dim=1)))
    seen = set()
    for view in default_views(even, 10, KINDS, None, 50, 0):
        rows, others = view.fit(even)[1], view.fit(uneven)[1]
        blind = view.kind in ("windows", "spectrum")
        for name, each in rows.items():
            assert torch.equal(each.gram, others[name].gram) == blind, f"{view.kind} {name}"
        seen.add(view.kind)
    assert seen == set(KINDS)
