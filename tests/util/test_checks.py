"""Checks of arguments, and seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpu_consensus.util import checks


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), np.array(3)])
def test_check_int(value):
    number = checks.check_int("n", value, 1, 3)
    assert number == 3
    assert type(number) is int


@pytest.mark.parametrize(
    ("value", "error", "match"),
    [
        (0, ValueError, r"^n=0 should be in 1\.\.9; try more\.$"),
        (10, ValueError, r"^n=10 should be in 1\.\.9; try more\.$"),
        (3.0, TypeError, r"^n=3\.0 should be an integer in 1\.\.9; try more\.$"),
        ("3", TypeError, "n='3' should be an integer"),
        (True, TypeError, "n=True should be an integer"),
        (np.True_, TypeError, "should be an integer"),
        (None, TypeError, "n=None should be an integer"),
        ([3], TypeError, "should be an integer"),
    ],
)
def test_check_int_refuses(value, error, match):
    with pytest.raises(error, match=match):
        checks.check_int("n", value, 1, 9, cure="try more")


def test_check_int_without_upper_bound():
    assert checks.check_int("n", 10**30, 0) == 10**30
    with pytest.raises(ValueError, match=r"^n=-1 should be >= 0\.$"):
        checks.check_int("n", -1, 0)


def test_check_n_clusters():
    assert checks.check_n_clusters(5, 5) == 5
    with pytest.raises(ValueError, match="n_samples=5 should be >= n_clusters=6"):
        checks.check_n_clusters(6, 5)
    with pytest.raises(ValueError, match="n_clusters=0 should be >= 1"):
        checks.check_n_clusters(0, 5)


@pytest.mark.parametrize("open_low", [True, False])
@pytest.mark.parametrize("open_high", [True, False])
def test_check_share(open_low, open_high):
    options = {"open_low": open_low, "open_high": open_high}
    assert checks.check_share("s", np.float32(0.5), **options) == 0.5
    wrong = [-0.1, 1.1, math.nan, "0.5", None, True]
    wrong += [0] * open_low + [1] * open_high
    for value in wrong:
        bounds = ("(" if open_low else "[") + "0, 1" + (")" if open_high else "]")
        with pytest.raises(ValueError) as caught:
            checks.check_share("s", value, **options)
        assert str(caught.value) == f"s={value!r} should be a number in {bounds}."
    for value in [0] * (not open_low) + [1] * (not open_high):
        assert checks.check_share("s", value, **options) == value


def test_check_choice():
    assert checks.check_choice("method", "sec", ["kcc", "sec"]) == "sec"
    for value, listed in {
        "lambda": "'lambda_consensus', ",
        "KCC": "'kcc', ",
        "kc": "'kcc', ",
        3: "'",
        None: "'",
    }.items():
        with pytest.raises(ValueError) as caught:
            checks.check_choice("method", value, ["sec", "kcc", "lambda_consensus"])
        text = str(caught.value)
        assert text.startswith(f"method={value!r} is unknown; choose one of {listed}")
        assert all(f"'{name}'" in text for name in ("sec", "kcc", "lambda_consensus"))


def words(sequence):
    return sequence.generate_state(4).tolist()


def test_seed_sequence_repeats():
    assert words(checks.seed_sequence(7)) == words(np.random.SeedSequence(7))
    assert words(checks.seed_sequence(np.int64(7))) == words(np.random.SeedSequence(7))
    given = np.random.SeedSequence(7, spawn_key=(2,), pool_size=8)
    given.spawn(3)
    taken = checks.seed_sequence(given)
    assert words(taken) == words(given)
    first_child = np.random.SeedSequence(7, spawn_key=(2, 0), pool_size=8)
    assert words(taken.spawn(1)[0]) == words(first_child)
    assert given.n_children_spawned == 3
    assert words(checks.seed_sequence(None)) != words(checks.seed_sequence(None))


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_seed_sequence_from_a_generator_moves_it_on(make):
    source, again = make(5), make(5)
    first, second = (words(checks.seed_sequence(source)) for _ in range(2))
    assert first != second
    assert [first, second] == [words(checks.seed_sequence(again)) for _ in range(2)]


@pytest.mark.parametrize(
    ("value", "error"),
    [(-1, ValueError), (1.5, TypeError), ("a", TypeError), (True, TypeError)],
)
def test_seed_sequence_refuses(value, error):
    with pytest.raises(
        error, match=r"random_state=.*; or pass None, a numpy Generator"
    ):
        checks.seed_sequence(value)
