"""Compares fitted models with scikit-learn and closed forms."""
import json

import numpy as np
import pytest
import scipy.linalg
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

# wdbc is unscaled on purpose: the smallest eigenvalue of its scatter is 1.6e-12 of the largest, and counts. digits has constant pixels.
DATA = {"wine": load_wine, "wdbc": load_breast_cancer, "digits": load_digits}


@pytest.fixture(params=DATA)
def data(request, tmp_path):
    x, y = DATA[request.param](return_X_y=True)
    path = tmp_path / (request.param + ".csv")
    with open(path, "w") as f:
        f.write(",".join(f"x{j}" for j in range(x.shape[1])) + ",label\n")
        for row, label in zip(x, y):
            f.write(",".join(repr(float(v)) for v in row) + f",c{label}\n")
    return path, x, y


def fit(run, path, method, dim, *more):
    model = path.with_suffix(".embedd")
    run("fit", "--data", path, "--label", "label", "--method", method, "--dim", dim, "--scale", "none", "-o", model, *more)
    return json.loads(run("model", "show", "--format", "json", model))


def sine(x, a, b):
    """The sine of the largest angle between the subspaces of the projected rows: between the rows' images, so that directions in which the data do not
    vary (constant pixels) say nothing."""
    centred = x - x.mean(0)
    return np.sin(scipy.linalg.subspace_angles(centred @ a, centred @ b).max())


def test_pca(run, data):
    path, x, _ = data
    for d in (1, 2, 5):
        model = fit(run, path, "pca", d)
        reference = PCA(d, svd_solver="full").fit(x)
        ours = np.array(model["components"])
        assert np.sin(scipy.linalg.subspace_angles(ours, reference.components_.T).max()) < 1e-6
        # Column by column too: each is an eigenvector, up to its sign.
        cosine = np.abs((ours * reference.components_.T).sum(0))
        assert (1 - cosine < 1e-10).all(), cosine
        assert np.allclose(np.array(model["eigenvalues"])[:d] * len(x) / (len(x) - 1), reference.explained_variance_, rtol=1e-9)


def test_lda(run, data):
    path, x, y = data
    d = len(np.unique(y)) - 1
    model = fit(run, path, "lda", d, "--set", "ridge=0")
    reference = LinearDiscriminantAnalysis(solver="svd", tol=1e-12).fit(x, y)
    ours = np.array(model["components"])
    assert sine(x, ours, reference.scalings_[:, :d]) < 1e-6


def test_srda(run, data):
    """Cai, He and Han 2008: responses are the class indicators, orthogonal to 1 and each other; A = (X'X + rho I)^-1 X'Y on centred rows."""
    path, x, y = data
    n, m = x.shape
    classes = np.unique(y)
    relative = 0.01
    model = fit(run, path, "srda", len(classes) - 1, "--set", f"ridge={relative}")
    centred = x - x.mean(0)
    indicator = np.column_stack([np.ones(n)] + [(y == c).astype(float) for c in classes])
    responses = np.linalg.qr(indicator[:, : len(classes)])[0][:, 1:]
    varies = centred.std(0) > 0
    z = centred[:, varies]
    scatter = z.T @ z / n
    rho = relative * np.trace(scatter) / varies.sum()
    a = np.zeros((m, len(classes) - 1))
    a[varies] = np.linalg.solve(scatter + rho * np.eye(varies.sum()), z.T @ responses / n)
    ours = np.array(model["components"])
    assert sine(x, ours, a) < 1e-6
    assert np.sin(scipy.linalg.subspace_angles(ours, a).max()) < 1e-6


def test_exported_arrays(run, tmp_path):
    """`model export` to .npz is the same numbers as its JSON, and the map in numpy is the map of the program."""
    x, y = load_wine(return_X_y=True)
    path, model, npz = tmp_path / "w.csv", tmp_path / "m.embedd", tmp_path / "m.npz"
    np.savetxt(path, np.column_stack([x, y]), fmt="%.17g", delimiter=",", header=",".join(f"x{j}" for j in range(13)) + ",label", comments="")
    run("fit", "--data", path, "--label", "label", "--method", "lda", "--dim", "2", "-o", model)
    run("model", "export", model, "-o", npz)
    shown = json.loads(run("model", "export", model))
    with np.load(npz) as arrays:
        for name in ("mean", "scale", "components", "eigenvalues"):
            assert np.array_equal(arrays[name], np.array(shown[name])), name
        assert list(arrays["features"]) == shown["features"]
