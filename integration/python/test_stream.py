"""A client in another language: what it publishes, and what it reads back."""
import asyncio
import json
import sys

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import load_digits

import harness

sys.path.insert(0, str(harness.ROOT / "arrowio" / "testdata"))
import gen  # noqa: E402  columns of every type


def apply(model, x):
    """A linear map as `embedd model export` says it: y = ((x - mean) / scale) . components."""
    return ((x - np.array(model["mean"])) / np.array(model["scale"])) @ np.array(model["components"])


def test_learned_from_python(daemon, server, run, tmp_path):
    """Labelled batches from pyarrow; the reduced ones equal what numpy makes of the model that each of them names, to 1e-5 of a column's deviation."""
    x, y = load_digits(return_X_y=True)
    x = x.astype(np.float32)

    def batch(rows):
        pixels = pa.FixedSizeListArray.from_arrays(pa.array(x[rows].reshape(-1)), x.shape[1])
        return pa.record_batch({"id": pa.array(rows, pa.int64()), "label": pa.array(y[rows], pa.int8()), "pixels": pixels})

    async def go():
        async with harness.Client(server.url) as c:
            await c.streams()
            daemon("""
digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {method: lda, dim: 9}
  training: {window: {rows: 2000}, every: {rows: 500, period: none}}""")
            batches = np.array_split(np.arange(len(x)), 60)
            for rows in batches:
                await c.publish("features.digits", batch(rows))
            out = await c.read("REDUCED", len(batches))
            objects = await c.js.object_store("EMBEDD_MODELS")
            models = {}
            for i, msg in enumerate(out):
                assert msg.headers["Embedd-Source"] == f"FEATURES:{i + 1}"
                assert msg.headers["X-Client"] == "python"
                assert msg.headers["Content-Type"] == harness.CONTENT_TYPE
                version = msg.headers["Embedd-Model"]
                if version not in models:
                    path = tmp_path / f"{len(models)}.embedd"
                    path.write_bytes((await objects.get(version)).data)
                    models[version] = json.loads(run("model", "export", path))
                table = harness.to_table(msg.data)
                rows = batches[i]
                assert table.column_names == ["id", "label", "embedding"]
                assert table["id"].to_pylist() == rows.tolist()
                assert table["label"].to_pylist() == y[rows].tolist()
                assert table.schema.metadata[b"Embedd-Model"].decode() == version
                got = np.array(table["embedding"].to_pylist())
                want = apply(models[version], x[rows].astype(float))
                deviation = apply(models[version], x.astype(float)).std(0)
                assert (np.abs(got - want) <= 1e-5 * deviation).all(), np.abs((got - want) / deviation).max()
            assert (await c.js.stream_info("DEAD")).state.messages == 0

    asyncio.run(go())


def wide(n, fault=None):
    """n rows with columns of every type around two features; the row fault has a NaN."""
    x = np.random.default_rng(n).normal(size=(n, 2))
    if fault is not None:
        x[fault, 1] = np.nan
    columns = gen.everything(n)
    half = len(columns) // 2
    columns = dict(list(columns.items())[:half]) | {"x": pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), 2)} | dict(list(columns.items())[half:])
    return gen.batch(columns, {"who": "a client", "pandas": '{"index_columns": []}'})


def same_columns(got, want, message):
    """Column by column equal: names, types, nullability, metadata and values."""
    assert [f.name for f in got.schema] == [f.name for f in want.schema], message
    for field in want.schema:
        g, w = got[field.name], want[field.name]
        assert got.schema.field(field.name).equals(field, check_metadata=True), f"{message}: field {field.name}"
        assert len(g) == len(w) and g.null_count == w.null_count, f"{message}: {field.name}"
        # Rows that are taken out of a dictionary column leave entries of the dictionary without use: equal then is what is looked up.
        equal = g.to_pylist() == w.to_pylist() if "dictionary" in str(field.type) else g.equals(w)
        assert equal, f"{message}: values of {field.name}"


@pytest.fixture
def plane(tmp_path, run):
    """A model of the two features x[0] and x[1]."""
    path, data = tmp_path / "plane.embedd", tmp_path / "plane.arrows"
    x = np.random.default_rng(0).normal(size=(100, 2))
    table = pa.record_batch({"x": pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), 2)})
    data.write_bytes(harness.to_bytes(table))
    run("fit", "--data", data, "--method", "pca", "--dim", "2", "--features", "x", "-o", path)
    return path


PIPELINE = """
wide:
  input: {{stream: FEATURES, subject: features.wide}}
  schema: {{features: [x], label: "", nulls: reject}}
  output: {{subject: reduced.wide, dead: dead.wide}}
  model: {{file: {model}}}
"""


def test_columns_of_every_type(daemon, server, plane):
    """Columns that pass through leave as they came: whole, and where a row is rejected on both ways."""
    names = gen.everything(3).keys()
    assert len(names) >= 20

    async def go():
        async with harness.Client(server.url) as c:
            await c.streams()
            daemon(PIPELINE.format(model=plane))
            whole, faulty = wide(30), wide(31, fault=17)
            await c.publish("features.wide", whole)
            await c.publish("features.wide", faulty)
            await c.publish("features.wide", whole.slice(0, 0))
            out = await c.read("REDUCED", 3)
            dead = (await c.read("DEAD", 1))[0]

            table = harness.to_table(out[0].data)
            same_columns(table.drop_columns(["embedding"]), pa.table(whole).drop_columns(["x"]), "whole")
            assert table.schema.metadata[b"who"] == b"a client" and b"pandas" in table.schema.metadata

            left = pa.concat_tables([pa.table(faulty).slice(0, 17), pa.table(faulty).slice(18)])
            same_columns(harness.to_table(out[1].data).drop_columns(["embedding"]), left.drop_columns(["x"]), "a row rejected")
            assert dead.headers["Embedd-Kind"] == "rows" and dead.headers["Embedd-Rows"] == "17" and dead.headers["Embedd-Code"] == "non_finite"
            letter, row = harness.to_table(dead.data), pa.table(faulty).slice(17, 1)
            same_columns(letter.drop_columns(["x"]), row.drop_columns(["x"]), "the rejected row")
            assert letter.schema.names == row.schema.names and np.isnan(letter["x"].to_pylist()[0][1])
            assert harness.to_table(out[2].data).num_rows == 0

    asyncio.run(go())


@pytest.mark.parametrize("server", ["max_payload: 64KB"], indirect=True)
def test_split_columns_of_every_type(daemon, server, plane):
    """An output that is over the server's limit leaves in parts, and they add up to the whole."""

    async def go():
        async with harness.Client(server.url) as c:
            await c.streams()
            daemon(PIPELINE.format(model=plane).replace("dead: dead.wide", "dead: dead.wide, column: y"))
            whole = wide(30)
            # The output is longer than the input only by the names in its schema: the input is filled up to the server's limit.
            fill = 64_000 - len(harness.to_bytes(whole)) - 700
            whole = whole.append_column("fill", pa.array(["é" * (fill // 60)] * 30))
            await c.publish("features.wide", whole)
            first = (await c.read("REDUCED", 1))[0]
            parts = int(first.headers["Embedd-Part"].split("/")[1])
            assert parts > 1
            out = await c.read("REDUCED", parts)
            tables = [harness.to_table(m.data) for m in out]
            for i, (m, t) in enumerate(zip(out, tables)):
                assert m.headers["Embedd-Part"] == f"{i + 1}/{parts}" == t.schema.metadata[b"Embedd-Part"].decode()
                assert m.headers["Embedd-Source"] == "FEATURES:1"
                assert len(m.data) < 64 * 1024
            begin = 0
            for t in tables:
                same_columns(t.drop_columns(["y"]), pa.table(whole).slice(begin, t.num_rows).drop_columns(["x"]), f"rows from {begin}")
                begin += t.num_rows
            assert begin == 30

    asyncio.run(go())
