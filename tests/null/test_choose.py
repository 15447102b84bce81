"""Which candidates are timed on hardware: the rule alone, on made-up spaces."""

from __future__ import annotations

import json
import math
import statistics
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import warplens
from warplens.tuner.timing import COMMON, LIMIT, OWN, Candidate, choose, posterior

SIDE = 11


def _space(seconds: dict[tuple[int, int], float], limits: tuple[str, str] = ("issue", "issue")) -> list[Candidate]:
    """A square of candidates, the fastest by prediction first; `limits`: of its left and of its right side."""
    made = [
        Candidate(
            n, {"x": x, "y": y}, (1, 1, 1), (32, 1, 1), s, True, limits[x > SIDE // 2], (x / (SIDE - 1), y / (SIDE - 1))
        )
        for n, ((x, y), s) in enumerate(seconds.items())
    ]
    return sorted(made, key=lambda c: c.seconds)


def _at(c: Candidate) -> tuple[int, int]:
    return int(c.values["x"]), int(c.values["y"])


def test_the_best_by_prediction_comes_first_and_none_twice() -> None:
    space = _space({(x, y): 1e-6 * (1 + 0.01 * (x + y)) for x in range(SIDE) for y in range(SIDE)})
    made = choose(space, 7, lambda c: c.seconds)
    assert made[0][0] is space[0]
    assert len({c.number for c, _ in made}) == 7
    assert len(choose(space, 500, lambda c: c.seconds)) == SIDE**2


def test_what_is_predicted_alike_is_looked_for_far_apart() -> None:
    space = _space({(x, y): 1e-6 for x in range(SIDE) for y in range(SIDE)})
    chosen = [c.position for c, _ in choose(space, 3, lambda c: c.seconds)]
    assert min(math.dist(a, b) for i, a in enumerate(chosen) for b in chosen[:i]) > 0.9


def test_a_bad_surprise_moves_on_and_a_good_one_stays() -> None:
    """Two valleys with limits of their own are predicted to be alike; the one where the best is takes longer."""
    seconds = {(x, y): 1e-6 * (1 + 0.02 * min(x, 0.5 + SIDE - 1 - x)) for x in range(SIDE) for y in range(SIDE)}
    space = _space(seconds, ("issue", "latency"))
    slow_left = choose(space, 5, lambda c: c.seconds * (1.3 if _at(c)[0] < SIDE // 2 else 1.0))
    assert all(_at(c)[0] > SIDE // 2 for c, _ in slow_left[1:])
    fast_left = choose(space, 5, lambda c: c.seconds * (0.7 if _at(c)[0] < SIDE // 2 else 1.0))
    assert all(_at(c)[0] < SIDE // 2 for c, _ in fast_left)


def test_an_estimate_that_may_be_far_off_is_tried_before_a_sure_prediction() -> None:
    sure, unsure = (
        Candidate(n, {}, (1, 1, 1), (32, 1, 1), 1.03e-6, n == 1, position=(1.0, float(n)), doubt=0.07 * (n - 1))
        for n in (1, 2)
    )  # fmt: skip
    first = Candidate(0, {}, (1, 1, 1), (32, 1, 1), 1e-6, True, position=(0.0, 1.5))
    assert [c.number for c, _ in choose([first, sure, unsure], 2, lambda c: c.seconds)] == [0, 2]


def test_what_the_same_part_limits_is_off_alike() -> None:
    """The first takes a tenth longer than predicted: so will what is limited as it is, and the other comes next."""
    candidates = [
        Candidate(n, {}, (1, 1, 1), (32, 1, 1), seconds, True, bound, (place,))
        for n, (seconds, bound, place) in enumerate(
            [(1.0e-6, "issue", 0.5), (1.01e-6, "issue", 0.0), (1.02e-6, "latency", 1.0)]
        )
    ]
    assert [c.number for c, _ in choose(candidates, 2, lambda c: 1.1 * c.seconds)] == [0, 2]
    assert [c.number for c, _ in choose(candidates, 2, lambda c: 0.8 * c.seconds)] == [0, 1]


def test_the_sizes_of_errors_are_those_of_the_train_set() -> None:
    """Half the mean square of the difference of two launches of a function: the variance of what they do not share."""
    file = Path(warplens.__file__).parent / "models" / "warplens" / "confidence.json"
    by_function: dict[str, list[tuple[str, float]]] = {}
    for function, bound, _, log_ratio in json.loads(file.read_text())["models"]["warplens"]:
        by_function.setdefault(function, []).append((bound, log_ratio))

    def apart(same: bool) -> float:
        """The mean over functions, so that one with many launches does not count for more."""
        means = [
            statistics.mean(squares)
            for launches in by_function.values()
            if (squares := [(a[1] - b[1]) ** 2 / 2 for a, b in combinations(launches, 2) if (a[0] == b[0]) == same])
        ]
        return statistics.mean(means)

    assert math.sqrt(apart(same=True)) == pytest.approx(OWN, rel=0.25)
    assert math.sqrt(apart(same=False) - apart(same=True)) == pytest.approx(LIMIT, rel=0.25)
    means = [statistics.mean(error for _, error in launches) for launches in by_function.values()]
    assert statistics.pstdev(means) == pytest.approx(COMMON, rel=0.25)


def test_a_prediction_that_failed_says_little_of_its_neighbours() -> None:
    """One that takes half as long again as predicted, five times what errors deviate by, is no reason to leave them."""
    places = [(0.0,), (0.4,), (0.5,), (1.0,)]
    candidates = [
        Candidate(i, {}, (1, 1, 1), (32, 1, 1), seconds, i == 0, position=place)
        for i, (place, seconds) in enumerate(zip(places, (1.0e-6, 0.96e-6, 0.97e-6, 1.02e-6), strict=True))
    ]
    took = {0: 1.0e-6, 1: 1.6e-6, 2: 0.97e-6, 3: 1.02e-6}
    chosen = [c.number for c, _ in choose(candidates, 3, lambda c: took[c.number])]
    assert chosen == [0, 1, 2]


def test_where_every_estimate_was_right_the_others_stay_as_they_are() -> None:
    """Errors of no size made a singular matrix."""
    mean, deviation = posterior(np.zeros((2, 3)), [0, 1], np.zeros(3), np.zeros(2), 0.0)
    assert mean.tolist() == [0, 0, 0] and deviation == pytest.approx(1e-6)
