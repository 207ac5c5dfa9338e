"""Attribution over time follows finite differences and adds up where theory says so."""

import json
import math

import pytest
import torch

from helpers.small_committees import KINDS, batch_of, committee_of, ends, labels_of, latents, one_member
from siggpde.committee.committee import Committee
from siggpde.explain import time_attribution
from siggpde.explain.word_terms import explained_weights, word_features
from siggpde.gp.likelihoods import Gaussian, Softmax
from siggpde.numerics.words import words_up_to
from siggpde.series import SeriesBatch

NAMES = ["x", "y"]


def stretched(paths, series, step, channel, share):
    """The paths with one step of one channel made longer by a share."""
    moved = paths.clone()
    moved[series, step + 1 :, channel] += share * (paths[series, step + 1, channel] - paths[series, step, channel])
    return moved


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("options", KINDS, ids=["plain", "arc", "lead-lag", "difference"])
@pytest.mark.parametrize("kernel", [{"normalized": True}, {"depth": 2, "normalized": True}, {"depth": 3}], ids=str)
def test_attributions_are_finite_differences_of_the_latent(options, kernel, ragged):
    batch = batch_of(4, 5, ragged=ragged)
    committee = one_member(batch, Softmax(3), options=options, **kernel)
    (member,) = committee.members
    found = time_attribution(committee, batch, NAMES)
    paths, lengths = member.paths(batch).values, member.paths(batch).lengths
    assert found.channels == member.transform.names(NAMES) and found.pairs is not None
    assert found.values.shape == (4, 5, paths.shape[2])
    towards = explained_weights(member.model, torch.as_tensor(found.pairs))

    def latent(points):
        with torch.no_grad():
            return (word_features(member.model, SeriesBatch(points, lengths)) * towards).sum(dim=1)

    expected = torch.zeros(4, 5, paths.shape[2], dtype=torch.float64)
    steps = paths.shape[1] - 1
    for series in range(4):
        own = (steps if lengths is None else int(lengths[series]) - 1) or 0
        for step in range(own):
            point = options.difference + (step // 2 if options.lead_lag else step) + (not options.base_point)
            for channel in range(paths.shape[2]):
                up, down = (latent(stretched(paths, series, step, channel, h))[series] for h in (1e-5, -1e-5))
                expected[series, point, channel] += (up - down) / 2e-5
    assert torch.allclose(torch.as_tensor(found.values), expected, rtol=1e-5, atol=1e-6)
    assert float(expected.abs().max()) > 1e-3


@pytest.mark.parametrize("letters", [1, 2, 3])
def test_attributions_of_words_of_k_letters_add_up_to_k_times_the_latent(letters):
    """Euler: a word of k letters is homogeneous of degree k in the steps."""
    batch = batch_of(5, ragged=True)
    own = [word for word in words_up_to(3, letters) if len(word) == letters]
    committee = one_member(batch, Gaussian(), own=own)
    found = time_attribution(committee, batch, NAMES)
    (latent,) = latents(committee, batch)
    assert found.values.sum(axis=(1, 2)) == pytest.approx(letters * latent[:, 0].numpy())
    assert found.pairs is None


@pytest.mark.parametrize("ragged", [False, True])
def test_attributions_of_members_are_averaged(ragged):
    batch = batch_of(ragged=ragged)
    classifier = committee_of(batch, labels_of(batch, 3))
    found = time_attribution(classifier, batch, NAMES)
    assert found.values.shape == (36, 7, len(found.channels))
    pairs = torch.as_tensor(found.pairs)
    chances = classifier.probabilities(batch)
    assert torch.equal(pairs[:, 0], chances.argmax(dim=1))
    members = [Committee([member], torch.ones(1)) for member in classifier.members]
    alone = [time_attribution(one, batch, NAMES) for one in members]
    agreed = torch.stack([(torch.as_tensor(own.pairs) == pairs).all(dim=1) for own in alone]).all(dim=0)
    assert agreed.sum() > 5
    expected = torch.zeros(36, 7, len(found.channels), dtype=torch.float64)
    for weight, own in zip(classifier.weights.tolist(), alone, strict=True):
        for place, name in enumerate(own.channels):
            expected[:, :, found.channels.index(name)] += weight * torch.as_tensor(own.values[:, :, place])
    assert torch.allclose(torch.as_tensor(found.values)[agreed], expected[agreed], atol=1e-12)


def test_attributions_after_the_end_are_zero_and_chunks_do_not_matter():
    batch = batch_of(140, ragged=True)
    committee = committee_of(batch, ends(batch), KINDS[:3], words=12)
    with torch.no_grad():
        found = time_attribution(committee, batch, NAMES)
    inside = batch.inside().numpy()
    assert (found.values[~inside] == 0).all()
    assert math.isfinite(found.values.sum())
    last = SeriesBatch(batch.values[130:], batch.counts()[130:])
    assert time_attribution(committee, last, NAMES).values == pytest.approx(found.values[130:], abs=1e-12)
    assert json.dumps(found.to_dict())
