"""What the screening tries: words by brute force, scales that do what they say, kinds in order."""

from itertools import product

import pytest
import torch

from helpers.small_models import series
from siggpde.numerics.words import count_up_to, words_up_to
from siggpde.selection.candidates import (
    Candidate,
    channel_scales,
    choose_words,
    first_round,
    neighbours,
    path_options,
    words_of_degree,
)
from siggpde.series import PathOptions, PathTransform, SeriesBatch


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("most", [1, 7, 60, 400])
def test_words_of_a_degree_by_brute_force(channels: int, degree: int, most: int):
    found = words_of_degree(channels, degree, most)
    wanted = [()]
    for depth in range(1, 11 if channels == 1 else 8):
        words = product(range(channels), repeat=depth)
        level = [word for word in words if sum(letter > 0 for letter in word) <= degree]
        if len(wanted) + len(level) > most or channels**depth > 500_000:
            break
        wanted += level
    assert found[: len(wanted)] == wanted and len(found) <= max(1, most)
    assert len(set(found)) == len(found) and found == sorted(found, key=lambda word: (len(word), word))
    assert all(word[:-1] in set(found) for word in found[1:]), "prefixes are there too"
    assert max(len(word) for word in found) <= 10


@pytest.mark.parametrize("options", path_options(2), ids=str)
@pytest.mark.parametrize("time_scale", [0.5, 4.0])
def test_scales_give_the_median_length_and_weigh_time(options: PathOptions, time_scale: float):
    x = [row[: 3 + i % 4] for i, row in enumerate(series(21, seed=2))]
    paths, counts = PathTransform(options).fit(x)(x)
    theta = channel_scales(SeriesBatch(paths, counts), Candidate(options, 5.0, time_scale))
    assert counts is not None
    lengths = [
        float((path[:count] * theta).diff(dim=0).norm(dim=1).sum())
        for path, count in zip(paths, counts.tolist(), strict=True)
    ]
    assert sorted(lengths)[10] == pytest.approx(5.0)
    assert theta[0] / theta[1] == pytest.approx(time_scale) and len(theta[1:].unique()) == 1


def test_paths_that_do_not_move_and_paths_without_time():
    still = torch.ones(3, 4, 2).double()
    assert channel_scales(SeriesBatch(still), Candidate(PathOptions(time=False))).tolist() == [1.0, 1.0]
    theta = channel_scales(SeriesBatch(series(5)), Candidate(PathOptions(time=False), time_scale=9.0))
    assert theta[0] == theta[1]


def test_words_are_whole_levels_where_these_nearly_fill_the_number_and_those_of_most_energy_otherwise():
    paths = SeriesBatch(series(30, channels=3))
    theta = torch.ones(3).double()
    whole = choose_words(paths, theta, Candidate(words=count_up_to(3, 4) + 5))
    assert whole == words_up_to(3, 4)
    some = choose_words(paths, theta, Candidate(words=count_up_to(3, 4) * 2))
    assert count_up_to(3, 4) < len(some) <= 2 * count_up_to(3, 4)
    wide = choose_words(SeriesBatch(series(30, channels=40)), torch.ones(40).double(), Candidate(words=30))
    assert 2 <= len(wide) <= 30
    bounded = choose_words(paths, theta, Candidate(words=50, degree=1))
    assert bounded == words_of_degree(3, 1, 50)
    no_time = Candidate(PathOptions(time=False), words=50, degree=1)
    assert any(word[0] > 0 and word[1] > 0 for word in choose_words(paths, theta, no_time) if len(word) == 2)


@pytest.mark.parametrize("channels", [1, 2, 7, 30])
def test_the_first_round_has_every_kind_once_at_every_scale(channels: int):
    tried = first_round(channels, 100)
    assert len(set(tried)) == len(tried) and tried[0].options == PathOptions()
    options = path_options(channels)
    assert {candidate.kind for candidate in tried} == {(o, degree) for o in options for degree in (None, 1, 2)}
    assert all(candidate.words == 100 for candidate in tried)
    assert any(o.append == "variation" for o in options) == (1 < channels <= 12)
    assert any(o.lead_lag for o in options) == (channels <= 6)


def test_neighbours_are_of_the_same_kind_around_the_scales():
    middle = Candidate(PathOptions(append="arc"), 10.0, 4.0, 50, degree=2)
    near = neighbours(middle, 200)
    assert len(set(near)) == len(near) == 5
    assert {candidate.kind for candidate in near} == {middle.kind} and {c.words for c in near} == {200}
    assert {c.path_length for c in near} == {6.0, 10.0, 16.0} and {c.time_scale for c in near} == {2.0, 4.0, 8.0}
