"""Models of every method and kind of map, for tests of readers of model files in other languages."""
import csv
import gzip

import numpy as np
import pyarrow as pa

import embedd
import harness

METHODS = ("pca lda srda sle sle-ovr pairacc mfa lfda dla lsda lpp npe lltsa le lle isomap lsmpa ksmpa lenews lenewks lppnews tnca dawge lsdr mpda pmpda "
           "tsimr mp-tsimr ltsimr mp-ltsimr lpfe").split()
MODELS = [(m, ["--method", m]) for m in METHODS] + [
    ("rank", ["--method", "lda", "--scale", "rank"]),
    ("landmarks", ["--method", "lda", "--landmarks", "40"]),
    ("unit", ["--method", "mfa", "--scale", "unit"]),
    ("minmax", ["--method", "pairacc", "--scale", "minmax"]),
    ("unscaled", ["--method", "npe", "--scale", "none"]),
    ("weighted", ["--method", "le", "--set", "t=auto", "--scale", "unit"]),
    ("linear", ["--method", "ksmpa", "--set", "kernel=linear"]),
    ("polynomial", ["--method", "ksmpa", "--set", "kernel=polynomial"]),
    ("cosine", ["--method", "ksmpa", "--set", "kernel=cosine"]),
    ("chi2", ["--method", "ksmpa", "--set", "kernel=chi2", "--scale", "minmax"]),
    ("blend", ["--method", "blend", "--set", "members=lda/standard/2,lda/rank/2,mfa/standard/2/landmarks=40/width=1"]),
]
# Fits that take seconds on more rows or classes.
SLOW = {"lenews", "lenewks", "lppnews", "ksmpa", "lsdr", "tnca"}


def data_sets(name):
    return ["wine"] if name in SLOW else ["wine", "iris", "wdbc"]


def rows_of(data):
    """Rows and labels of a data set of the repository."""
    with gzip.open(path_of(data), "rt") as f:
        head, *lines = csv.reader(f)
    return head, np.array([[float(v) for v in line[:-1]] for line in lines])


def path_of(data):
    return harness.ROOT / "model" / "internal" / "fixture" / "testdata" / f"{data}.csv.gz"


class Fitted:
    """A model of the program, rows to try it with, and what the package for Python makes of them in float64. The rows are
    those of the fit, rows near them and far away, and some have missing values."""

    def __init__(self, run, directory, data, asked):
        head, x = rows_of(data)
        self.path = directory / "m.embedd"
        dim = 1 if data == "wdbc" else 2  # of two classes
        run("fit", "--data", path_of(data), "--label", head[-1], "--dim", dim, "-o", self.path, *asked)
        noise = np.random.default_rng(1).normal(size=(60, x.shape[1])) * x.std(0)
        self.rows = np.concatenate([x, x[:50] + 0.1 * noise[:50], x[:10] + 10 * noise[50:]])
        self.rows[::7, 3] = np.nan
        self.rows[5, 0] = np.inf
        self.model = embedd.Model.read(self.path)
        self.outputs = self.model.transform(self.rows)


def transformed(run, directory, fit):
    """What the program makes of the rows with the model."""
    table = pa.table({name: fit.rows[:, j] for j, name in enumerate(fit.model.features)})
    with pa.ipc.new_stream(directory / "rows.arrows", table.schema) as w:
        w.write_table(table)
    run("transform", "--model", fit.path, "--data", directory / "rows.arrows", "--nulls", "impute", "--keep", "none",
        "-o", directory / "out.arrows")
    column = pa.ipc.open_stream(directory / "out.arrows").read_all()["embedding"].combine_chunks()
    return column.flatten().to_numpy().astype(float).reshape(len(fit.rows), -1)


def share_off(got, want, bound, by_row=False):
    """The share of rows off by more than the bound times the root mean square of an output, such as rows at a tie of neighbours.
    By row it is the bound times the largest output of the row where that is more."""
    rms = np.sqrt((want**2).mean(0))
    size = np.where(rms > 0, rms, 1) + np.zeros_like(want)
    if by_row:
        size = np.maximum(size, np.abs(want).max(axis=1, keepdims=True))
    return (~(np.abs(got - want) <= bound * size).all(axis=1)).mean()
