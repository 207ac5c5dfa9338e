"""Names of window features say what they are."""

import torch

from helpers.random_paths import make
from siggpde.series import SeriesBatch
from siggpde.windows import WindowFeatures, WindowSettings
from siggpde.windows.names import feature_names


def test_every_feature_has_a_name_of_its_own():
    for channels in (1, 3, 5):
        batch = SeriesBatch(make("brownian", 1, 5, 40, channels, 3.0))
        features = WindowFeatures.fit(batch, WindowSettings(max_windows=5))
        names = feature_names(features, [f"c{i}" for i in range(channels)])
        assert len(names) == len(set(names)) == features.transform(batch).shape[1]
        alike = feature_names(features, ["time"] * channels)
        assert len(set(alike)) == len(names) and "x dilation 1: mean of time 0" in alike


def test_names_are_of_the_right_columns():
    """A series that rises in its first third only, and falls at once at the end, seen through windows of increments."""
    flat, rise = torch.zeros(36), torch.linspace(0, 9, 12)
    x = torch.cat([rise, 9 + flat[:24]]).double()
    x[-1] = 0.0
    batch = SeriesBatch(torch.stack([x, flat.double()])[:, :, None])
    settings = WindowSettings(lifts=("x",), max_dilations=1, thresholds=1)
    features = WindowFeatures.fit(batch, settings)
    names = feature_names(features, ["level"])
    table = dict(zip(names, features.transform(batch, torch.float64)[0].tolist(), strict=True))
    head = "x dilation 1: "
    assert table[head + "mean of level, first third"] > 0.02
    assert table[head + "mean of level, last third"] < 0 < table[head + "largest of level"]
    assert table[head + "smallest of level"] < 0
    assert abs(table[head + "mean of level, middle third"]) < table[head + "mean of level, first third"]
    assert 0 < table[head + "share of level above q1/2"] < 1
    assert table[head + "deviation of level"] > 0
    # The word of time, then level, and the other way round: by parts, their sum is the product of both increments.
    assert "x dilation 1 base point: mean of time–level–level" in table
