"""Words: order, names, counts, prefixes, and what is refused."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.refusals import assert_refused
from siggpde.numerics import words as words_module
from siggpde.numerics.words import count_up_to, letter_counts, parents, prefix_closure, word_names, words, words_up_to

some_words = st.lists(st.lists(st.integers(0, 3), max_size=5).map(tuple), max_size=12, unique=True)


def test_words_come_by_length_then_alphabet():
    assert words(2, 8) == [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1), (0, 0, 0)]
    assert words(1, 4) == [(), (0,), (0, 0), (0, 0, 0)]
    assert words(3, 1) == [()] and words(10**30, 3) == [(), (0,), (1,)]
    names = word_names([(0, 1, 0), (), (1,)], ["moisture", "humidity"])
    assert names == ["moisture–humidity–moisture", "1", "humidity"]


@given(channels=st.integers(1, 6), count=st.integers(1, 200))
def test_words_are_sorted_distinct_and_prefix_closed(channels, count):
    listed = words(channels, count)
    assert len(set(listed)) == len(listed) == count
    assert listed == sorted(listed, key=lambda word: (len(word), word))
    assert listed == prefix_closure(listed)
    assert words(channels, count + 1)[:count] == listed


@given(channels=st.integers(1, 4), depth=st.integers(0, 4))
def test_words_up_to_has_every_word_once(channels, depth):
    expected = [word for k in range(depth + 1) for word in itertools.product(range(channels), repeat=k)]
    assert words_up_to(channels, depth) == expected
    assert count_up_to(channels, depth) == len(expected)


@given(some_words, st.randoms())
def test_letter_counts_count_and_closures_are_the_smallest_with_parents_at_the_prefix(listed, random):
    counts = letter_counts(listed, 4)
    assert counts.dtype == torch.int64 and counts.shape == (len(listed), 4)
    assert counts.tolist() == [[word.count(letter) for letter in range(4)] for word in listed]
    closure = prefix_closure(listed)
    prefixes = {word[:k] for word in [*listed, ()] for k in range(len(word) + 1)}
    assert closure == sorted(prefixes, key=lambda word: (len(word), word))
    random.shuffle(closure)
    for word, parent in zip(closure, parents(closure).tolist(), strict=True):
        assert parent == -1 if word == () else closure[parent] == word[:-1]


LONG = (0,) * 20_000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: words(0, 3), "channels must be at least 1, got 0"),
        (lambda: words(2, 0), "count must be at least 1, got 0"),
        (lambda: words(2.5, 3), "channels must be an integer, got 2.5"),
        (lambda: words_up_to(2, -1), "depth must be at least 0, got -1"),
        (lambda: letter_counts([(0,), (2,)], 2), r"word 1 is \(2,\), but with 2 channels letters go from 0 to 1"),
        (lambda: letter_counts([(-1,)], 2), "letters go from 0 to 1"),
        (lambda: letter_counts([(0,), (0,)], 2), r"word \(0,\) comes more than once"),
        (lambda: letter_counts(["ab"], 2), "a word is a tuple of integers"),
        (lambda: prefix_closure([3]), "a word is a tuple of integers"),
        (lambda: word_names([(0,)], []), "channels must be at least 1"),
        (lambda: parents([(), (0, 1)]), r"not prefix-closed: \(0,\) is missing, the prefix of \(0, 1\)"),
        (lambda: parents([(0,)]), r"not prefix-closed: \(\) is missing"),
        (lambda: parents([(), (0,), (0,)]), "comes more than once"),
        (lambda: prefix_closure(3), "words is a list of words"),
        (lambda: words(True, 3), "channels must be an integer, got True"),
        # Sets out of all proportion are refused before they are made.
        (lambda: words(1, 10**9), "the first 1000000000 words over 1 channels go beyond the 1000 letters"),
        (lambda: words(1, 1002), "ask for at most 1001"),
        (lambda: words(2, 10**8), "the first 100000000 words over 2 channels have 2465782[0-9]{3} letters in all"),
        (lambda: words(2, 10**5000), r"the first more than 10\^49.. words over 2 channels"),
        (lambda: words_up_to(1, 10**9), "depth 1000000000 is beyond the 1000 letters that a word may have; lower it"),
        (lambda: words_up_to(3, 1000), r"depth 1000 with 3 channels has more than 10\^477 words of more than 10\^480"),
        (lambda: words_up_to(10**9, 2), r"has more than 10\^17 words of"),
        (lambda: count_up_to(2, 10**9), "depth 1000000000 is beyond the 1000 letters"),
        (lambda: prefix_closure([(), LONG]), "word 1 has 20000 letters; a word may have 1000"),
        (lambda: parents([LONG]), "word 0 has 20000 letters"),
        (lambda: letter_counts([LONG], 1), "word 0 has 20000 letters"),
        (lambda: word_names([LONG], ["a"]), "word 0 has 20000 letters"),
        (lambda: prefix_closure([(a,) + (0,) * 999 for a in range(600)]), "these 600 words have 300300000 .*; ask for"),
    ],
)
def test_mistakes_are_explained(call, message):
    assert_refused(message, call)


@given(some_words, st.integers(1, 60))
def test_what_is_refused_is_counted_exactly(listed, limit):
    """The closure is refused if and only if its letters are more than those allowed, with their true number."""
    letters = sum(map(len, prefix_closure(listed)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words_module, "MAX_LETTERS_IN_ALL", limit)
        if letters <= limit:
            assert sum(map(len, prefix_closure(listed))) == letters
        else:
            assert_refused(f"have {letters} letters in all, of which {limit} are allowed", prefix_closure, listed)


@given(st.integers(1, 3), st.integers(0, 4), st.integers(1, 200), st.integers(0, 100))
def test_depths_and_counts_are_refused_by_their_letters(channels, depth, count, limit):
    calls = [(lambda: words_up_to(channels, depth)), (lambda: words(channels, count))]
    wanted = [call() for call in calls]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words_module, "MAX_LETTERS_IN_ALL", limit)
        for call, listed in zip(calls, wanted, strict=True):
            letters = sum(map(len, listed))
            if letters <= limit:
                assert call() == listed
            else:
                assert_refused(f" {letters} letters in all, of which {limit} are allowed", call)


def test_the_longest_words_that_are_allowed():
    longest = (0,) * words_module.MAX_LETTERS
    assert words(1, 1001)[-1] == longest == words_up_to(1, 1000)[-1]
    assert len(prefix_closure([longest])) == 1001
    assert letter_counts([longest], 2).tolist() == [[1000, 0]]
