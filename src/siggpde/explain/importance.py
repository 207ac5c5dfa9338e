"""What the predictions of a committee rest on: channels, time regions, window scales and words, class by class
(docs/design.md, Explanations, has the definitions)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.explain.contributions import CANDIDATES, FEWEST, grouped
from siggpde.explain.posterior import Functionals, Gaussian, LatentSums, PartSums, averaged
from siggpde.explain.results import ClassEffects, Effect, Importance, Importances, PaperReading, WordWeight
from siggpde.explain.shapley import CutSeries, cut_facts, limits_of, segments_of
from siggpde.explain.terms import Terms, check_inputs, checked_labels, evenly_spaced, stretched, terms_of
from siggpde.explain.text import WHOLE, Letters, Vocabulary, group_name, scale_order, when
from siggpde.series import SeriesBatch
from siggpde.series.statistics import OF_SERIES
from siggpde.utils.times import TimeFormat
from siggpde.views.facts import FactsBlock

_SERIES = 200  # of which words, scales and views are looked at
_CUT_SERIES = 500  # about so many, of which every pair is compared
_MOST_SERIES = 60  # that are cut
Named: TypeAlias = tuple[str, Letters, Letters]  # a name, its letters and the names of others in its group


@torch.no_grad()
def global_importance(
    committee: Committee,
    batch: SeriesBatch,
    names: Sequence[str],
    top: int = 10,
    *,
    classes: Any = None,
    targets: Tensor | None = None,
    regions: int = 10,
    max_series: int = 500,
    time_format: TimeFormat | None = None,
) -> Importances:
    """Returns what the predictions for a batch rest on (docs/design.md, Explanations, has the definitions).

    Parameters
    ----------
    committee
        The model, such as `estimator.committee_`.
    batch
        The series, such as `estimator.preparation_(X)`. Of many 200 are used for words, scales and views, and as many
        as make about 500 cut series for channels and regions, evenly spread over the classes.
    names
        The names of their channels.
    top
        How many words and features are listed.
    classes
        The labels in the order of the model's classes, by default their numbers.
    targets
        The true classes 0..classes-1 or numbers (n,); by default those that the committee predicts.
    regions
        How many time regions there are, at most.
    max_series
        How many series are used for single features, at most.
    time_format
        How regions tell time stamps.

    Returns
    -------
    Importances and, class by class, effects with standard deviations and the probabilities of their signs.

    Examples
    --------
    >>> import siggpde
    >>> X = torch.randn(10, 2, 5, generator=torch.Generator().manual_seed(0)).cumsum(2)
    >>> model = siggpde.SigGPClassifier(members=1).fit(X, [0, 1] * 5)
    >>> found = global_importance(model.committee_, model.preparation_(X), ["x", "y"], classes=[0, 1])
    >>> sorted(channel.name for channel in found.channels)
    ['x', 'y']
    """
    terms = terms_of(committee)
    check_inputs(terms, batch, names, min_series=2)
    count = terms.logits.classes
    labels = list(range(count)) if count is not None and classes is None else checked_labels(terms, classes)
    if top < 1 or max_series < 2:
        raise ValueError(f"top must be at least 1 and max_series at least 2, got {top} and {max_series}")
    if regions < 1:
        raise ValueError(f"regions must be at least 1, got {regions}")
    if targets is not None and len(targets) != len(batch):
        raise ValueError(f"there are {len(batch)} series but {len(targets)} targets")
    vocabulary = terms.vocabulary(names)
    features, words = feature_importance(terms, evenly_spaced(batch, max_series), vocabulary, top), vocabulary.by_word()
    if targets is not None:
        known = targets.to(terms.weights.device)
    else:
        known = committee.mean_and_variance(batch)[0] if count is None else committee.probabilities(batch).argmax(1)
    by_channel = cut_effects(terms, batch, known, terms.names(names))
    pieces = min(regions, int(batch.counts().min()))
    by_region = cut_effects(terms, batch, known, tuple(region_names(batch, pieces, time_format)), pieces)
    blocks = [block for block in committee.blocks if isinstance(block, FactsBlock)]
    facts = tuple(fact.name for block in blocks for fact in block.facts)
    by_fact = cut_effects(terms, batch, known, facts, facts=True) if facts else {}
    chosen = spread_over(known, count, _SERIES)
    contrasts, some = contrasts_of(known[chosen], count), batch[chosen]
    table = word_table(terms, some, words)
    groups = [_groups(table[side : side + 1])[:top] for side in contrasts.sides]
    effects = term_effects(terms, some, contrasts, words, groups)
    by_class = [
        ClassEffects(
            label=None if labels is None else labels[side],
            series=len(known) if count is None else int((known == side).sum()),
            channels=by_channel.get(side, []),
            regions=by_region.get(side, []),
            scales=effects.scales[place],
            words=sorted(effects.words[place], key=lambda effect: -abs(effect.effect)),
            views=sorted(effects.views[place], key=lambda effect: -abs(effect.effect)),
            facts=by_fact.get(side, []),
        )
        for place, side in enumerate(contrasts.sides)
    ]
    return replace(
        features,
        classes=by_class,
        channels=sorted(_overall(by_class, "channels"), key=lambda channel: -channel.importance),
        regions=_overall(by_class, "regions"),
        scales=_overall(by_class, "scales"),
        words=_word_importances(table, words)[:top],
        all_words=len(words.names),
        facts=sorted(_overall(by_class, "facts"), key=lambda fact: -fact.importance),
    )


def _overall(classes: list[ClassEffects], part: str) -> list[Importance]:
    """Returns the root mean square of effects over the classes."""
    lists: list[list[Effect]] = [effects for one in classes if (effects := getattr(one, part))]
    sizes = [(sum(one.effect**2 for one in same) / len(same)) ** 0.5 for same in zip(*lists, strict=True)]
    names = [(effect.name, effect.letters, ()) for effect in lists[0]] if lists else []
    return _importances(names, sizes)


def _importances(names: Sequence[Named], sizes: Sequence[float], whole: float | None = None) -> list[Importance]:
    """Returns importances of these sizes, and their shares of the whole."""
    whole = sum(sizes) if whole is None else whole
    return [
        Importance(name, letters, size, size / whole if whole > 0 else 0.0, others)
        for (name, letters, others), size in zip(names, sizes, strict=True)
    ]


class Contrasts(NamedTuple):
    """Weights (sides, n) that sum to 0: the series of a class less the others, or the larger half of numbers less the
    smaller; for the `sides` that have series on both, and the mean where there is one class only."""

    sides: list[int]
    weights: Tensor


def contrasts_of(targets: Tensor, classes: int | None) -> Contrasts:
    """Returns those of labels 0..classes-1 (n,), or of numbers."""
    if classes is None:
        order = targets.double().argsort(stable=True)
        upper = torch.zeros(len(targets), dtype=torch.bool, device=targets.device)
        upper[order[(len(targets) + 1) // 2 :]] = True
        return Contrasts([0], _contrast(upper)[None])
    insides = [(number, targets == number) for number in range(classes)]
    both = [(number, inside) for number, inside in insides if 0 < int(inside.sum()) < len(targets)]
    if not both:  # all of one class
        only = [number for number, inside in insides if bool(inside.any())]
        return Contrasts(only, torch.full((1, len(targets)), 1 / len(targets), device=targets.device).double())
    return Contrasts([number for number, _ in both], torch.stack([_contrast(inside) for _, inside in both]))


def _contrast(inside: Tensor) -> Tensor:
    count = int(inside.sum())
    return torch.where(inside, 1 / count, -1 / (len(inside) - count)).double()


def spread_over(targets: Tensor, classes: int | None, most: int) -> Tensor:
    """Returns the numbers of at most `most` series, in order, evenly over the classes, or over the numbers."""
    if len(targets) <= most:
        return torch.arange(len(targets), device=targets.device)
    if classes is None:
        order = targets.argsort(stable=True)
        return order[torch.arange(most, device=targets.device) * len(targets) // most].sort().values
    places = [(targets == number).nonzero()[:, 0] for number in range(classes)]
    places = sorted((rows for rows in places if len(rows)), key=len)
    taken, left = [], most
    for number, rows in enumerate(places):
        count = min(len(rows), left // (len(places) - number))
        taken.append(rows[torch.arange(count, device=rows.device) * len(rows) // max(1, count)])
        left -= count
    return torch.cat(taken).sort().values


def cut_series(terms: Terms, batch: SeriesBatch, regions: int | None) -> tuple[SeriesBatch, Tensor]:
    """Returns the 2 P series of two permutations of the P regions or channels of n series, and their coefficients."""
    pieces = torch.arange(batch.channels if regions is None else regions, device=batch.values.device)
    ranks, used = torch.stack([pieces, pieces.flip(0)]), torch.zeros(2, dtype=torch.int64, device=pieces.device)
    values = batch.values.new_empty(len(batch), 2 * len(pieces), *batch.values.shape[1:])
    coefficients = torch.zeros(0)
    for row, length in enumerate(batch.counts().tolist()):
        one = batch.values[row : row + 1, :length]
        ordinary = stretched(terms.ordinary, length).to(one)[None]
        cuts = CutSeries(SeriesBatch(one), ordinary, used, ranks, segments_of(length, regions or 1, one.device))
        values[row, :, :length] = cuts.series(cuts.numbers()).values
        values[row, :, length:] = values[row, :, length - 1 : length]
        coefficients = cuts.weights(pieces)
    rows = torch.arange(len(batch), device=pieces.device).repeat_interleave(2 * len(pieces))
    return replace(batch[rows], values=values.flatten(0, 1), statistics=None), coefficients


def cut_effects(
    terms: Terms, batch: SeriesBatch, targets: Tensor, names: Letters, regions: int | None = None, facts: bool = False
) -> dict[int, list[Effect]]:
    """Returns the effects, by class, of `regions` or without them of channels or `facts` with these names."""
    classes, count = terms.logits.classes, len(names)
    most = min(_MOST_SERIES, max(2 * (classes or 2), _CUT_SERIES // (2 * count)))
    chosen = spread_over(targets, classes, most)
    sides, contrasts = contrasts_of(targets[chosen], classes)
    cut, credits = cut_facts(batch[chosen]) if facts else cut_series(terms, batch[chosen], regions)
    weights = torch.einsum("sn,pw->spnw", contrasts, credits).flatten(2).flatten(0, 1)
    which = torch.tensor(sides, device=weights.device).repeat_interleave(count)
    posterior = whole_sums(terms, cut, weights, terms.logits.class_directions()[which])
    named: list[Named] = [(name, (name,) if regions is None else (), ()) for name in names]
    return {side: effects_of(named, posterior[place * count :][:count]) for place, side in enumerate(sides)}


@torch.no_grad()
def whole_sums(terms: Terms, batch: SeriesBatch, weights: Tensor, directions: Tensor) -> Gaussian:
    """Returns the posterior of sums of whole latents with weights (q, n) that sum to 0, in directions (q, outputs)."""
    sums, seen = LatentSums(terms), terms.prepare(batch)
    sums.add(seen, weights)
    series = torch.arange(len(batch), device=weights.device)
    moments = sums.moments([[row] for row in range(len(weights))], [Functionals(series, weights)], lambda _: seen)
    return averaged(terms, moments, directions)


def region_names(batch: SeriesBatch, count: int, time_format: TimeFormat | None = None) -> list[str]:
    """Returns the names of equal regions: stamps or points, if the same for all series, else shares of the length."""
    lengths = batch.counts()
    length = raw = int(lengths[0])
    alike = bool((lengths == length).all())
    if batch.times is not None:
        start = batch.times[:, :1] if time_format is not None and time_format.elapsed else 0.0
        alike = alike and bool((batch.times - start == (batch.times - start)[0]).all())
    elif batch.statistics is not None:
        before = batch.statistics[:, -len(OF_SERIES)]
        alike = alike and bool((before == before[0]).all())
        raw = max(length, int(before[0]))
    if not alike:
        return [f"{100 * i / count:.0f} to {100 * (i + 1) / count:.0f} % of the series" for i in range(count)]
    times = None if batch.times is None else batch.times[0]
    limits = limits_of(segments_of(length, count, batch.values.device), times, raw)
    ends = list(zip(*(part.tolist() for part in limits), strict=True))
    if times is not None:
        clock = None if time_format is None else time_format._replace(start=float(limits[0][0]))
        return [f"{'time ' * (clock is None)}{when(start, end, clock)}" for start, end in ends]
    return [f"points {start} to {end}" if end > start or raw > length else f"point {start}" for start, end in ends]


class TermEffects(NamedTuple):
    """The effects of groups of words, of scales and of views on each side of the contrasts."""

    words: list[list[Effect]]
    scales: list[list[Effect]]
    views: list[list[Effect]]


@torch.no_grad()
def term_effects(
    terms: Terms, batch: SeriesBatch, contrasts: Contrasts, vocabulary: Vocabulary, groups: list[list[list[int]]]
) -> TermEffects:
    """Returns what groups of words, for each side of the contrasts, scales and views contribute to the sides."""
    device, views = contrasts.weights.device, list(dict.fromkeys(vocabulary.views.values()))
    kernels = [WHOLE] if vocabulary.kernels else []  # which see all of a series
    scales = sorted({*vocabulary.scales, *kernels}, key=scale_order) if views else []
    sums: list[tuple[str, int, Named]] = []  # the kind, the side and the name of each
    rows: dict[tuple[str, Any], list[int]] = {}  # the sums in which a word, a scale or a view counts
    for side, some in enumerate(groups):
        named = [("words", _named(group, vocabulary), group) for group in some]
        named += [("scales", (scale, (), ()), [scale]) for scale in scales]
        named += [("views", (view, (), ()), [view]) for view in views]
        for kind, name, members in named:
            for member in members:
                rows.setdefault((kind, member), []).append(len(sums))
            sums.append((kind, side, name))
    side_of = torch.tensor([side for _, side, _ in sums], device=device)

    def indices(*keys: tuple[str, Any]) -> Tensor:
        """Returns the numbers of the sums in which something counts."""
        return torch.tensor([row for key in keys for row in rows.get(key, [])], dtype=torch.int64, device=device)

    seen = terms.prepare(batch)
    parts = PartSums(terms, contrasts.weights[side_of], seen)
    for number, part in enumerate(terms.parts(seen)):
        if vocabulary.parts[number] is None:
            continue
        scale, view = vocabulary.scales[number], vocabulary.views.get(part.name)
        parts.features(number, part, indices(("scales", scale), ("views", view)))
        chosen: dict[int, list[Tensor]] = {}
        for word, columns in vocabulary.columns(number):
            for row in rows.get(("words", word), []):
                chosen.setdefault(row, []).append(columns)
        for row, columns in chosen.items():
            parts.features(number, part, torch.tensor([row], device=device), torch.cat(columns))
    for name, word in vocabulary.kernels.items():
        parts.kernel(name, indices(("words", word), ("scales", WHOLE), ("views", vocabulary.views[name])))
    directions = terms.logits.class_directions()[torch.tensor(contrasts.sides, device=device)[side_of]]
    effects = TermEffects(*([[] for _ in groups] for _ in TermEffects._fields))
    named_effects = effects_of([name for _, _, name in sums], averaged(terms, parts.moments(), directions))
    for (kind, side, _), effect in zip(sums, named_effects, strict=True):
        getattr(effects, kind)[side].append(effect)
    return effects


def effects_of(names: Iterable[Named], posterior: Gaussian) -> list[Effect]:
    """Returns an effect for each of q names."""
    numbers = zip(*(part.tolist() for part in (*posterior, posterior.probability_of_sign())), strict=True)
    return [
        Effect(name, letters, *one, others=others) for (name, letters, others), one in zip(names, numbers, strict=True)
    ]


def _named(group: Sequence[int], words: Vocabulary) -> Named:
    """Returns the name of a group of words, its letters, and the names of the others in it."""
    first, *others = group
    return group_name(words.names[first], len(others)), words.channels_of(first), tuple(words.names[i] for i in others)


def word_table(terms: Terms, batch: SeriesBatch, words: Vocabulary) -> Tensor:
    """Returns what every word adds (classes, n, words) to the logits less their mean, or the number, at n series."""
    directions, seen = terms.logits.class_directions(), terms.prepare(batch)
    added, mean, _ = _kernel_latents(terms, seen, len(batch))
    total = torch.zeros(len(words.names), len(batch), directions.shape[1]).to(directions)
    for number, part in enumerate(terms.parts(seen)):
        if words.parts[number] is not None:
            weights, features = _mean_weights(terms, number, mean), part.values.double()
            for word, columns in words.columns(number):
                total[word] += features[:, columns] @ weights[columns]
    for name, word in words.kernels.items():
        total[word] += added[name]
    return (total @ directions.T).permute(2, 1, 0).contiguous()


def _kernel_latents(
    terms: Terms, seen: SeriesBatch, series: int
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    """Returns the latents of kernels without features, the mean a_b (m, outputs) of powers, and what these add."""
    rows = terms.rows(seen)
    added: dict[str, Any] = {name: rows[name].gram @ weights for name, weights in terms.kernels.items()}
    mean: dict[str, Any] = {}
    bent: dict[str, Any] = {}
    for kernel, factor, alpha in terms.bends(rows):
        latents = (factor * rows[kernel].gram) @ alpha
        if kernel in added:
            added[kernel] = added[kernel] + latents
        bent[kernel] = bent.get(kernel, 0.0) + latents
        mean[kernel] = mean.get(kernel, 0.0) + (factor.sum(0) / series)[:, None] * alpha
    return added, mean, bent


def _mean_weights(terms: Terms, number: int, mean: Mapping[str, Tensor]) -> Tensor:
    """Returns W (p, outputs) of a part, with the `mean` a_b (m, outputs) of members of a power above 1."""
    weights, bent = terms.part_weights(number), mean.get(terms.kernel_of_part[number])
    return weights if bent is None else weights + terms.bent_weights(number, bent.T).T


def _groups(table: Tensor) -> list[list[int]]:
    """Returns groups of the words with the largest spread, of terms (classes, n, words); singles below ten series."""
    spread = (table - table.mean(1, keepdim=True)).square().mean(1).sum(0).sqrt()
    chosen = spread.argsort(descending=True, stable=True)[:CANDIDATES]
    chosen = chosen[spread[chosen] > 0]
    if table.shape[1] < FEWEST:
        return [[word] for word in chosen.tolist()]
    centred = table[:, :, chosen] - table[:, :, chosen].mean(1, keepdim=True)
    return [[int(chosen[number]) for number in group] for group in grouped(centred.flatten(0, 1))]


def _word_importances(table: Tensor, words: Vocabulary) -> list[Importance]:
    """Returns those of all groups of words, largest first."""
    groups = _groups(table)
    inside = {word for group in groups for word in group}
    groups += [[word] for word in range(len(words.names)) if word not in inside]
    sizes = [float(table[:, :, group].sum(2).std(1, correction=0).sum()) for group in groups]
    importances = _importances([_named(group, words) for group in groups], sizes)
    return sorted(importances, key=lambda word: -word.importance)


@torch.no_grad()
def feature_importance(terms: Terms, batch: SeriesBatch, vocabulary: Vocabulary, top: int) -> Importances:
    """Returns the importances of single features, sum over c of |W_cj| std(phi_j), and of views."""
    mixing = terms.logits.mixing
    features = [Spread() for _ in terms.widths]
    views: dict[str, Spread] = {}
    mean: dict[str, Any] = {}
    for chunk in batch.split(terms.chunk_size(batch)):
        seen = terms.prepare(chunk)
        added, more, bent = _kernel_latents(terms, seen, len(batch))
        mean |= {name: mean.get(name, 0.0) + share for name, share in more.items()}
        added = bent | added
        for number, part in enumerate(terms.parts(seen)):
            if vocabulary.parts[number] is not None:
                features[number].add(part.values)
                latents = (part.values.double() - terms.centre(number)) @ terms.part_weights(number)
                added[part.name] = added.get(part.name, 0.0) + latents
        for name, latents in added.items():
            views.setdefault(name, Spread()).add(latents @ mixing.T)
    total = torch.zeros(len(vocabulary.names), dtype=torch.float64, device=mixing.device)
    for number, indices in enumerate(vocabulary.parts):
        if indices is not None:
            weights = (mixing @ _mean_weights(terms, number, mean).T).abs().sum(0)
            total.index_add_(0, indices, weights * features[number].std())
    sizes = {name: float(spread.std().sum()) for name, spread in views.items()}
    for name, index in vocabulary.kernels.items():
        total[index] = sizes[name]
    by_view: dict[str, float] = {}
    for name, view in vocabulary.views.items():
        by_view[view] = by_view.get(view, 0.0) + sizes[name]
    largest = total.argsort(descending=True, stable=True)[:top].tolist()
    named = [(vocabulary.names[index], vocabulary.channels_of(index), ()) for index in largest]
    by_name = _importances([(name, (), ()) for name in by_view], list(by_view.values()))
    return Importances(
        features=_importances(named, total[largest].tolist(), float(total.sum())),
        series=len(batch),
        all_features=len(total),
        views=sorted(by_name, key=lambda view: -view.importance),
    )


class Spread:
    """The standard deviation (p,) of rows (n, p) that are added chunk by chunk.

    >>> spread = Spread()
    >>> spread.add(torch.tensor([[0.0], [2.0]]))
    >>> spread.add(torch.tensor([[4.0]]))
    >>> spread.std().square()
    tensor([2.6667], dtype=torch.float64)
    """

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 0, torch.zeros(1).double(), torch.zeros(1).double()

    def add(self, rows: Tensor) -> None:
        """Adds rows (n, p), n at least 1: the update of Chan et al."""
        rows = rows.double()
        squares = mean = rows.new_zeros(rows.shape[1])
        if rows.numel():  # torch warns where there are no columns
            squares, mean = torch.var_mean(rows, dim=0, correction=0)
        share, apart = len(rows) / (self.count + len(rows)), mean - self.mean.to(mean)
        more = len(rows) * squares + apart.square() * (self.count * share)
        self.squares, self.mean = self.squares.to(mean) + more, self.mean.to(mean) + apart * share
        self.count += len(rows)

    def std(self) -> Tensor:
        """Returns it without Bessel's correction, (p,)."""
        return (self.squares / self.count).sqrt()


@torch.no_grad()
def paper_reading(committee: Committee, names: Sequence[str], top: int = 10, classes: Any = None) -> PaperReading:
    r"""Returns the words of the paper's model by the size of their weights, as the paper ranks them.

    Words are orthogonal under the prior: inducing variables :math:`u_a` of variance 1, of which
    :math:`q(u) = N(m, \Sigma)` is the posterior. The paper (Lemercier et al., 2021) ranks words by :math:`|m_a|`. Words
    with small terms need large weights to matter at all, so this favours long words; `global_importance` asks instead
    what words contribute.

    Parameters
    ----------
    committee
        A model that was fitted with `method="paper"`.
    names
        The names of the channels of the series.
    top
        How many words are listed.
    classes
        The labels of the model.

    Returns
    -------
    The words with the largest weights, over all latents and for each of them.

    Examples
    --------
    >>> import siggpde
    >>> X = torch.randn(10, 1, 5, generator=torch.Generator().manual_seed(0)).cumsum(2)
    >>> model = siggpde.SigGPClassifier(method="paper", n_features=7, max_iter=1).fit(X, [0, 1] * 5)
    >>> len(paper_reading(model.committee_, ["x"], top=2, classes=[0, 1]).words)
    2
    """
    terms = terms_of(committee)
    model = terms.model
    if model is None:
        raise ValueError(
            "the paper reads the weights of one sparse model, whose inducing variables are words; this one is a "
            "committee of views. Fit with method='paper', or take `importance`, which says what any model rests on"
        )
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    labels = checked_labels(terms, classes)
    if model.features.basis is not None:
        raise ValueError("the inducing variables of this model are directions and not words; fit with method='paper'")
    vocabulary = terms.vocabulary(names)
    kept = [index for index, word in enumerate(model.features.words) if word]
    words = [word for word in vocabulary.letters if word]
    q = model.variational
    root = q.root.detach().double()
    variances = root.tril().square().sum(2) if q.full else root.square()
    mean, variance = q.mean.detach().double()[:, kept], variances.expand(q.latents, -1)[:, kept]

    def ranked(latents: slice) -> list[WordWeight]:
        weights, sizes, stds = mean[latents], mean[latents].norm(dim=0), variance[latents].mean(0).sqrt()
        return [
            WordWeight("–".join(words[i]), words[i], float(sizes[i]), float(stds[i]), tuple(weights[:, i].tolist()))
            for i in sizes.argsort(descending=True, stable=True)[:top].tolist()
        ]

    several = labels is not None and len(mean) == len(labels)
    by_class = {label: ranked(slice(i, i + 1)) for i, label in enumerate(labels or ()) if several}
    return PaperReading(ranked(slice(None)), by_class, len(kept))
