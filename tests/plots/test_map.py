"""The map of the series, and the directions in which they differ."""

import numpy as np
import pytest

from helpers.refusals import assert_refused
from siggpde import SigGPClassifier
from siggpde.plots import kernel_directions, plot_map
from siggpde.plots.map import principal_directions


def test_kernel_directions_tell_groups_apart_and_need_landmarks(lines):
    """They are coordinates in feature space: inner products of the training series are those of the centred kernel."""
    model, X, y = lines
    plane = kernel_directions(model, X)
    first = plane[:, 0] * np.where(y == 1, 1, -1)
    assert (first * first[0] > 0).all()
    everything = kernel_directions(model, X, 24)
    committee = model.committee_
    batch = model._batch(X)
    rows = committee.rows(batch)
    grams = (member.mixed(rows).gram.numpy() for member in committee.members)
    gram = sum(weight * one for weight, one in zip(committee.weights.tolist(), grams, strict=True))
    seen, landmarks = committee.standard(batch).values, committee.landmarks.values
    column = [int((landmarks - one).square().sum((1, 2)).argmin()) for one in seen]  # of each series of X
    gram, centre = np.asarray(gram)[:, column], np.eye(24) - 1 / 24
    assert everything @ everything.T == pytest.approx(centre @ gram @ centre, abs=1e-6)
    assert kernel_directions(model, X[:3]) == pytest.approx(plane[:3])
    assert_refused("at most the number of landmark series, 24, got 25", kernel_directions, model, X, 25)
    private = SigGPClassifier(views=["windows"], members=1, keep_series=False).fit(X, y)
    assert_refused("no landmark series", kernel_directions, private, X)


def test_principal_directions_and_maps_of_a_plane(pyplot, drawn):
    points = np.random.default_rng(0).normal(size=(50, 4)) * [3, 2, 1, 0.1]
    plane, shares = principal_directions(points)
    values = np.linalg.eigvalsh(np.cov(points.T))[::-1]
    assert plane.var(axis=0, ddof=1) == pytest.approx(values[:2])
    assert shares == pytest.approx(values[:2] / values.sum())
    plane = np.random.default_rng(0).normal(size=(10, 2))
    ax = plot_map(plane, np.linspace(0, 1, 10), name="fat (%)")
    assert np.asarray(ax.collections[0].get_offsets()) == pytest.approx(plane) and ax.get_xlabel() == "direction 1"
    assert ax.figure.axes[1].get_ylabel() == "fat (%)"
    drawn(ax)


def test_map_marks_classes_and_uncertain_series(narrow, drawn):
    points = np.random.default_rng(0).normal(size=(30, 3))
    labels = np.array(["a", "b", "c"])[np.arange(30) % 3]
    ax = plot_map(points, labels, narrow, uncertain=np.arange(30) < 4)
    assert [len(dots.get_offsets()) for dots in ax.collections] == [10, 10, 10, 4]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b", "c", "uncertain (4)"]
    _, shares = principal_directions(points)
    assert ax.get_xlabel() == f"direction 1 ({shares[0]:.0%})"
    drawn(ax)


def test_classes_of_one_colour_are_full_and_hollow(narrow, drawn):
    labels = [str(number % 12) for number in range(120)]
    ax = plot_map(np.random.default_rng(0).normal(size=(120, 2)), labels, narrow)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [str(number) for number in range(12)]
    first, eighth = ax.collections[0], ax.collections[7]
    assert first.get_facecolor()[0] == pytest.approx(eighth.get_edgecolor()[0]) and len(eighth.get_facecolor()) == 0
    drawn(ax)


def test_a_legend_leaves_room_for_the_map(narrow):
    names = [f"{letter} written with the left hand" for letter in "abcdefghijklmnopqrstuvwx"]
    doubtful = np.arange(48) < 4
    ax = plot_map(np.random.default_rng(0).normal(size=(48, 2)), names * 2, narrow, uncertain=doubtful)
    ax.figure.canvas.draw()
    assert ax.get_window_extent().height > 0.35 * ax.figure.bbox.height
    entries = [text.get_text() for text in ax.get_legend().get_texts()]
    assert entries[-1] == "uncertain (4)" and len(set(entries)) == 25


def test_bad_maps_are_refused(pyplot):
    assert_refused("two columns or more", plot_map, [[1.0], [2.0]], [0, 1], uncertain=None)
    assert_refused("2 labels in y but 1 rows", plot_map, [[1.0, 2.0]], [0, 1], uncertain=None)
    assert_refused(r"points\[0, 1\] is nan", plot_map, [[1.0, np.nan]], [0], uncertain=None)
    assert_refused("uncertain must be bools", plot_map, [[1.0, 2.0]], [0], uncertain=[1])
    assert_refused("at most 56 classes", plot_map, np.zeros((57, 2)), np.arange(57), uncertain=None)
