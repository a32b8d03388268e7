"""The kinds of maps of docs/model-file.md, in float64. Each function makes the map of scaled rows z, n x m."""
from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from embedd.nonnegative import Quadratic
from embedd.rows import Floats

Arrays = Mapping[str, Floats]
Map = Callable[[Floats], Floats]

# The shape of each array: m features, d outputs, c classes; other letters are sizes that arrays share.
SHAPES: dict[str, dict[str, str]] = {
    "linear": {"components": "md"},
    "views": {"components": "cmd", "offset": "cd", "window": "cnd", "label": "n"},
    "kernel": {"rows": "nm", "coefficients": "nd"},
    "sum": {"offset": "d"},
    "nystrom": {"rows": "nm", "embedding": "nd", "lambda": "d", "reach": "n", "neighbors": "1", "rate": "1"},
    "barycentric": {"rows": "nm", "embedding": "nd", "neighbors": "1", "regular": "1"},
    "geodesic": {"rows": "nm", "embedding": "nd", "lambda": "d", "mean_square": "n", "edge": "e2", "length": "e",
                 "neighbors": "1"},
    "tangent": {"rows": "nm", "embedding": "nd", "patch": "n", "slope": "pmd"},
    "similarity": {"rows": "nm", "embedding": "nd", "lambda": "d", "alpha": "1", "beta": "1", "rate": "1"},
}
OPTIONAL: dict[str, list[dict[str, str]]] = {
    "kernel": [{"offset": "d"}],
    "sum": [{"components": "md"}, {"first": "f", "value": "k", "score": "k", "ranked": "md"},
            {"rows": "nm", "coefficients": "nd"}],
}
KERNELS = {"gauss": 1, "linear": 0, "polynomial": 1, "cosine": 0, "chi2": 1}


def check(kind: str, arrays: Arrays, m: int, d: int, c: int) -> None:
    """Raises a ValueError unless the arrays are those of a map of this kind."""
    if kind not in SHAPES:
        raise ValueError(f"map {kind!r} is not known to this package: upgrade it")
    want = dict(SHAPES[kind])
    for group in OPTIONAL.get(kind, []):
        if next(iter(group)) in arrays:
            want.update(group)
    if "coefficients" in want or kind == "similarity":
        kernels = [name for name in KERNELS if name in arrays]
        if len(kernels) != 1:
            raise ValueError(f"{len(kernels)} kernels in a map {kind}; it needs one of {', '.join(KERNELS)}")
        want[kernels[0]] = str(KERNELS[kernels[0]])
        if "origin" in arrays or kernels[0] == "chi2":
            want["origin"] = "m"
        if KERNELS[kernels[0]] and not (np.ravel(arrays[kernels[0]]) > 0).all():
            raise ValueError(f"the number of the kernel {kernels[0]} is not positive")
    if set(want) != set(arrays):
        raise ValueError(f"a map {kind} has the arrays {', '.join(want)}; this one has {', '.join(arrays)}")
    sizes = {"m": m, "d": d, "c": c, "0": 0, "1": 1, "2": 2, "f": m + 1}
    for name, letters in want.items():
        shape = arrays[name].shape
        if len(shape) != len(letters) or any(sizes.setdefault(k, size) != size for k, size in zip(letters, shape)):
            raise ValueError(f"array {name} has shape {shape}, ({', '.join(letters)}) is needed with {sizes}")
    n = sizes.get("n", 1)
    if min(d, n) < 1 or kind == "views" and c < 2:
        raise ValueError("a map without outputs, rows or classes")
    for name, low, high in (("label", 0, c), ("patch", 0, sizes.get("p", 0)), ("edge", 0, n), ("neighbors", 1, n + 1),
                            ("first", 0, sizes.get("k", 0) + 1)):
        a = arrays.get(name)
        if a is not None and not ((a == np.floor(a)) & (a >= low) & (a < high)).all():
            raise ValueError(f"{name} holds a number that is no integer from {low} and below {high}")
    if "first" in want:
        first = arrays["first"]
        if first[0] != 0 or first[-1] != sizes["k"] or not (np.diff(first) > 0).all():
            raise ValueError("first does not cut the knots into features")
    if kind == "views" and len(np.unique(arrays["label"])) < 2:
        raise ValueError("the window holds fewer than two classes")


def ready(kind: str, a: Arrays) -> Map:
    """The function that maps scaled rows."""
    makers: dict[str, Callable[[Arrays], Map]] = {
        "linear": _sum, "sum": _sum, "kernel": _sum, "views": _views, "nystrom": _nystrom,
        "barycentric": _barycentric, "geodesic": _geodesic, "tangent": _tangent, "similarity": _similarity}
    return makers[kind](a)


def _sum(a: Arrays) -> Map:
    kernel = _kernel(a) if "coefficients" in a else None
    first = a["first"].astype(int) if "first" in a else None

    def apply(z: Floats) -> Floats:
        y: Floats = np.zeros((len(z), 1)) + a.get("offset", np.zeros(1))
        if "components" in a:
            y = y + z @ a["components"]
        if first is not None:
            scores = np.empty_like(z)
            for j in range(z.shape[1]):
                knots = slice(first[j], first[j + 1])
                scores[:, j] = np.interp(z[:, j], a["value"][knots], a["score"][knots])
            y = y + scores @ a["ranked"]
        if kernel is not None:
            y = y + kernel(z) @ a["coefficients"]
        return y

    return apply


def _distances(z: Floats, rows: Floats) -> Floats:
    """Squared distances from each z to each row, by differences: a row of the fit has distance 0 from itself."""
    out = np.empty((len(z), len(rows)))
    for i, one in enumerate(z):
        gap = rows - one
        out[i] = np.einsum("ij,ij->i", gap, gap)
    return out


def _kernel(a: Arrays) -> Map:
    """The kernel of each z with each row of the fit."""
    name = next(name for name in KERNELS if name in a)
    p = float(a[name][0]) if KERNELS[name] else 1.0

    def moved(x: Floats) -> Floats:
        if "origin" in a:
            x = x + a["origin"]
        return np.maximum(x, 0) if name == "chi2" else x

    rows = moved(a["rows"])

    def apply(z: Floats) -> Floats:
        z = moved(z)
        if name == "gauss":
            return np.exp(-_distances(z, rows) / p)
        if name == "chi2":
            out = np.empty((len(z), len(rows)))
            for i, one in enumerate(z):
                both = rows + one
                out[i] = ((rows - one) ** 2 / np.where(both > 0, both, 1)).sum(axis=1)
            return np.exp(-out / p)
        product = z @ rows.T
        if name == "polynomial":
            return (product / p + 1) ** 2
        if name == "cosine":
            for axis, x in ((1, z), (0, rows)):
                norm = np.sqrt((x * x).sum(axis=1))
                product = product / np.expand_dims(np.where(norm > 0, norm, np.inf), axis)
        return product

    return apply


def _views(a: Arrays) -> Map:
    label = a["label"].astype(int)

    def apply(z: Floats) -> Floats:
        best = np.zeros((len(z), a["offset"].shape[1]))
        degree, nearest = np.full(len(z), -1.0), np.full(len(z), np.inf)
        for c, components in enumerate(a["components"]):
            if not (label == c).any() or (label == c).all():
                continue
            v = z @ components + a["offset"][c]
            squared = _distances(v, a["window"][c])
            own, other = squared[:, label == c].min(axis=1), squared[:, label != c].min(axis=1)
            here = np.where(own > 0, other / own, np.where(other > 0, np.inf, 1))
            better = (here > degree) | (here == degree) & (own < nearest)
            best[better], degree[better], nearest[better] = v[better], here[better], own[better]
        return best

    return apply


class _Neighbours:
    """The k nearest rows of the fit, nearest first, ties to the lower index."""

    def __init__(self, a: Arrays, k: int) -> None:
        self.rows, self.embedding, self.k = a["rows"], a["embedding"], k

    def of(self, z: Floats) -> tuple[Floats, np.ndarray, Floats]:
        """All squared distances, the nearest rows, and their squared distances."""
        squared = _distances(z, self.rows)
        nearest = np.argsort(squared, axis=1, kind="stable")[:, : self.k]
        near = np.take_along_axis(squared, nearest, axis=1)
        return squared, nearest, near

    def known(self, y: Floats, nearest: np.ndarray, near: Floats) -> Floats:
        """y, but for rows equal to one of the fit the embedding of that one, and NaN if no distance is finite."""
        y = np.where(near[:, :1] == 0, self.embedding[nearest[:, 0]], y)
        return np.where(np.isfinite(near[:, -1:]), y, np.nan)


def _nystrom(a: Arrays) -> Map:
    index = _Neighbours(a, int(a["neighbors"][0]))
    rate = float(a["rate"][0])

    def apply(z: Floats) -> Floats:
        squared, nearest, near = index.of(z)
        joined = squared < a["reach"]
        np.put_along_axis(joined, nearest, True, axis=1)
        weights = np.where(joined, np.exp(-rate * (squared - near[:, :1])), 0)
        y = weights @ a["embedding"] / weights.sum(axis=1, keepdims=True) / (1 - a["lambda"])
        none = np.exp(-rate * near[:, :1]) == 0
        return index.known(np.where(none, a["embedding"][nearest[:, 0]], y), nearest, near)

    return apply


def _barycentric(a: Arrays) -> Map:
    index = _Neighbours(a, int(a["neighbors"][0]))

    def apply(z: Floats) -> Floats:
        _, nearest, near = index.of(z)
        y = np.empty((len(z), a["embedding"].shape[1]))
        for i, one in enumerate(z):
            y[i] = a["embedding"][nearest[i, 0]]
            if near[i, 0] == 0 or not np.isfinite(near[i, -1]):
                continue
            gap = (one - a["rows"][nearest[i]]) / np.sqrt(near[i, -1])
            gram = gap @ gap.T
            gram += a["regular"][0] * np.trace(gram) * np.eye(len(gram))
            try:
                w = np.linalg.solve(gram, np.ones(len(gram)))
            except np.linalg.LinAlgError:
                continue  # the distances underflow: the nearest row equals z
            y[i] = w / w.sum() @ a["embedding"][nearest[i]]
        return index.known(y, nearest, near)

    return apply


def _geodesic(a: Arrays) -> Map:
    index = _Neighbours(a, int(a["neighbors"][0]))
    n = len(a["rows"])
    # The edges in both directions, grouped by where they lead.
    ends = a["edge"].astype(int)
    start, end = np.concatenate([ends, ends[:, ::-1]]).T
    length = np.concatenate([a["length"], a["length"]])
    order = np.argsort(end, kind="stable")
    start, end, length = start[order], end[order], length[order]
    reached, groups = np.unique(end, return_index=True)

    def apply(z: Floats) -> Floats:
        _, nearest, near = index.of(z)
        y = np.empty((len(z), a["embedding"].shape[1]))
        step = max(1, (4 << 20) // max(len(start), n))
        for at in range(0, len(z), step):
            some = slice(at, at + step)
            path = np.full((len(nearest[some]), n), np.inf)
            np.put_along_axis(path, nearest[some], np.sqrt(near[some]), axis=1)
            while len(groups):  # Bellman and Ford: all edges at once, until no path is shorter
                through = np.minimum.reduceat(path[:, start] + length, groups, axis=1)
                if not (through < path[:, reached]).any():
                    break
                path[:, reached] = np.minimum(path[:, reached], through)
            y[some] = (a["mean_square"] - path**2) @ a["embedding"] / (2 * a["lambda"])
        return index.known(y, nearest, near)

    return apply


def _tangent(a: Arrays) -> Map:
    index = _Neighbours(a, 1)
    patch = a["patch"].astype(int)

    def apply(z: Floats) -> Floats:
        _, nearest, near = index.of(z)
        j = nearest[:, 0]
        y = a["embedding"][j].copy()
        for i, one in enumerate(z):
            y[i] += (one - a["rows"][j[i]]) @ a["slope"][patch[j[i]]]
        return index.known(y, nearest, near)

    return apply


def _similarity(a: Arrays) -> Map:
    index = _Neighbours(a, 1)
    kernel = _kernel(a)
    alpha, beta, rate = (float(a[name][0]) for name in ("alpha", "beta", "rate"))
    problem = Quadratic(kernel(a["rows"]) + alpha * np.eye(len(a["rows"])))

    def apply(z: Floats) -> Floats:
        squared, nearest, near = index.of(z)
        target = kernel(z) + alpha * np.exp(-rate * squared) - beta / 2
        y = a["embedding"][nearest[:, 0]].copy()
        for i in np.flatnonzero((near[:, 0] > 0) & np.isfinite(near[:, 0])):
            w = problem.least(target[i])
            if w.sum() > 0:
                y[i] = w @ a["embedding"] / (w.sum() * (1 - a["lambda"]))
        return index.known(y, nearest, near)

    return apply
