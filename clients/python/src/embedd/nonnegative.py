"""Least quadratic functions over numbers that are not negative."""
from __future__ import annotations

import numpy as np

from embedd.rows import Floats

ROUNDS = 10000
TOLERANCE = 1e-12  # of a slope, relative to the largest target
ENOUGH = 1e-6  # slope up to which weights that no longer improve are the least


class Quadratic:
    """w'Gw - 2 w't over w >= 0, for a symmetric G without negative eigenvalues."""

    def __init__(self, gram: Floats) -> None:
        self.gram = gram

    def least(self, target: Floats) -> Floats:
        """The w of the least value, by active sets: all weights with a downward slope enter at once if that is better,
        and otherwise the steepest one (Lawson and Hanson, Solving Least Squares Problems, chapter 23)."""
        w = np.zeros(len(target))
        bound = TOLERANCE * np.abs(target).max()
        for _ in range(ROUNDS):
            slope = target - self.gram @ w
            entering = (w == 0) & (slope > bound)
            if not entering.any() and np.abs(slope[w > 0]).max(initial=0) <= bound:
                return w
            value = self._value(w, target)
            free = (w > 0) | entering
            next_w = np.maximum(self._solve(free, target), 0)
            if not self._value(next_w, target) < value:
                free = w > 0
                if entering.any():
                    free[np.argmax(np.where(entering, slope, -np.inf))] = True
                next_w = self._toward(w, free, target)
                if not self._value(next_w, target) < value:
                    break
            w = next_w
        slope = target - self.gram @ w
        worst = max(np.abs(slope[w > 0]).max(initial=0), slope.max())
        if not worst <= ENOUGH * np.abs(target).max():
            raise ValueError(f"the similarities of a row did not converge: the slope is {worst:g}")
        return w

    def _value(self, w: Floats, target: Floats) -> float:
        at = np.flatnonzero(w)
        return float(w[at] @ (self.gram[np.ix_(at, at)] @ w[at] - 2 * target[at]))

    def _solve(self, free: np.ndarray, target: Floats) -> Floats:
        """The least without bounds, where only some weights may differ from 0."""
        at = np.flatnonzero(free)
        out = np.zeros(len(target))
        gram = self.gram[np.ix_(at, at)]
        try:
            out[at] = np.linalg.solve(gram, target[at])
        except np.linalg.LinAlgError:
            out[at] = np.linalg.lstsq(gram, target[at], rcond=None)[0]
        return out

    def _toward(self, w: Floats, free: np.ndarray, target: Floats) -> Floats:
        """The least over some weights, without those that reach 0 on the way to it."""
        while free.any():
            goal = self._solve(free, target)
            falling = free & (goal <= 0)
            if not falling.any():
                return goal
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.where(falling, w / (w - goal), np.inf)
            part = np.nanmin(share)
            w = np.maximum(w + part * (goal - w), 0)
            w[falling & (share <= part)] = 0
            free = free & (w > 0)
        return w
