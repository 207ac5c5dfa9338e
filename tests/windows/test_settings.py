"""Which views there are."""

import pytest
import torch

from siggpde.windows import WindowSettings
from siggpde.windows.settings import channel_groups, dilations


def test_dilations_are_powers_of_two_that_fit():
    assert dilations(9, 315, 8) == [1, 2, 4, 8, 16, 32]
    assert dilations(9, 9, 8) == [1] and dilations(9, 2, 8) == [1] and dilations(9, 17, 8) == [1, 2]
    assert dilations(3, 2**12, 12) == [2**i for i in range(11)] + [2**11 for _ in range(0)]
    assert dilations(3, 2**12, 3) == [1, 2**5, 2**10] and dilations(3, 2**12, 1) == [1]


def test_windows_of_short_series_are_shorter():
    def points(length: int) -> list[int]:
        return [
            view.points for view in WindowSettings(lifts=("x", "dx"), max_dilations=1).views(1, torch.tensor([length]))
        ]

    assert points(19) == [9, 9, 9, 9]
    assert points(18) == [9, 9, 8, 8]  # one increment less
    assert points(17) == [8, 8, 8, 8]
    assert points(1) == [3, 3, 3, 3]


def test_the_median_length_decides():
    views = WindowSettings(lifts=("x",)).views(1, torch.tensor([10, 40, 40, 1000]))
    assert max(view.span for view in views) == 33


def test_groups_of_channels():
    random = torch.Generator().manual_seed(0)
    assert channel_groups(1, 12, False, random) == (((0,),), 4)
    assert channel_groups(3, 12, True, random) == (((0, 1, 2),), 3)
    for channels in (4, 7, 12, 30):
        pairs, depth = channel_groups(channels, 12, False, random)
        singles, same_depth = channel_groups(channels, 12, True, random)
        kept = min(channels, 12)
        assert depth == same_depth == 3
        for groups, sizes in ((pairs, {1, 2} if kept % 2 else {2}), (singles, {1})):
            drawn = [c for group in groups for c in group]
            assert len(drawn) == len(set(drawn)) == kept and set(drawn) <= set(range(channels))
            assert {len(group) for group in groups} == sizes


def test_every_dilation_has_groups_of_its_own_that_repeat():
    one, same = (WindowSettings(seed=1).views(9, torch.tensor([60])) for _ in range(2))
    assert one == same and len({view.groups for view in one}) > len(one) / 2
    assert [v.smoothing for v in one if v.lift == "x"] == [1, 1, 1, 1, 2, 2]
    assert {v.smoothing for v in one if v.lift == "dx"} == {1}


def test_the_global_generator_is_left_alone():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    WindowSettings().views(9, torch.tensor([60]))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_errors_name_the_setting():
    wrong = [
        ({"lifts": ("x", "log")}, "lifts must be some of x, dx, cum, zn, each once"),
        ({"lifts": ("x", "x")}, "each once"),
        ({"lifts": ()}, "lifts must be"),
        ({"points": 2}, "points must be at least 3, got 2"),
        ({"max_windows": 0}, "max_windows must be at least 1"),
        ({"path_length": 0.0}, "path_length must be positive"),
    ]
    for given, message in wrong:
        with pytest.raises(ValueError, match=message):
            WindowSettings(**given)
