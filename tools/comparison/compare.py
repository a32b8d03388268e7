"""Compare embedd with what a user would take instead, and replace the tables of docs/evidence/comparison.md.

    python3 -m venv .venv && .venv/bin/pip install -r tools/comparison/requirements.txt
    .venv/bin/python tools/comparison/compare.py [--seeds 1] [--streams NAME,...] [--jobs 2] [--minutes 600] \
        [--out PAGE]

One run measures all of them on the same rows: `go run ./tools/learning -export` has embedd learn each stream and writes
its rows, and the alternatives follow. Every process uses one thread. A seed takes about ten minutes of processor time on
an idle machine, most of it the adaptive forest's.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import platform
import subprocess
import tempfile
import time

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", GOMAXPROCS="1")  # read when numpy and Go start

import numpy as np
import river
import sklearn
from river import drift, forest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier

from tables import replace, table_of

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
        if self.model is not None:
            self.outputs(x)  # the answers
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
    "LDA of 1,000": lambda seed: Cron(1000),
    "LDA of 4,000": lambda seed: Cron(4000),
    "LDA of all": lambda seed: Cron(0),
    "neighbours": lambda seed: Neighbours(),
    "LDA, KSWIN": lambda seed: Detector(lambda: drift.KSWIN(seed=seed)),
    "adaptive forest": Forest,
}


def export(command, folder, stream, seed, every):
    """embedd on one stream: its results, while the rows and the fresh rows of each checkpoint are in the folder."""
    subprocess.run([*command, "-streams", stream, "-seeds", "1", "-first", str(seed), "-every", str(every), "-export",
                    str(folder)], check=True)
    return json.loads((folder / f"{stream}-{seed}" / "embedd.json").read_text())


def run(folder, run_of, name, seed, until):
    """One alternative on one stream: the accuracy at the checkpoints, and the processor time without them. It is None if
    that is not done at the time until."""
    x, y = rows_of(folder / "rows", run_of["features"])
    method, accuracy, used = ALTERNATIVES[name](seed), {}, 0.0
    checkpoints = {int(row) for row in run_of["accuracy"]}
    for at in range(0, len(y) + 1, BATCH):
        if time.time() > until:
            return None
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


def results(o, command, folder):
    """The results of embedd and of the alternatives, by stream, one pair for each seed."""
    until = time.time() + 60 * o.minutes
    runs = [(stream, seed) for seed in range(1, o.seeds + 1) for stream in o.streams.split(",")]
    with concurrent.futures.ProcessPoolExecutor(o.jobs) as pool:
        exports = [pool.submit(export, command, folder, *r, o.every) for r in runs]
        embedd = {r: e.result() for r, e in zip(runs, exports)}
        tasks = [(r, name) for name in ALTERNATIVES for r in runs]  # the slowest is the last
        others = {(r, name): pool.submit(run, folder / f"{r[0]}-{r[1]}", embedd[r], name, r[1], until)
                  for r, name in tasks}
        found = {}
        for r in runs:
            found.setdefault(r[0], []).append((embedd[r], {name: others[r, name].result() for name in ALTERNATIVES}))
    return found


def percent(share):
    return f"{100 * share:.1f}" if share == share else "-"


def tables_of(all_results, seeds, every, flags):
    """The tables of the page, in their order."""
    names = ["embedd", *ALTERNATIVES]
    accuracy, seconds, behind, about, ratios = [], [], [], [], {n: [] for n in ALTERNATIVES}
    for stream, runs in all_results.items():
        means = {"embedd": mean([mean(list(r[0]["accuracy"].values())) for r in runs])}
        used = {"embedd": mean([r[0]["seconds"] for r in runs])}
        for name in ALTERNATIVES:
            done = [(embedd, others[name]) for embedd, others in runs]
            if not all(found for _, found in done):  # means of other seeds than those of embedd
                done = []
            means[name] = mean([mean([r["accuracy"].get(k) for k in embedd["accuracy"]]) for embedd, r in done])
            used[name] = mean([r["seconds"] for _, r in done])
            if done:
                ratios[name].append(used["embedd"] / used[name])
        best = max(v for v in means.values() if v == v)
        accuracy.append([stream] + [f"**{percent(means[n])}**" if means[n] >= best - 0.005 else percent(means[n])
                                    for n in names])
        seconds.append([stream] + [f"{used[n]:.2f}" if used[n] == used[n] else "-" for n in names])
        ahead = [f"{n}: {100 * (means[n] - means['embedd']):.1f}" for n in names[1:] if means[n] > means["embedd"] + 0.005]
        if ahead:
            behind.append([stream, "; ".join(ahead)])
        about.append([stream, runs[0][0]["about"], f"{runs[0][0]['rows']:,}"])
    return [
        table_of(["of the run", ""], [
            ["command", f"`tools/comparison/compare.py{flags}`"], ["seeds", str(seeds)],
            ["rows between two measurements", f"{every:,}"], ["scikit-learn", sklearn.__version__],
            ["River", river.__version__], ["Python", f"{platform.python_version()}, {platform.machine()}"]]),
        table_of(["stream", "what it is", "rows"], about), table_of(["stream", *names], accuracy),
        table_of(["stream", *names], seconds), table_of(["stream", "ahead of embedd, by points of accuracy"], behind),
        table_of(["alternative", "ratio", "less on"], [
            [n, f"{np.median(r):.2g}", f"{sum(v < 1 for v in r)} of {len(r)}"] for n, r in ratios.items() if r])]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--streams", default=STREAMS)
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--every", type=int, default=1000)
    p.add_argument("--jobs", type=int, default=2, help="processes at a time; each has one thread")
    p.add_argument("--minutes", type=float, default=600, help="leave out what is not measured by then")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs/evidence/comparison.md"))
    o = p.parse_args()
    flags = "".join(f" --{name} {value}" for name in ("seeds", "streams", "every", "jobs", "minutes")
                    if (value := getattr(o, name)) != p.get_default(name))
    with tempfile.TemporaryDirectory() as folder:
        command = [f"{folder}/learning"]
        subprocess.run(["go", "build", "-o", *command, "./tools/learning"], check=True)
        tables = tables_of(results(o, command, pathlib.Path(folder)), o.seeds, o.every, flags)
    print(*tables, sep="\n")
    replace(o.out, tables)


if __name__ == "__main__":  # processes of the pool import this file
    main()
