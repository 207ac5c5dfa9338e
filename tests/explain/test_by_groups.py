"""Features of groups of channels, computed once for every state, give what the plain prediction of cut series gives."""

import pytest
import torch

from helpers.small_committees import batch_of, labels_of
from helpers.small_view_committees import view_committee_of
from siggpde.explain import WalkSettings
from siggpde.explain.by_groups import States
from siggpde.explain.credit_sums import plans_of, sums_of
from siggpde.explain.cuts import average_series
from siggpde.explain.nodes import Nodes
from siggpde.explain.posterior_spread import posterior_spread
from siggpde.explain.runs import Run
from siggpde.explain.walks import Ends, member_logits, walk
from siggpde.series import SeriesBatch

CHANNELS = 5


@pytest.fixture(scope="module")
def committee():
    batch = batch_of(24, 20, channels=CHANNELS)
    return view_committee_of(batch, labels_of(batch, 3), 3)


def nodes_of(committee, background: bool) -> tuple[SeriesBatch, Ends]:
    one = batch_of(1, 20, channels=CHANNELS, seed=4)
    references = batch_of(6, 20, channels=CHANNELS, seed=5).values if background else average_series(committee)[None]
    begins = member_logits(committee, SeriesBatch(references))
    return one, Ends(member_logits(committee, one)[:, 0], references, begins, torch.arange(len(references)))


@pytest.mark.parametrize("background", [False, True])
def test_means_and_spreads_are_those_without_groups(committee, background: bool):
    plans = plans_of(committee)
    assert len(plans) == 2  # windows of the series and of the spectrum
    one, ends = nodes_of(committee, background)
    settings, runs = WalkSettings(4, 4, 2), [Run(1, 0, 2), Run(3, 2, 2)]
    fast, slow = (walk(committee, one, ends, settings, own) for own in (plans, {}))
    torch.testing.assert_close(fast.credits, slow.credits, rtol=1e-5, atol=1e-5)
    pair = torch.tensor([0, 2])
    for one_way, other_way in zip(
        posterior_spread(committee, fast, pair, runs), posterior_spread(committee, slow, pair, runs), strict=True
    ):
        torch.testing.assert_close(one_way, other_way, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("background", [False, True])
def test_latents_are_those_of_the_plain_prediction(committee, background: bool):
    one, ends = nodes_of(committee, background)
    nodes: Nodes = walk(committee, one, ends, WalkSettings(4, 4, 2), plans_of(committee)).nodes
    numbers = nodes.numbers()
    sums = sums_of(committee, plans_of(committee))
    means = sums.add(nodes, numbers, nodes.weights(torch.arange(20), 4)[:, numbers])
    plain, _ = committee.member_latents(nodes.series(numbers))
    torch.testing.assert_close(means, plain, rtol=1e-6, atol=1e-6)


def test_states_are_what_is_kept_and_the_reference_of_the_rest():
    mask = torch.tensor([[[1, 0], [1, 1]], [[1, 1], [1, 0]], [[1, 1], [1, 0]], [[0, 1], [1, 1]]]).bool()
    states = States(mask, torch.tensor([0, 1, 2, 0]))
    first, state = states.of([0])
    assert state[0] == state[1] == state[2] != state[3] and len(first) == 2
    first, state = states.of([1])
    assert len(first) == 4  # the second and the third have other references
    assert torch.equal(mask[first][:, :, 1], mask[:, :, 1][first])
