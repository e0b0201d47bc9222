"""The exponential that NumPy and C share; its bits in C are those of test_native."""

import math

import numpy as np

from gpu_consensus.backends.exp import exp


def test_it_is_the_exponential():
    rng = np.random.default_rng(0)
    halves = -math.log(2) * np.arange(1, 1000) / 2  # where the whole number changes
    x = np.concatenate(
        [
            -rng.random(20_000),
            -700 * rng.random(20_000),
            -(2.0 ** -np.arange(0.0, 80.0)),
            halves,
            np.nextafter(halves, 0),
            np.nextafter(halves, -1e9),
        ]
    )
    expected = np.array([math.exp(v) for v in x])
    error = np.abs(exp(x) - expected)
    assert (error <= 2 * np.spacing(expected)).all()


def test_its_ends():
    assert exp(np.array([0.0, -0.0])).tolist() == [1.0, 1.0]
    far = np.array([-700.0, -708.5, -1e300, -np.inf])
    assert exp(far).tolist() == [0.0] * 4
    assert exp(np.nextafter(-700.0, 0)[None])[0] > 0
    assert exp(np.empty((0, 3))).shape == (0, 3)


def test_what_it_is_given_stays_as_it_is():
    x = -np.arange(6.0).reshape(2, 3)
    x.flags.writeable = False
    assert np.allclose(exp(x), np.exp(x), rtol=1e-15)
