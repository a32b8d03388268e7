"""Measure embedd next to other programs for the same work, and replace the tables of docs/evidence/peers.md.

    python3 -m venv .venv && .venv/bin/pip install -r tools/comparison/requirements.txt
    .venv/bin/python tools/comparison/peers.py [--only project,landmarks,fit,pipeline,learn] [--repeats 7]

One run measures all of them, in turns: each turn runs embedd and every peer once, and starts with another one of
them. It takes about seven minutes on an idle machine with two cores. With an option it only prints the
tables.
"""

import argparse
import asyncio
import contextlib
import importlib.metadata
import itertools
import json
import mmap
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import faiss
import nats
import numpy as np
import onnx
import onnxruntime
import pyarrow as pa
import scipy.linalg
import sklearn
import sklearnex
import threadpoolctl
from daal4py import daalinit
from river import covariance, forest, linear_model, preprocessing, tree
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearnex.decomposition import PCA as IntelPCA

from tables import replace, table_of

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "clients" / "python" / "src"))
import embedd  # noqa: E402

FEATURES, CLASSES, LANDMARKS = 256, 10, 300
ROWS = 1 << 18  # 256 MiB, more than the caches
CURVED = 1 << 14  # rows that are projected behind landmarks: memory does not bound these
SLOW = ("scikit-learn", "Intel extension")  # at projecting, by their checks of arguments
SETTLE = 0.02  # seconds before a turn, in which the threads of the last one stop spinning
HUGE = "embedd, rows in pages of 2 MB"
LONGEST = 40  # seconds after which no turn of a line starts
LEVEL = 1.05  # a ratio up to this is level


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


class Worker:
    """embedd's side: a process that fits and projects on request."""

    def __init__(self, program, path, pages):
        self.process = subprocess.Popen(
            [program, path, str(FEATURES), pages], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, do, **request):
        self.process.stdin.write(json.dumps({"do": do, **request}).encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{do} {request}: the worker ended")
        return tuple(json.loads(answer).values())

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def timed(work):
    """A contestant in this process: the seconds of one run, by the clock and of all cores together."""

    def run():
        begin, used = time.perf_counter(), time.process_time()
        work()
        return time.perf_counter() - begin, time.process_time() - used

    return run


class Line:
    """What embedd and its peers took for one piece of work; amount is in what the table's unit counts."""

    def __init__(self, table, work, threads, contestants, repeats, amount=1.0):
        self.table, self.work, self.threads, self.amount = table, work, threads, amount
        names, self.took = list(contestants), {name: [] for name in contestants}
        begin = time.monotonic()
        for turn in range(repeats + 1):
            if turn > 1 and time.monotonic() - begin > LONGEST:
                break
            for i in range(len(names)):
                name = names[(turn + i) % len(names)]
                time.sleep(SETTLE)
                cost = contestants[name]()
                if turn > 0:  # the first allocates memory and fills caches
                    self.took[name].append(cost)
        say(
            f"{table}, {work}, {threads} thread{'s' * (threads > 1)}: "
            + ", ".join(f"{n} {self.ratio(n, 0):.2f}/{self.ratio(n, 1):.2f}" for n in names[1:])
        )

    def median(self, name, which):
        return statistics.median(cost[which] for cost in self.took[name]) / self.amount

    def ratio(self, name, which):
        """embedd's time divided by that of a peer, the median over the turns."""
        return statistics.median(a[which] / b[which] for a, b in zip(self.took["embedd"], self.took[name]))


@contextlib.contextmanager
def limited(threads):
    """Each library on this many threads, for as long as the block takes."""
    daalinit(threads)
    faiss.omp_set_num_threads(threads)
    with threadpoolctl.threadpool_limits(threads):
        yield


def session(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def blocks(work, rows, block, parts=1):
    """A contestant that works through rows, a block at a time. A slow one works through one of several parts in each
    turn, and reports the time for all."""
    turn = itertools.count()

    def run():
        begin = next(turn) % parts * (rows // parts)
        for at in range(begin, begin + rows // parts, block):
            work(at, at + block)

    measured = timed(run)
    return lambda: tuple(seconds * parts for seconds in measured())


def check(name, got, want, budget):
    """The error of outputs in units of their root mean square; more than the budget is another map."""
    error = float(np.abs(got - want).max() / np.sqrt((want**2).mean()))
    assert error < budget, f"{name}: outputs differ by {error} of their root mean square"
    return error


def in_pages(x, pages):
    """The rows in memory of small or huge pages."""
    memory = mmap.mmap(-1, x.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if pages == "huge":
        memory.madvise(mmap.MADV_HUGEPAGE)
    out = np.frombuffer(memory, x.dtype).reshape(x.shape)
    out[:] = x
    return out


def projections(o, workers, x):
    """Rows in memory to 8 and 2 outputs, as float32."""
    for pages, allowed in (("small", (1, 2)), ("huge", (1,))):
        yield from projections_in(o, workers[pages], in_pages(x, pages), pages, allowed)


def projections_in(o, worker, x, pages, allowed):
    for d in (8, 2):
        worker.ask("fit", model="pca", method="pca", dim=d, rows=5000, scale="none")
        path = o.folder / f"pca{d}"
        worker.ask("write", model="pca", path=str(path), rows=4096)
        m = embedd.Model.read(f"{path}.embedd")
        want = np.fromfile(f"{path}.f32", np.float32).reshape(-1, d)
        w64 = m.arrays["components"] / m.scale[:, None]
        w = np.ascontiguousarray(w64, np.float32)
        bias = (m.arrays.get("offset", 0) - m.mean @ w64).astype(np.float32)
        linear = faiss.LinearTransform(FEATURES, d, True)
        faiss.copy_array_to_vector(np.ascontiguousarray(w.T).ravel(), linear.A)
        faiss.copy_array_to_vector(bias, linear.b)
        linear.is_trained = True
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("Gemm", ["x", "w", "b"], ["y"])],
            "linear",
            [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, FEATURES])],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None, d])],
            [onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(bias, "b")],
        )
        gemm = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
        fitted = PCA(d).fit(x[:5000])
        for threads in allowed:
            run, out = session(gemm.SerializeToString(), threads), np.empty((4096, d), np.float32)
            with limited(threads):
                intel = IntelPCA(d).fit(x[:5000])

                def product(a, b):
                    y = np.matmul(x[a:b], w, out=out[: b - a])
                    y += bias
                    return y

                peers = {
                    "numpy": product,
                    "onnxruntime": lambda a, b: run.run(None, {"x": x[a:b]})[0],
                    "faiss": lambda a, b: linear.apply(x[a:b]),
                    "scikit-learn": lambda a, b: fitted.transform(x[a:b]),
                    "Intel extension": lambda a, b: intel.transform(x[a:b]),
                }
                for name in list(peers)[:3]:
                    check(name, peers[name](0, 4096), want, 1e-4)
                for block in (256, 4096):
                    contestants = {
                        "embedd": lambda: worker.ask("project", model="pca", rows=ROWS, block=block, threads=threads)
                    }
                    contestants |= {
                        name: blocks(work, ROWS, block, 8 if name in SLOW else 1) for name, work in peers.items()
                    }
                    yield Line(
                        f"projection, {pages} pages",
                        f"256 features to {d}, {block} rows at a time",
                        threads,
                        contestants,
                        o.repeats,
                        ROWS / 1e9,
                    )


def curved(o, worker, x, y):
    """Rows in memory to discriminants behind landmarks."""
    worker.ask(
        "fit", model="curved", method="lda", landmarks=LANDMARKS, rows=5000, scale="none", params={"ridge": "0.001"}
    )
    path = o.folder / "curved"
    worker.ask("write", model="curved", path=str(path), rows=4096)
    m = embedd.Model.read(f"{path}.embedd")
    want = np.fromfile(f"{path}.f32", np.float32).reshape(-1, m.dim)

    def kernels(kind):
        marks = np.ascontiguousarray((m.arrays["rows"] * m.scale + m.mean).T, kind)
        scale = 1 / m.scale.astype(kind)
        assert (scale == 1).all()
        squares, p = (marks**2).sum(0), kind(m.arrays["gauss"][0])
        coefficients, offset = m.arrays["coefficients"].astype(kind), m.arrays.get("offset", np.zeros(m.dim)).astype(
            kind
        )

        def run(a, b):
            z = x[a:b].astype(kind, copy=False)
            k = z @ marks
            k *= 2
            k -= squares
            k -= np.einsum("ij,ij->i", z, z)[:, None]
            k /= p
            np.exp(k, out=k)
            return k @ coefficients + offset

        return run

    fitted = make_pipeline(
        Nystroem(gamma=1 / float(m.arrays["gauss"][0]), n_components=LANDMARKS, random_state=1),
        LinearDiscriminantAnalysis(),
    ).fit(x[:5000], y[:5000])
    for threads in (1, 2):
        run = session(f"{path}.onnx", threads)
        with limited(threads):
            peers = {
                "numpy": kernels(np.float64),
                "numpy, float32": kernels(np.float32),
                "onnxruntime": lambda a, b: run.run(None, {"features": x[a:b].astype(np.float64)})[0],
                "scikit-learn": lambda a, b: fitted.transform(x[a:b]),
            }
            for name in list(peers)[:3]:
                o.errors[name] = check(name, peers[name](0, 4096), want, 1e-2)
            for block in (256, 4096):
                contestants = {
                    "embedd": lambda: worker.ask("project", model="curved", rows=CURVED, block=block, threads=threads)
                }
                contestants |= {name: blocks(work, CURVED, block) for name, work in peers.items()}
                yield Line(
                    "landmarks",
                    f"256 features to {m.dim}, {block} rows at a time",
                    threads,
                    contestants,
                    o.repeats,
                    CURVED / 1e9,
                )


def principal(x, d):
    centred = x - x.mean(0)
    return np.linalg.eigh(centred.T @ centred)[1][:, -d:]


def discriminants(x, y):
    """The directions of lda with the same ridge: eigenvectors of the scatter between classes and that within them."""
    counts = np.bincount(y)
    sums = np.zeros((len(counts), x.shape[1]), x.dtype)
    for c in range(len(counts)):
        sums[c] = x[y == c].sum(0)
    mean = sums.sum(0) / len(x)
    centred = x - mean
    means = (sums / counts[:, None] - mean).astype(x.dtype)
    between = (means.T * counts.astype(x.dtype)) @ means
    total = centred.T @ centred
    within = total - between
    within.flat[:: len(within) + 1] += x.dtype.type(1e-3) * np.trace(within) / len(within)
    m = len(within)
    return scipy.linalg.eigh(between, within, subset_by_index=(m - len(counts) + 1, m - 1))[1]


def fits(o, workers, x, y):
    for n in (5000, 20000):
        x32, labels = x[:n], y[:n]
        x64 = x32.astype(np.float64)
        for threads in (1, 2):

            def line(table, work, peers, **request):
                ours = {
                    name: lambda w=w: w.ask("fit", model="fit", rows=n, scale="none", threads=threads, **request)
                    for name, w in (("embedd", workers["small"]), (HUGE, workers["huge"]))
                }
                return Line(
                    table, work, threads, ours | {name: timed(do) for name, do in peers.items()}, o.repeats, 1e-3
                )

            with limited(threads):
                peers = {
                    "scikit-learn": lambda: PCA(8).fit(x64),
                    "Intel extension": lambda: IntelPCA(8).fit(x64),
                    "numpy": lambda: principal(x64, 8),
                    "scikit-learn, float32": lambda: PCA(8).fit(x32),
                    "Intel, float32": lambda: IntelPCA(8).fit(x32),
                    "numpy, float32": lambda: principal(x32, 8),
                    "faiss, float32": lambda: faiss.PCAMatrix(FEATURES, 8).train(x32),
                }
                yield line("fit of pca", f"{n} x {FEATURES} to 8", peers, method="pca", dim=8)
                peers = {
                    "scikit-learn, svd": lambda: LinearDiscriminantAnalysis().fit(x64, labels),
                    "scikit-learn, eigen": lambda: LinearDiscriminantAnalysis(solver="eigen", shrinkage=1e-3).fit(
                        x64, labels
                    ),
                    "numpy and scipy": lambda: discriminants(x64, labels),
                    "numpy and scipy, float32": lambda: discriminants(x32, labels),
                }
                yield line(
                    "fit of lda", f"{n} x {FEATURES}, {CLASSES} classes", peers, method="lda", params={"ridge": "0.001"}
                )


def used(processes):
    """Processor time of running processes: their clocks as in clock_getcpuclockid(3)."""
    return sum(time.clock_gettime(~p.pid << 3 | 2) for p in processes)


def bytes_of(rows, x):
    """A message like those of `embedd bench`: an id and a list of features."""
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(np.arange(rows, dtype=np.int32)),
            pa.FixedSizeListArray.from_arrays(pa.array(x[:rows].reshape(-1)), FEATURES),
        ],
        names=["id", "x"],
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


async def pipelines(o, worker, x):
    """Messages from one stream to another, with a model that does not change."""
    worker.ask("fit", model="served", method="pca", dim=8, rows=5000)
    worker.ask("write", model="served", path=str(o.folder / "served"), rows=4096)
    m = embedd.Model.read(o.folder / "served.embedd")
    w = m.arrays["components"] / m.scale[:, None]
    bias = m.arrays.get("offset", 0) - m.mean @ w
    np.savez(o.folder / "served.npz", weights=np.ascontiguousarray(w, np.float32), bias=bias.astype(np.float32))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    url = f"nats://127.0.0.1:{port}"
    (o.folder / "nats.conf").write_text(
        f'listen: "127.0.0.1:{port}"\njetstream {{store_dir: "{o.folder}/store"}}\nlog_file: "{o.folder}/nats.log"\n'
        "max_payload: 8MB\n"
    )
    server = subprocess.Popen([o.folder / "nats-server", "-c", o.folder / "nats.conf"])
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        nc = await nats.connect(url, max_reconnect_attempts=100, reconnect_time_wait=0.1)
        js = nc.jetstream(timeout=60)
        for name in ("features", "reduced", "dead"):
            await js.add_stream(name=name, subjects=[f"{name}.>"])
        turns = 0
        for rows, count in ((256, 3200), (16, 24000)):
            await js.purge_stream("features")
            body = bytes_of(rows, x)
            for _ in range(count):
                await js.publish_async("features.bench", body, wait_stall=60)
            await js.publish_async_completed()
            first = (await js.stream_info("features")).state.first_seq
            sample = {}
            for threads in (1, 2):

                async def turn(name):
                    nonlocal turns
                    turns += 1
                    key = f"p{turns}"
                    env = {
                        **os.environ,
                        "GOMAXPROCS": str(threads),
                        "OPENBLAS_NUM_THREADS": "1",
                        "OMP_NUM_THREADS": "1",
                    }
                    if name == "embedd":
                        conf = o.folder / f"{key}.yaml"
                        conf.write_text(
                            f"nats: {{url: '{url}'}}\nhttp: {{listen: '127.0.0.1:0'}}\npipelines:\n  {key}:\n"
                            "    input: {stream: features, subject: features.bench}\n    schema: {features: [x]}\n"
                            "    output: {subject: reduced.bench, dead: dead.bench}\n"
                            f"    model: {{file: '{o.folder}/served.embedd'}}\n"
                        )
                        commands = [[o.folder / "embedd", "run", "-c", conf]]
                    else:
                        commands = [
                            [sys.executable, HERE / "pipeline.py", url, f"embedd_{key}", o.folder / "served.npz"]
                        ] * threads
                    with open(o.folder / f"{key}.log", "w") as log:
                        started = [subprocess.Popen(c, env=env, cwd=o.folder, stdout=log, stderr=log) for c in commands]
                    try:

                        async def reaches(seq):
                            end = time.monotonic() + 60
                            while time.monotonic() < end and all(p.poll() is None for p in started):
                                with contextlib.suppress(nats.js.errors.NotFoundError):
                                    at = (await js.consumer_info("features", f"embedd_{key}")).ack_floor.stream_seq
                                    if at >= seq:
                                        return at, time.perf_counter(), used(started)
                                await asyncio.sleep(0.004)
                            raise RuntimeError(f"{name} did not answer: {(o.folder / f'{key}.log').read_text()}")

                        at, clock, cpu = await reaches(first + count // 2)
                        to, clock_to, cpu_to = await reaches(first + count - 1)
                    finally:
                        for p in started:
                            p.terminate()
                        for p in started:
                            p.wait()
                    state = (await js.stream_info("reduced")).state
                    assert state.messages == count, f"{name}: {state.messages} outputs of {count} messages"
                    answer = (await js.get_msg("reduced", seq=state.last_seq)).data
                    with pa.ipc.open_stream(answer) as reader:
                        sample[name] = reader.read_next_batch().column("embedding").values.to_numpy()
                    await js.purge_stream("reduced")
                    await js.delete_consumer("features", f"embedd_{key}")
                    return (clock_to - clock) / (to - at), (cpu_to - cpu) / (to - at)

                costs, peer, begin = {}, "Python: nats-py, pyarrow, numpy", time.monotonic()
                for i in range(o.repeats + 1):
                    if i > 1 and time.monotonic() - begin > LONGEST:
                        break
                    for name in (("embedd", peer), (peer, "embedd"))[i % 2]:
                        costs.setdefault(name, []).append(await turn(name))
                check(peer, sample[peer], sample["embedd"], 1e-4)
                yield Line(
                    "pipeline",
                    f"{rows} x {FEATURES} to 8",
                    threads,
                    {name: (lambda took=iter(took): next(took)) for name, took in costs.items()},
                    len(costs[peer]) - 1,
                    1e-6,
                )
        await nc.close()
    finally:
        server.terminate()
        server.wait()


def learning(o):
    """Learning and answering a stream of independent rows, one row after the other; of embedd in messages of 250."""
    rows = 4000

    def stage(method, threads):
        def run():
            begin = time.perf_counter()
            subprocess.run(
                [
                    o.folder / "learning",
                    "-quiet",
                    "-streams",
                    "independent",
                    "-seeds",
                    "1",
                    "-rows",
                    str(rows),
                    "-every",
                    str(rows),
                    "-method",
                    method,
                    "-export",
                    o.folder / "export",
                ],
                check=True,
                env={**os.environ, "GOMAXPROCS": str(threads)},
                stdout=subprocess.DEVNULL,
            )
            seconds = json.loads((o.folder / "export" / "independent-1" / "embedd.json").read_text())["seconds"]
            return (time.perf_counter() - begin) / rows, seconds / rows

        return run

    stage("lda", 1)()
    folder = o.folder / "export" / "independent-1"
    about = json.loads((folder / "embedd.json").read_text())
    x = np.fromfile(folder / "rows.f32", np.float32).reshape(-1, about["features"]).astype(float)
    y = np.fromfile(folder / "rows.i32", np.int32)
    dicts = [dict(enumerate(row)) for row in x.tolist()]

    def one_by_one(make, n=rows):
        def run():
            model = make()
            begin, cpu = time.perf_counter(), time.process_time()
            for row, label in zip(dicts[:n], y[:n].tolist()):
                model.predict_one(row)
                model.learn_one(row, label)
            return (time.perf_counter() - begin) / n, (time.process_time() - cpu) / n

        return run

    def partial():
        model, scaler = IncrementalPCA(8), sklearn.preprocessing.StandardScaler()
        for at in range(0, rows, 250):
            part = x[at : at + 250]
            model.partial_fit(scaler.partial_fit(part).transform(part))
            model.transform(part)

    def moments():
        model = covariance.EmpiricalCovariance()
        for row in dicts:
            model.update(row)

    def per_row(run):
        return lambda: tuple(v / rows for v in run())

    with limited(1):
        work = f"{rows} rows of {about['features']} features"
        yield Line(
            "learning",
            f"lda, {work}",
            1,
            {
                "embedd": stage("lda", 1),
                "softmax regression": one_by_one(
                    lambda: preprocessing.StandardScaler() | linear_model.SoftmaxRegression()
                ),
                "adaptive Hoeffding tree": one_by_one(lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1)),
                "adaptive forest": one_by_one(lambda: forest.ARFClassifier(n_models=10, seed=1), 1000),
            },
            o.repeats,
            1e-6,
        )
        yield Line(
            "learning",
            f"pca, {work}",
            1,
            {
                "embedd": stage("pca", 1),
                "covariance alone": per_row(timed(moments)),
                "scikit-learn's IncrementalPCA": per_row(timed(partial)),
            },
            o.repeats,
            1e-6,
        )


def number(v):
    return f"{v:.3g}" if v < 1000 else f"{v:,.0f}"


def is_behind(line, name):
    """Whether a peer needs less time, by the clock or of the processor. That of learning is processor time."""
    kinds = (1,) if line.table == "learning" else (0, 1)
    return name not in ("embedd", HUGE) and any(line.ratio(name, kind) > LEVEL for kind in kinds)


def ratios(lines):
    """Peers in columns: what embedd took, and two ratios for each."""
    names = list(lines[0].took)[1:]
    rows = []
    for line in lines:
        cells = [f"{line.ratio(n, 0):.2f}, {line.ratio(n, 1):.2f}" for n in names]
        rows.append(
            [
                line.work,
                str(line.threads),
                f"{number(line.median('embedd', 0))}, {number(line.median('embedd', 1))}",
                *(f"**{cell}**" if is_behind(line, n) else cell for n, cell in zip(names, cells)),
            ]
        )
    return table_of(["work", "threads", "embedd", *names], rows)


def rates(lines):
    """Programs in rows, with rates."""
    rows = []
    for line in lines:
        for name in line.took:
            ratio = "" if name == "embedd" else f"{line.ratio(name, 0):.2f}, {line.ratio(name, 1):.2f}"
            if line.table == "learning":
                rows.append([line.work, name, f"{1e6 / line.median(name, 1):,.0f}", ratio.split(", ")[-1]])
            else:
                rows.append(
                    [
                        line.work,
                        str(line.threads),
                        name,
                        f"{1e6 / line.median(name, 0):,.0f}",
                        number(line.median(name, 1)),
                        ratio,
                    ]
                )
            if is_behind(line, name):
                rows[-1][-1] = f"**{rows[-1][-1]}**"
    if lines[0].table == "learning":
        return table_of(["work", "program", "rows a second of processor time", "ratio of the times"], rows)
    return table_of(
        ["message", "threads", "program", "messages a second", "us of processor time a message", "ratios"], rows
    )


def processor_name():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    get = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in text.split("\n\n")[0].splitlines())}
    vectors = (
        "AVX-512" if "avx512f" in get.get("flags", "") else "AVX2" if "avx2" in get.get("flags", "") else "no AVX2"
    )
    return (
        f"{os.cpu_count()} cores of {get.get('model name')} (family {get.get('cpu family')}, model {get.get('model')}, "
        f"{vectors})"
    )


def tables_of(o, lines, load):
    """The tables of the page, in their order, without those of sections that were not measured."""
    kernels = {
        i["internal_api"] + " " + i["version"] + " (" + i["architecture"] + ")"
        for i in threadpoolctl.threadpool_info()
        if i["user_api"] == "blas"
    }
    go = subprocess.run(["go", "version"], capture_output=True, text=True, check=True).stdout.split()[2]
    packages = (
        "numpy",
        "onnxruntime",
        "scikit-learn",
        "scikit-learn-intelex",
        "faiss-cpu",
        "scipy",
        "pyarrow",
        "nats-py",
        "uvloop",
        "river",
    )
    turns = sorted({len(line.took["embedd"]) for line in lines})
    tables = [
        table_of(
            ["of the run", ""],
            [
                ["date", time.strftime("%d %B %Y")],
                ["machine", processor_name()],
                ["load average before and after", f"{load[0]:.1f}, {load[1]:.1f}"],
                ["turns", ", ".join(map(str, turns))],
                *([name, importlib.metadata.version(name)] for name in packages),
                ["Python, Go", f"{platform.python_version()}, {go}"],
                ["BLAS of the Python packages", ", ".join(sorted(kernels))],
            ],
        )
    ]
    for name, form in (
        ("projection, small pages", ratios),
        ("projection, huge pages", ratios),
        ("landmarks", ratios),
        ("fit of pca", ratios),
        ("fit of lda", ratios),
        ("pipeline", rates),
        ("learning", rates),
    ):
        if found := [line for line in lines if line.table == name]:
            if name == "landmarks":
                tables.append(table_of(["peer", "error"], [[n, f"{e:.1g}"] for n, e in o.errors.items()]))
            tables.append(form(found))
    return tables


async def measure(o):
    lines = []
    say("building")
    for name, package in (
        ("comparison", "./tools/comparison"),
        ("embedd", "./cmd/embedd"),
        ("learning", "./tools/learning"),
        ("nats-server", "github.com/nats-io/nats-server/v2"),
    ):
        subprocess.run(["go", "build", "-o", o.folder / name, package], cwd=ROOT, check=True)
    r = np.random.default_rng(1)
    y = np.arange(ROWS, dtype=np.int32) % CLASSES
    x = r.standard_normal((ROWS, FEATURES), np.float32)
    x += (r.standard_normal((CLASSES, FEATURES), np.float32) / 4)[y]
    x.tofile(o.folder / "rows.f32")
    y.tofile(o.folder / "rows.i32")
    workers = {pages: Worker(o.folder / "comparison", str(o.folder / "rows"), pages) for pages in ("small", "huge")}
    worker = workers["small"]
    try:
        for name, section in (
            ("project", lambda: projections(o, workers, x)),
            ("landmarks", lambda: curved(o, worker, x, y)),
            ("fit", lambda: fits(o, workers, x, y)),
            ("learn", lambda: learning(o)),
        ):
            if name in o.only:
                for line in section():
                    lines.append(line)
        if "pipeline" in o.only:
            async for line in pipelines(o, worker, x):
                lines.append(line)
    finally:
        for w in workers.values():
            w.stop()
    return lines


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--only", type=lambda s: s.split(","), default=["project", "landmarks", "fit", "learn", "pipeline"])
    p.add_argument("--repeats", type=int, default=7)
    o = p.parse_args()
    o.errors, begin, load = {}, time.time(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        o.folder = pathlib.Path(folder)
        lines = asyncio.run(measure(o))
    tables = tables_of(o, lines, (load, os.getloadavg()[0]))
    print(*tables, sep="\n")
    if len(sys.argv) == 1:
        replace(ROOT / "docs" / "evidence" / "peers.md", tables)
    say(f"measured in {time.time() - begin:.0f} s")


if __name__ == "__main__":
    main()
