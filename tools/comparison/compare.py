"""Compare embedd with what a user would take instead, and write docs/evidence/comparison.md.

    python3 -m venv .venv && .venv/bin/pip install -r tools/comparison/requirements.txt
    OMP_NUM_THREADS=1 GOMAXPROCS=1 .venv/bin/python tools/comparison/compare.py [--seeds 1] [--streams NAME,...] [--data DIR]

The streams and the results of embedd come from `go run ./tools/learning -export DIR`. Results of the alternatives are
kept in DIR and not computed again.
"""

import argparse
import json
import pathlib
import platform
import subprocess
import time

import numpy as np
import river
import sklearn
from river import drift, forest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier

STREAMS = ("independent,seasons,sparse,turning10,hyperplane10,runs300,runs1000,markov100,ar,copies,usps-sorted,rare,"
           "wrong30,classes")
BATCH = 250  # rows of a message


def rows_of(path, features):
    x = np.fromfile(path.with_suffix(".f32"), dtype="<f4").reshape(-1, features).astype(float)
    return x, np.fromfile(path.with_suffix(".i32"), dtype="<i4")


class Linear:
    """LDA of scikit-learn, fitted again on the rows that a rule keeps. Accuracy is that of the nearest reference."""

    def __init__(self):
        self.x, self.y, self.model, self.fits = None, None, None, 0

    def fit(self, x, y):
        if len(np.unique(y)) < 2:
            return
        self.model = LinearDiscriminantAnalysis(solver="eigen", shrinkage=1e-3).fit(x, y)
        self.fits += 1

    def outputs(self, x):
        return self.model.transform(x)

    def keep(self, x, y):
        self.x = x if self.x is None else np.concatenate([self.x, x])
        self.y = y if self.y is None else np.concatenate([self.y, y])

    def accuracy(self, ref, query):
        if self.model is None:
            return None
        near = KNeighborsClassifier(1).fit(self.outputs(ref[0]), ref[1])
        return float(near.score(self.outputs(query[0]), query[1]))


class Cron(Linear):
    """Fits the newest rows again every 1,000 rows, whatever happened."""

    def __init__(self, newest):
        super().__init__()
        self.newest, self.since = newest, 0

    def learn(self, x, y):
        self.keep(x, y)
        if self.newest:
            self.x, self.y = self.x[-self.newest:], self.y[-self.newest:]
        self.since += len(y)
        if self.model is None and len(self.y) >= BATCH or self.since >= 1000:
            self.fit(self.x, self.y)
            self.since = 0


class Detector(Linear):
    """Drops all rows before an alarm of a drift detector on the errors, and fits the others again."""

    def __init__(self, make):
        super().__init__()
        self.make, self.detector, self.fitted, self.alarms = make, make(), 0, 0

    def learn(self, x, y):
        alarm = -1
        if self.model is not None:
            for i, wrong in enumerate(self.model.predict(x) != y):
                self.detector.update(int(wrong))
                if self.detector.drift_detected:
                    alarm = i
                    self.detector = self.make()
        if alarm >= 0:
            self.alarms += 1
            self.x, self.y, self.fitted = x[alarm:], y[alarm:], 0
        else:
            self.keep(x, y)
        self.x, self.y = self.x[-20000:], self.y[-20000:]
        n = len(self.y)
        if n >= BATCH and (n >= 2 * self.fitted or n - self.fitted >= 1000 or n == 20000):
            self.fit(self.x, self.y)
            self.fitted = n


class Forest:
    """River's adaptive random forest on raw rows."""

    def __init__(self, seed):
        self.model, self.seen = forest.ARFClassifier(n_models=10, seed=seed), 0

    def learn(self, x, y):
        for row, label in zip(x.tolist(), y.tolist()):
            row = dict(enumerate(row))
            self.model.predict_one(row)
            self.model.learn_one(row, label)
            self.seen += 1

    def accuracy(self, ref, query):
        if self.seen < BATCH:
            return None
        x, y = query[0][:500].tolist(), query[1][:500].tolist()
        return float(np.mean([self.model.predict_one(dict(enumerate(r))) == c for r, c in zip(x, y)]))


class Neighbours:
    """The nearest of the newest 1,000 raw rows."""

    def __init__(self):
        self.x, self.y = None, None

    def learn(self, x, y):
        if self.x is None:
            self.x, self.y = x, y
            return
        KNeighborsClassifier(1, algorithm="brute").fit(self.x, self.y).predict(x)
        self.x, self.y = np.concatenate([self.x, x])[-1000:], np.concatenate([self.y, y])[-1000:]

    def accuracy(self, ref, query):
        near = KNeighborsClassifier(1, algorithm="brute").fit(self.x, self.y)
        return float(near.score(query[0], query[1]))


ALTERNATIVES = {
    "LDA, ADWIN": lambda seed: Detector(drift.ADWIN),
    "LDA, DDM": lambda seed: Detector(lambda: drift.binary.DDM()),
    "LDA, Page-Hinkley": lambda seed: Detector(drift.PageHinkley),
    "LDA, KSWIN": lambda seed: Detector(lambda: drift.KSWIN(seed=seed)),
    "LDA of 1,000": lambda seed: Cron(1000),
    "LDA of 4,000": lambda seed: Cron(4000),
    "LDA of all": lambda seed: Cron(0),
    "adaptive forest": Forest,
    "neighbours": lambda seed: Neighbours(),
}


def run(folder, run_of, name, seed):
    """One alternative on one stream: the accuracy at the checkpoints, and the processor time without them."""
    x, y = rows_of(folder / "rows", run_of["features"])
    method, accuracy, used = ALTERNATIVES[name](seed), {}, 0.0
    checkpoints = {int(row) for row in run_of["accuracy"]}
    for at in range(0, len(y) + 1, BATCH):
        if at in checkpoints:
            a = method.accuracy(*(rows_of(folder / f"{kind}{at}", run_of["features"]) for kind in ("references", "queries")))
            if a is not None:
                accuracy[str(at)] = a
        part = slice(at, at + BATCH)
        labelled = y[part] >= 0
        if not labelled.any():
            continue
        begin = time.process_time()
        method.learn(x[part][labelled], y[part][labelled])
        used += time.process_time() - begin
    return {"accuracy": accuracy, "seconds": used}


def mean(values):
    values = [v for v in values if v is not None]
    return sum(values) / len(values) if values else float("nan")


def results(folder, seed, quiet):
    """embedd's and the alternatives' results on one stream."""
    run_of = json.loads((folder / "embedd.json").read_text())
    kept = folder / "alternatives.json"
    others = json.loads(kept.read_text()) if kept.exists() else {}
    for name in ALTERNATIVES:
        if name not in others:
            others[name] = run(folder, run_of, name, seed)
            kept.write_text(json.dumps(others))
            if not quiet:
                print(folder.name, name, round(mean(others[name]["accuracy"].values()), 3), flush=True)
    return run_of, others


PAGE = """# Comparison

`embedd` next to what a user would take instead, for readers who have to choose. `tools/comparison/compare.py` runs all of it
and writes this page.

## How it is measured

The streams are those of [learning](learning.md#dependent-streams), {seeds}. `embedd` runs through its public
library with method lda and the defaults. Accuracy is in %, on fresh independent rows of the current concept, the mean over
the measurements from row 3,000 or the change on, every {every} rows, once every class had been in the stream. Of `embedd`
and of LDA it is that of the nearest of 1,000 fresh references in the outputs; of the forest and of the neighbours it is that
of their own predictions, since they have no outputs.

- *LDA* is that of scikit-learn {sklearn} (eigenvalues, shrinkage 0.001). With a detector of River {river} (defaults) it is
  fitted again whenever its rows have doubled, at the latest after 1,000; an alarm on its errors drops all rows before. Without,
  it is fitted every 1,000 rows on the newest 1,000, the newest 4,000, or all.
- *adaptive forest* is River's `ARFClassifier` with ten trees on raw rows; it is measured on 500 queries.
- *neighbours* is the nearest of the newest 1,000 raw rows, by scikit-learn.

Seconds are processor time to answer and learn the stream, one thread, without the measurements. {machine}

{streams}

## Accuracy

{accuracy}

## Processor time

{seconds}

## Where `embedd` is not ahead

{behind}

The fixed windows are chosen in hindsight: which of them is best differs from stream to stream, and no line above is best on
all. None of the alternatives keeps the outputs of old and new models comparable, or tests a model before it is used.
"""


def table(names, lines):
    head = "| stream | " + " | ".join(names) + " |\n" + "|---" * (len(names) + 1) + "|\n"
    return head + "\n".join("| " + " | ".join(line) + " |" for line in lines)


def page(all_results, seeds, every):
    names = ["embedd", *ALTERNATIVES]
    accuracy, seconds, behind, about = [], [], [], []
    for stream, runs in all_results.items():
        means = {"embedd": mean([mean(list(r[0]["accuracy"].values())) for r in runs])}
        used = {"embedd": mean([r[0]["seconds"] for r in runs])}
        for name in ALTERNATIVES:
            means[name] = mean([mean([r[1][name]["accuracy"].get(k) for k in r[0]["accuracy"]]) for r in runs])
            used[name] = mean([r[1][name]["seconds"] for r in runs])
        best = max(v for v in means.values() if v == v)
        accuracy.append([stream] + [f"**{100 * means[n]:.1f}**" if means[n] >= best - 0.005 else f"{100 * means[n]:.1f}"
                                    for n in names])
        seconds.append([stream] + [f"{used[n]:.2f}" for n in names])
        ahead = [f"{n} by {100 * (means[n] - means['embedd']):.1f}" for n in names[1:] if means[n] > means["embedd"] + 0.005]
        if ahead:
            behind.append(f"- {stream}: " + ", ".join(ahead))
        about.append(f"- {stream}: {runs[0][0]['about']}; {runs[0][0]['rows']:,} rows")
    return PAGE.format(
        seeds=f"{seeds} seeds" if seeds > 1 else "one seed", every=every, sklearn=sklearn.__version__,
        river=river.__version__, machine=f"Python {platform.python_version()}, {platform.machine()}; other processes ran.",
        streams="\n".join(about), accuracy=table(names, accuracy) + "\n\nBold is within half a point of the best.",
        seconds=table(names, seconds),
        behind=("By more than half a point, in points of accuracy:\n\n" + "\n".join(behind)) if behind else
        "It is ahead or level (half a point) on each of these streams.")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--streams", default=STREAMS)
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--every", type=int, default=1000)
    p.add_argument("--data", type=pathlib.Path, default=pathlib.Path("/tmp/comparison"))
    p.add_argument("--embedd", default="go run ./tools/learning", help="the command of tools/learning")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs/evidence/comparison.md"))
    p.add_argument("--quiet", action="store_true")
    o = p.parse_args()
    subprocess.run([*o.embedd.split(), "-streams", o.streams, "-seeds", str(o.seeds), "-every", str(o.every), "-export",
                    str(o.data)], check=True)
    found = {}
    for stream in o.streams.split(","):
        found[stream] = [results(o.data / f"{stream}-{seed}", seed, o.quiet) for seed in range(1, o.seeds + 1)]
    o.out.write_text(page(found, o.seeds, o.every))


main()
