"""Compares fitted models with scikit-learn and closed forms, and reads the model file as documented."""
import json
import re

import numpy as np
import pytest
import scipy.linalg
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import harness

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


def documented_reader():
    """The code that docs/model-file.md gives to readers in Python."""
    text = (harness.ROOT / "docs" / "model-file.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.S).group(1)
    scope = {}
    exec(code, scope)
    return scope["read"], scope["transform"]


@pytest.mark.parametrize("scale", ["standard", "minmax", "unit", "none"])
def test_model_file(run, tmp_path, scale):
    """The documented reader of the model file gives what `transform` gives, and finds damage."""
    read, transform = documented_reader()
    x, y = load_digits(return_X_y=True)
    path, out, model = tmp_path / "d.csv", tmp_path / "out.csv", tmp_path / "m.embedd"
    np.savetxt(path, np.column_stack([x, y]), fmt="%d", delimiter=",", header=",".join(f"x{j}" for j in range(64)) + ",label", comments="")
    run("fit", "--data", path, "--label", "label", "--method", "lda", "--dim", "4", "--scale", scale, "-o", model)
    run("transform", "--model", model, "--data", path, "-o", out)
    names = open(out).readline().strip().split(",")
    table = np.loadtxt(out, delimiter=",", skiprows=1)
    got = table[:, [names.index(f"embedding_{k}") for k in range(4)]]
    read_model = read(model)
    want = transform(read_model, x)
    assert (np.abs(got - want) <= 1e-5 * want.std(0)).all()
    shown = json.loads(run("model", "show", "--format", "json", model))
    assert read_model["digest"] == shown["digest"] and list(read_model["features"]) == shown["features"]
    assert np.array_equal(read_model["components"], np.array(shown["components"]))
    damaged = bytearray(model.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    model.write_bytes(damaged)
    with pytest.raises(ValueError):
        read(model)


def test_geodesic_version1():
    """Of a map geodesic of version 1 the reader keeps the mean of the features and that of the squared lengths."""
    read, _ = documented_reader()
    model = read(harness.ROOT / "model" / "testdata" / "geodesic-version1.embedd")
    assert model["mean"].shape == model["scale"].shape == (len(model["features"]),)
    assert model["mean_square"].shape == (len(model["rows"]),) == (model["row_count"],)


BEHIND = [("lda", "standard"), ("pairacc", "minmax"), ("tnca", "unit"), ("mfa", "none"), ("pca", "standard")]


@pytest.mark.parametrize("kind, asked", [("kernel", ["--method", m, "--scale", s, "--landmarks", "40"]) for m, s in BEHIND] + [
    ("sum", ["--method", "lda", "--scale", "rank"]),
    ("sum", ["--method", "blend", "--set", "members=lda/standard/2,lda/rank/2,mfa/standard/2/landmarks=40/width=1"])])
def test_curved_model_file(run, tmp_path, kind, asked):
    """The documented reader gives what `transform` gives of a model that is no matrix, missing values included."""
    read, transform = documented_reader()
    x, y = load_wine(return_X_y=True)
    path, out, model = tmp_path / "w.csv", tmp_path / "out.csv", tmp_path / "m.embedd"
    gaps = x.copy()
    gaps[::7, 3] = np.nan
    rows = [",".join("" if np.isnan(v) else repr(float(v)) for v in row) + f",c{label}" for row, label in zip(gaps, y)]
    path.write_text("\n".join([",".join(f"x{j}" for j in range(13)) + ",label", *rows]) + "\n")
    run("fit", "--data", path, "--label", "label", "--dim", "2", "--nulls", "impute", *asked, "-o", model)
    run("transform", "--model", model, "--data", path, "--nulls", "impute", "-o", out)
    names = open(out).readline().strip().split(",")
    at = [names.index(f"embedding_{k}") for k in range(2)]
    got = np.array([[float(line.split(",")[k]) for k in at] for line in open(out).readlines()[1:]])
    parts = read(model)
    want = transform(parts, gaps)
    assert parts["map"] == kind
    if "--nonlinear" in asked:  # all three kinds of parts are looked at
        assert {"components", "ranked", "coefficients"} <= set(parts)
    assert (np.abs(got - want) <= 1e-6 * (np.abs(want) + want.std(0))).all()


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
