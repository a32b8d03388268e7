"""The package in clients/python: models of every kind against the program, the estimator, frames over NATS."""
import asyncio
import hashlib
import json
import random
import struct
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import embedd
import embedd.nats
import embedd.sklearn
import fitted
import harness
from embedd import rows


@pytest.mark.parametrize("name, asked", fitted.MODELS, ids=[name for name, _ in fitted.MODELS])
def test_transform(fit, run, tmp_path, name, asked):
    """A model of each method and kind, with rows of the fit, other rows and missing values: what `embedd transform` gives."""
    for data in fitted.data_sets(name):
        f = fit(data, asked)
        want = fitted.transformed(run, tmp_path, f)
        assert f.outputs.dtype == np.float64 and f.outputs.shape == want.shape
        # The program computes these in float32, whose error grows with the row; the package is within 1e-14 of the definition.
        by_row = f.model.map in ("linear", "views")
        bound = 1.5e-6 if by_row else 1e-6  # found: 1.03e-6 of one row of 629
        assert fitted.share_off(f.outputs, want, bound, by_row) <= 1e-3, f"{name}, {data}: {f.model.map}"
        assert f.model.transform(f.rows[:0]).shape == (0, f.model.dim)


def test_damage(fit, run):
    """A file that is damaged at any place, or cut, is an error and never gives a number."""
    f = fit("wine", ["--method", "lda"])
    whole = f.path.read_bytes()
    shown = json.loads(run("model", "show", "--format", "json", f.path))
    assert f.model.digest == shown["digest"] and list(f.model.features) == shown["features"]
    assert embedd.Model.from_bytes(whole) == f.model
    places = random.Random(1)
    for at in [*range(32), *(places.randrange(len(whole)) for _ in range(1000))]:
        damaged = bytearray(whole)
        damaged[at] ^= places.randrange(1, 256)
        for data in (bytes(damaged), whole[:at], whole + b"\0"):
            with pytest.raises(embedd.ModelError):
                embedd.Model.from_bytes(data)


@pytest.mark.parametrize("shape", [b'["x",', b"[1e400,", b"[" + 70 * b"1,", 100_000 * b"[", b"[null,", b"[2e18,"], ids=range(6))
def test_hostile_header(shape):
    """A header of another form is a ModelError under valid checksums too."""
    data = (harness.ROOT / "model" / "testdata" / "geodesic-version1.embedd").read_bytes()
    size, = struct.unpack_from("<Q", data, 16)
    content, rest = data[24 : 24 + size], data[24 + size + 32 :]
    end = 8 + struct.unpack_from("<Q", content)[0]
    head = content[8:end].replace(b'"shape":[', b'"shape":' + shape, 1)
    assert head != content[8:end]
    content = struct.pack("<Q", len(head)) + head + content[end:]
    with pytest.raises(embedd.ModelError):
        embedd.Model.from_bytes(data[:16] + struct.pack("<Q", len(content)) + content + hashlib.sha256(content).digest() + rest)


def test_geodesic_version1():
    model = embedd.Model.read(harness.ROOT / "model" / "testdata" / "geodesic-version1.embedd")
    assert model.arrays["mean_square"].shape == (model.rows,)
    assert np.isfinite(model.transform(np.zeros((1, len(model.features))))).all()


def test_encodings(run, tmp_path):
    """Categories and dates in a frame are what they are in the program's files."""
    n = 120
    frame = pd.DataFrame({"age": np.arange(n) % 7 + 0.5, "city": np.array(["Oslo", "Paris", "Rome"])[np.arange(n) % 3],
                          "floor": np.arange(n) % 4, "vip": np.arange(n) % 2 == 0,
                          "when": pd.Timestamp("2024-02-28 12:00") + pd.to_timedelta(np.arange(n) * 7 % 50, "h"),
                          "label": np.arange(n) % 3 == 2})
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    run("fit", "--data", tmp_path / "rows.parquet", "--label", "label", "--categories", "city,floor,vip", "--dates", "when",
        "--method", "lda", "-o", tmp_path / "m.embedd")
    rows = frame.drop(columns="label").astype({"city": object})
    rows.loc[0, "city"], rows.loc[1, "city"], rows.loc[2, "when"] = "Berlin", None, pd.NaT
    rows.to_parquet(tmp_path / "new.parquet", index=False)
    run("transform", "--model", tmp_path / "m.embedd", "--data", tmp_path / "new.parquet", "-o", tmp_path / "out.csv")
    model, want = embedd.Model.read(tmp_path / "m.embedd"), pd.read_csv(tmp_path / "out.csv").to_numpy()
    text = rows.assign(when=[None if pd.isna(t) else t.isoformat() for t in rows["when"]])
    for form in (rows, text, pl.from_pandas(rows), pa.Table.from_pandas(rows)):
        assert np.allclose(model.transform(form), want, atol=1e-5)
    for text_type in ("string", "string[pyarrow]"):  # their null is NA, not None
        assert np.allclose(model.transform(rows.astype({"city": text_type, "vip": "boolean"})), want, atol=1e-5)
    assert np.allclose(model.transform(rows.assign(vip=rows["vip"].map(str))), want, atol=1e-5)  # True and False as text
    with pytest.raises(ValueError, match="'05/01/2024'"):
        model.transform(text.assign(when="05/01/2024"))
    with pytest.raises(ValueError, match="category"):
        model.transform(text.assign(floor=0.5))


def test_dates():
    """The forms of dates as text are those of the program."""
    for line in (harness.ROOT / "arrowio" / "testdata" / "dates.txt").read_text().strip("\n").split("\n"):
        text, days = line.split("\t")
        if days == "NaN":
            with pytest.raises(ValueError, match="is a date and holds"):
                rows._days([text], "when")
        else:
            assert rows._days([text], "when") == [float(days)], text


def test_far_rows(fit):
    """A row whose output exceeds float32 has none, here and in the program."""
    f = fit("wine", ["--method", "isomap"])
    x = fitted.rows_of("wine")[1][:1]
    x[0, 0] = 1e37
    with pytest.raises(ValueError, match="row 0 is too far from the rows of the fit: its output exceeds float32"):
        f.model.transform(x)


def test_boolean_categories(run, tmp_path):
    """Where the fit saw True, False and other words, True of a frame is the text or the boolean."""
    n = 120
    frame = pd.DataFrame({"x": np.arange(n) % 7 + 0.5, "vip": np.array(["True", "False", "maybe"])[np.arange(n) % 3],
                          "label": np.arange(n) % 3})
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    run("fit", "--data", tmp_path / "rows.parquet", "--label", "label", "--categories", "vip", "--method", "lda", "-o",
        tmp_path / "m.embedd")
    rows = frame.drop(columns="label")[np.arange(n) % 3 < 2]
    rows.assign(vip=rows["vip"] == "True").to_csv(tmp_path / "new.csv", index=False)
    run("transform", "--model", tmp_path / "m.embedd", "--data", tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    model, want = embedd.Model.read(tmp_path / "m.embedd"), pd.read_csv(tmp_path / "out.csv").to_numpy()
    for form in (rows, rows.assign(vip=rows["vip"] == "True")):
        assert np.allclose(model.transform(form), want, atol=1e-5)


def test_frames(run, tmp_path):
    """Features are found in frames by name, in any order, also as elements of a list column."""
    x, y = load_digits(return_X_y=True)
    path = tmp_path / "d.arrows"
    table = pa.table({"pixels": pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), 64), "label": y})
    with pa.ipc.new_stream(path, table.schema) as w:
        w.write_table(table)
    run("fit", "--data", path, "--label", "label", "--method", "lda", "--dim", 4, "-o", tmp_path / "m.embedd")
    model = embedd.Model.read(tmp_path / "m.embedd")
    want = model.transform(x)
    columns = pd.DataFrame(x[:, ::-1], columns=model.features[::-1])
    for frame in (table, {"pixels": x}, table.to_pandas(), pl.from_arrow(table), columns, pl.from_pandas(columns)):
        assert np.array_equal(model.transform(frame), want)
    with pytest.raises(ValueError, match=r"no column 'pixels\[0\]'"):
        model.transform(columns.drop(columns="pixels[0]"))
    with pytest.raises(ValueError, match=r"shape \(1797, 63\); the model needs \(rows, 64\)"):
        model.transform(x[:, 1:])


def test_chunks():
    """Chunks of a table, which may have different dictionaries, are one batch: a message has each dictionary once."""
    chunks = [pa.table({"x": [float(k)], "label": pa.array([name]).dictionary_encode()}) for k, name in enumerate("ab")]
    (message,) = embedd.nats.encode(pa.concat_tables(chunks))
    batches = list(pa.ipc.open_stream(message))
    assert [b.to_pydict() for b in batches] == [{"x": [0.0, 1.0], "label": ["a", "b"]}]


def test_lost_messages(monkeypatch):
    """Messages that were on their way when the connection was cut are read again, also if no message follows them."""
    (data,) = embedd.nats.encode({"x": [1.0]})
    lost = {2, 4}

    class Consumer:
        def __init__(self, at):
            self.at, self.sent = at, 0

        async def fetch(self, _, timeout):
            while self.at < 4:
                self.at, self.sent = self.at + 1, self.sent + 1
                if self.at in lost:
                    lost.remove(self.at)
                    continue
                place = SimpleNamespace(sequence=SimpleNamespace(consumer=self.sent, stream=self.at))
                return [SimpleNamespace(data=data, headers=None, subject="s", metadata=place)]
            raise embedd.nats.nats.errors.TimeoutError

        async def consumer_info(self):
            return SimpleNamespace(delivered=SimpleNamespace(consumer_seq=self.sent))

        async def unsubscribe(self):
            pass

        close = unsubscribe  # as a connection

    async def pull(connection, subject, durable, new, after=0):
        return Consumer(after)

    async def connect(server, options):
        return Consumer(0)

    monkeypatch.setattr(embedd.nats, "_pull", pull)
    monkeypatch.setattr(embedd.nats, "_connect", connect)
    assert [m.sequence for m in embedd.nats.subscribe("s", timeout=1)] == [1, 2, 3, 4]


def test_message_that_is_no_arrow():
    """Outputs of a pipeline with output.format json or csv."""
    for data in b'[{"id": 17,"embedding":[0.31,-1.2]}]', b"id,embedding_0\n17,0.31\n", b"":
        with pytest.raises(ValueError, match="no Arrow stream(.|\n)*output.format"):
            embedd.nats.decode(data)


@pytest.fixture
def program_in_path(program, monkeypatch):
    monkeypatch.setenv("EMBEDD", program)


@pytest.mark.filterwarnings("ignore")
def test_estimator(program_in_path):
    """scikit-learn's own checks, and a grid of a pipeline."""
    check_estimator(embedd.sklearn.Embedd(method="lda"))
    x, y = load_wine(return_X_y=True)
    reduced = make_pipeline(embedd.sklearn.Embedd(method="lda", dim=2, params={"ridge": 0.1}), KNeighborsClassifier())
    assert cross_val_score(reduced, x, y).mean() > 0.9
    whole = embedd.sklearn.Embedd(method="lda", dim=2).fit(x, y)
    assert embedd.Model.from_bytes(whole.model_bytes_) == whole.model_
    with pytest.raises(ValueError, match="lda needs labels"):
        embedd.sklearn.Embedd(method="lda").fit(x)


def test_nats(server, daemon, program_in_path, tmp_path):
    """Frames of each library to a pipeline, and its outputs in each: what the model of the pipeline gives."""
    x, y = load_wine(return_X_y=True)
    features = pd.DataFrame(x).add_prefix("w")
    fit = embedd.sklearn.Embedd(method="lda", dim=2).fit(features, y)
    (tmp_path / "m.embedd").write_bytes(fit.model_bytes_)

    async def create():
        async with harness.Client(server.url) as c:
            await c.streams()

    asyncio.run(create())
    daemon(f"""
wine:
  input: {{stream: FEATURES, subject: features.wine}}
  schema: {{features: ["w*"], label: label}}
  output: {{subject: reduced.wine, dead: dead.wine}}
  model: {{file: {tmp_path / "m.embedd"}}}""")
    frame, url = features.assign(label=y), server.url
    for sent in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame), {name: frame[name].to_numpy() for name in frame}):
        assert len(embedd.nats.publish(sent, "features.wine", server=url, rows=100)) == 2
    want = fit.transform(features)

    def check(to, message, sequence):
        at = slice(100) if sequence % 2 else slice(100, None)
        outputs = message.frame["embedding"].to_pylist() if to == "arrow" else message.frame["embedding"]
        assert np.abs(np.stack(list(outputs)) - want[at]).max() <= 2e-6 * np.sqrt((want**2).mean())
        assert [int(v) for v in np.asarray(message.frame["label"])] == list(y[at])
        assert message.headers["Embedd-Source"] == f"FEATURES:{sequence}" and message.sequence == sequence

    # Each subscription of one name continues where the last one ended; a message at which the loop was left comes again.
    sequence = 0
    for to in ("pandas", "polars", "numpy", "arrow"):
        for message in embedd.nats.subscribe("reduced.wine", server=url, to=to, durable="reader", limit=2, timeout=harness.AMPLE):
            sequence += 1
            check(to, message, sequence)
            if sequence == 2:
                break
        if sequence == 2:
            (message,) = embedd.nats.subscribe("reduced.wine", server=url, to=to, durable="reader", limit=1, timeout=harness.AMPLE)
            check(to, message, 2)
    assert sequence == 8
    assert [m.sequence for m in embedd.nats.subscribe("reduced.wine", server=url, limit=8, timeout=harness.AMPLE)] == list(range(1, 9))
    with pytest.raises(ValueError, match="at least 1"):
        embedd.nats.publish(frame, "features.wine", server=url, rows=0)
    with pytest.raises(ValueError, match="up to 1000 rows has more than the 1048576 bytes .* fewer rows="):
        embedd.nats.publish({"x": np.zeros((1000, 200))}, "features.wine", server=url, rows=1000)
    with pytest.raises(LookupError, match="no stream stores features_wine, so nothing was published"):
        embedd.nats.publish(frame, "features_wine", server=url)
    with pytest.raises(LookupError, match="no stream stores reduced_wine"):
        next(embedd.nats.subscribe("reduced_wine", server=url))


def test_no_frame():
    for series in pd.Series([1.0], name="x"), pl.Series("x", [1.0]):
        with pytest.raises(TypeError, match="a Series is no frame"):
            list(embedd.nats.encode(series))


def test_no_server(caplog):
    port, held = harness.free_port()
    with held, pytest.raises(ConnectionError, match=f"no connection to 127.0.0.1:{port}: .*Connect call failed"):
        embedd.nats.publish({"x": [1.0]}, "s", server=f"nats://user:secret@127.0.0.1:{port}",
                            max_reconnect_attempts=1, reconnect_time_wait=0)
    assert caplog.records == []


def test_nulls(run, tmp_path):
    """Rows with a missing value get what the fit did with them, as the program gives them, unless an argument says otherwise."""
    rows = tmp_path / "rows.csv"
    rows.write_text("x,y,label\n" + "".join(f"{i % 3}.{i},{i % 7},{'abc'[i % 3]}\n" for i in range(30)) + ",1,a\n1e300,2,b\n")
    x = np.array([[1, 2], [np.nan, 1], [1e300, 1], [2, 3]])
    for asked, imputes in (([], True), (["--nulls", "skip"], False)):
        path = tmp_path / "model.embedd"
        run("fit", "--data", rows, "--label", "label", "--method", "pca", "-o", path, *asked)
        model = embedd.Model.read(path)
        if not imputes:
            assert len(model.transform(x)) == 2
        else:
            assert np.array_equal(model.transform(x)[2], model.transform([[np.nan, 1]])[0])
        assert len(model.transform(x, nulls="skip")) == 2
        with pytest.raises(ValueError, match="row 1, feature 'x'"):
            model.transform(x, nulls="reject")
        with pytest.raises(ValueError, match="use one of reject, impute, skip"):
            model.transform(x, nulls="drop")
