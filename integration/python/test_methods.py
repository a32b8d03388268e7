"""Compares the methods of a neighbourhood graph with scikit-learn, or with closed forms in numpy if it has none."""
import csv
import gzip
import json

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.csgraph
from sklearn.datasets import make_swiss_roll
from sklearn.manifold import Isomap, LocallyLinearEmbedding, spectral_embedding
from sklearn.neighbors import NearestNeighbors

import harness

BOUND = 1e-5


def swiss_roll():
    return make_swiss_roll(400, noise=0.05, random_state=3)[0]


def real(name):
    """Rows and labels of a set of the repository, standardised. Measurements of few digits repeat distances, and where those tie the graph is a matter
    of choice: noise far below the last digit unties them for both sides alike."""
    with gzip.open(harness.ROOT / "model" / "internal" / "fixture" / "testdata" / f"{name}.csv.gz", "rt") as f:
        rows = list(csv.reader(f))[1:]
    x = np.array([[float(v) for v in row[:-1]] for row in rows])
    x = (x - x.mean(0)) / x.std(0)
    return x + 1e-6 * np.random.default_rng(1).standard_normal(x.shape), [row[-1] for row in rows]


def write(path, x, labels=None):
    with open(path, "w") as f:
        f.write(",".join(f"x{j}" for j in range(x.shape[1])) + (",label" if labels else "") + "\n")
        for i, row in enumerate(x):
            f.write(",".join(repr(float(v)) for v in row) + (f",c{labels[i]}" if labels else "") + "\n")


@pytest.fixture(scope="module", params=["swiss-roll", "wine", "vowel"])
def rows(request, tmp_path_factory):
    x = swiss_roll() if request.param == "swiss-roll" else real(request.param)[0][:400]
    path = tmp_path_factory.mktemp("methods") / "rows.csv"
    write(path, x)
    return path, x


def embed(run, path, method, dim, *parameters):
    """The embedding of the rows of the fit, and the model."""
    model, out = path.parent / "rows.embedd", path.parent / "out.csv"
    sets = [word for p in parameters for word in ("--set", p)]
    run("fit", "--data", path, "--method", method, "--dim", dim, "--scale", "none", *sets, "-o", model)
    run("transform", "--model", model, "--data", path, "--columns", "--keep", "none", "-o", out)
    y = np.loadtxt(out, delimiter=",", skiprows=1, ndmin=2)
    assert y.shape[1] == dim and np.isfinite(y).all()
    return y, json.loads(run("model", "show", "--format", "json", model))


def sine(a, b):
    return np.sin(scipy.linalg.subspace_angles(a, b).max())


def neighbours(x, k):
    """Squared distances to the k nearest other rows, and these rows."""
    distance, index = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(x).kneighbors()
    return distance**2, index


def heat(x, k, width=None):
    """exp(-d^2/t) between each row and its k nearest, the larger of both directions; t the mean squared distance to the nearest row."""
    d2, index = neighbours(x, k)
    width = d2[:, 0].mean() if width is None else width
    w = np.zeros((len(x), len(x)))
    np.put_along_axis(w, index, np.exp(-d2 / width), 1)
    return np.maximum(w, w.T)


def barycentric(x, k, reg=1e-3):
    """Weights of sum 1 that rebuild each row from its k nearest (Roweis and Saul), G + reg tr(G) I."""
    _, index = neighbours(x, k)
    w = np.zeros((len(x), len(x)))
    for i, near in enumerate(index):
        z = x[near] - x[i]
        gram = z @ z.T
        v = np.linalg.solve(gram + reg * np.trace(gram) * np.eye(k), np.ones(k))
        w[i, near] = v / v.sum()
    return w


@pytest.mark.parametrize("given", ["width", "auto", "nothing"])
def test_le(run, rows, given):
    """Scikit-learn takes the weights. They are 1 by default; the width auto is the mean squared distance to the nearest row."""
    path, x = rows
    k, dim = 10, 3
    width = {"width": float(np.median(neighbours(x, k)[0])), "auto": None, "nothing": np.inf}[given]
    y, model = embed(run, path, "le", dim, f"k={k}", *({"width": [f"t={width!r}"], "auto": ["t=auto"], "nothing": []}[given]))
    w = heat(x, k, width)
    # The eigenvalues and the scale are those of L v = lambda D v, v'Dv = 1.
    degrees = w.sum(0)
    values = scipy.linalg.eigh(np.diag(degrees) - w, np.diag(degrees), eigvals_only=True, subset_by_index=[1, dim])
    if scipy.sparse.csgraph.connected_components(w >= 1e-3 * np.median(w[w > 0]))[0] > 1:
        # Weaker edges do not connect: edges of the median weight join the components, which costs more to separate.
        assert model["eigenvalues"][0] > 1.01 * values[0]
        return
    reference = spectral_embedding(w, n_components=dim, eigen_solver="arpack", random_state=0)
    assert sine(y, reference) < BOUND
    assert np.allclose(model["eigenvalues"], values, rtol=1e-8)
    assert np.abs((y * degrees[:, None]).T @ y - np.eye(dim)).max() < BOUND


def test_lle(run, rows):
    path, x = rows
    dim = 2
    y, _ = embed(run, path, "lle", dim, "k=10")
    reference = LocallyLinearEmbedding(n_neighbors=10, n_components=dim, reg=1e-3, eigen_solver="dense").fit_transform(x)
    assert sine(y, reference) < BOUND
    assert np.abs(y.T @ y / len(x) - np.eye(dim)).max() < BOUND


def test_isomap(run, rows):
    path, x = rows
    dim = 3
    y, _ = embed(run, path, "isomap", dim, "k=10")
    reference = Isomap(n_neighbors=10, n_components=dim, eigen_solver="dense", path_method="D").fit_transform(x)
    assert sine(y, reference) < BOUND
    # Column by column and in scale too, up to the sign: classical scaling determines the scale.
    assert np.abs(np.abs(y) - np.abs(reference)).max() < BOUND * np.abs(reference).max()


def leading(n, d, dim, relative):
    """max (N, D + rho I), rho = relative tr(D)/m, columns orthonormal in the denominator."""
    d = d + relative * np.trace(d) / len(d) * np.eye(len(d))
    values, vectors = scipy.linalg.eigh((n + n.T) / 2, (d + d.T) / 2)
    return vectors[:, ::-1][:, :dim]


@pytest.mark.parametrize("relative", [0.1, 0])
def test_lpp(run, rows, relative):
    """He and Niyogi 2003: min (X L X', X D X') of centred rows, or its inverse ratio with a ridge."""
    path, x = rows
    y, model = embed(run, path, "lpp", 2, f"ridge={relative}")
    w, z = heat(x, 5), x - x.mean(0)
    degrees = w.sum(0)
    total, local = z.T * degrees @ z, z.T @ (np.diag(degrees) - w) @ z
    if relative:
        a = leading(total, local, 2, relative)
    else:
        a = scipy.linalg.eigh(local, total)[1][:, :2]
    agree(z, y, model, a)


@pytest.mark.parametrize("relative", [0.1, 0])
def test_npe(run, rows, relative):
    """He, Cai, Yan and Zhang 2005: min (X (I-W)'(I-W) X', X X') of centred rows, or its inverse ratio with a ridge."""
    path, x = rows
    y, model = embed(run, path, "npe", 2, f"ridge={relative}")
    z = x - x.mean(0)
    residual = z - barycentric(x, 5) @ z
    total, local = z.T @ z, residual.T @ residual
    if relative:
        a = leading(total, local, 2, relative)
    else:
        a = scipy.linalg.eigh(local, total)[1][:, :2]
    agree(z, y, model, a)


def agree(z, y, model, a):
    """The matrix of the model spans what a spans, column by column and in scale, and the outputs are its image of the rows."""
    ours = np.array(model["components"])
    assert sine(ours, a) < BOUND
    a = a * np.sign((a * ours).sum(0))
    assert np.abs(ours - a).max() < BOUND * np.abs(a).max()
    assert np.abs(y - z @ a).max() < BOUND * np.abs(z @ a).max()


@pytest.mark.parametrize("name", ["wine", "iris"])
def test_srda_spans_lda(run, tmp_path, name):
    """With the same rho I added to S_t and to S_w, regression on the classes and the eigenproblem have one span."""
    x, labels = real(name)
    path, models = tmp_path / "rows.csv", []
    write(path, x, labels)
    y = np.array(labels)
    within = sum(((x[y == c] - x[y == c].mean(0)) ** 2).sum() for c in set(labels))
    dim = len(set(labels)) - 1
    for method, relative in (("srda", 0.05), ("lda", float(0.05 * x.var(0).sum() * len(x) / within))):
        model = tmp_path / f"{method}.embedd"
        run("fit", "--data", path, "--label", "label", "--method", method, "--dim", dim, "--scale", "none", "--set", f"ridge={relative!r}", "-o", model)
        models.append(np.array(json.loads(run("model", "show", "--format", "json", model))["components"]))
    assert sine(*models) < BOUND
