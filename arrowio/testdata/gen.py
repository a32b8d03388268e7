"""Writes the messages that the tests of package arrowio read. Run: python gen.py (pyarrow 18 or later).

Each file is one Arrow IPC stream. The data is made up here; nothing is licensed from elsewhere.

python gen.py DIR N writes N messages of random nested types instead; check them with

    go test ./arrowio -run KeptColumns -args -in DIR -out OUT && python arrowio/testdata/check.py OUT DIR
"""
import datetime
import decimal
import os
import sys

import numpy as np
import pyarrow as pa

here = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
N = 7


def write(name, batches, schema=None, options=None):
    schema = schema or batches[0].schema
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=options) as w:
        for b in batches:
            w.write_batch(b)
    data = sink.getvalue().to_pybytes()
    pa.ipc.open_stream(data).read_all().validate(full=True)
    with open(os.path.join(here, name), "wb") as f:
        f.write(data)
    print(name, len(data))


def holes(values):
    """The same values with every third one null."""
    return [None if i % 3 == 2 else v for i, v in enumerate(values)]


def features(n, m=4, seed=0):
    x = np.random.default_rng(seed).normal(size=n * m).astype(np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(x), m)


class Point(pa.ExtensionType):
    def __init__(self):
        super().__init__(pa.struct([("x", pa.float64()), ("y", pa.float64())]), "example.point")

    def __arrow_ext_serialize__(self):
        return b"epsg:4326"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls()


def everything(n):
    """Columns of every type, by name."""
    words = [f"word {i} " + "long enough to leave its view " * (i % 2) for i in range(n)]
    when = [datetime.datetime(2024, 2, 29, 12, i) for i in range(n)]
    lists = holes([[i, None, i + 1][: i % 4] for i in range(n)])
    point = Point()
    storage = pa.array([{"x": float(i), "y": -float(i)} for i in range(n)], type=point.storage_type)
    inner = pa.DictionaryArray.from_arrays(pa.array([i % 3 for i in range(n)], pa.int8()), pa.array(["red", "green", "blue"]))
    sparse_types = pa.array([i % 2 for i in range(n)], pa.int8())
    dense_types = pa.array([[5, 9][i % 2] for i in range(n)], pa.int8())
    cols = {
        "null": pa.nulls(n),
        "bool": pa.array(holes([i % 2 == 0 for i in range(n)])),
        "int8": pa.array(holes(range(n)), pa.int8()),
        "uint64": pa.array([2**64 - 1 - i for i in range(n)], pa.uint64()),
        "half": pa.array(np.arange(n, dtype=np.float16)),
        "double": pa.array(holes([i / 3 for i in range(n)])),
        "decimal128": pa.array(holes([decimal.Decimal(i) / 4 for i in range(n)]), pa.decimal128(20, 3)),
        "decimal256": pa.array([decimal.Decimal(i) / 4 for i in range(n)], pa.decimal256(50, 3)),
        "date32": pa.array([w.date() for w in when], pa.date32()),
        "date64": pa.array([w.date() for w in when], pa.date64()),
        "time32": pa.array([i for i in range(n)], pa.time32("ms")),
        "time64": pa.array([i for i in range(n)], pa.time64("ns")),
        "timestamp": pa.array(holes(when), pa.timestamp("us", tz="Europe/Zurich")),
        "duration": pa.array([i for i in range(n)], pa.duration("ms")),
        "interval": pa.array([pa.MonthDayNano([i, i, i]) for i in range(n)]),
        "fixed": pa.array(holes([bytes([i] * 5) for i in range(n)]), pa.binary(5)),
        "string": pa.array(holes(words)),
        "large_string": pa.array(words, pa.large_string()),
        "binary": pa.array(holes([w.encode() for w in words]), pa.binary()),
        "large_binary": pa.array([w.encode() for w in words], pa.large_binary()),
        "string_view": pa.array(holes(words), pa.string_view()),
        "binary_view": pa.array([w.encode() for w in words], pa.binary_view()),
        "list": pa.array(lists, pa.list_(pa.int32())),
        "large_list": pa.array(lists, pa.large_list(pa.int64())),
        "list_view": pa.array(lists, pa.list_view(pa.int16())),
        "large_list_view": pa.array(lists, pa.large_list_view(pa.int16())),
        "fixed_list": pa.array(holes([[i, i + 1] for i in range(n)]), pa.list_(pa.uint16(), 2)),
        "struct": pa.array(holes([{"a": i, "b": [str(i)] * (i % 3)} for i in range(n)]),
                           pa.struct([("a", pa.int32()), pa.field("b", pa.list_(pa.string()), metadata={"unit": "m"})])),
        "map": pa.array(holes([[(str(k), k) for k in range(i % 3)] for i in range(n)]), pa.map_(pa.string(), pa.int64())),
        "sparse_union": pa.UnionArray.from_sparse(sparse_types, [pa.array(range(n)), pa.array(words)], ["number", "word"]),
        "dense_union": pa.UnionArray.from_dense(dense_types, pa.array([i // 2 for i in range(n)], pa.int32()),
                                                [pa.array(range(n)), pa.array(words)], ["number", "word"], [5, 9]),
        "dictionary": pa.array(holes(["a", "b", "a", "c"] * n)[:n]).dictionary_encode(),
        "nested_dictionary": pa.DictionaryArray.from_arrays(
            pa.array([i % 2 for i in range(n)], pa.uint16()),
            pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), inner.slice(0, 3))),
        "list_of_dictionary": pa.ListArray.from_arrays(pa.array(list(range(n + 1)), pa.int32()), inner),
        "extension": pa.ExtensionArray.from_storage(point, storage),
    }
    return cols


def runs(n):
    return {
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([3, n], pa.int32()), pa.array(["p", None])),
    }


def texts(n):
    """Columns of n rows after others, as arrow-rs and Polars pass on a slice: their offsets do not begin at 0."""
    offsets = pa.py_buffer(np.arange(3, 4 + n, dtype=np.int32))
    words = pa.Array.from_buffers(pa.string(), n, [None, offsets, pa.py_buffer(b"abcdef"[: 3 + n])])
    child = pa.array([str(i) for i in range(3 + n)])
    lists = pa.Array.from_buffers(pa.list_(pa.string()), n, [None, offsets], children=[child])
    return {"words": words, "lists": lists, "struct": pa.StructArray.from_arrays([words, lists], ["words", "lists"])}


def batch(cols, meta=None):
    fields = []
    for i, (name, a) in enumerate(cols.items()):
        fields.append(pa.field(name, a.type, nullable=True, metadata={"column": str(i)} if i % 4 == 0 else None))
    return pa.record_batch(list(cols.values()), schema=pa.schema(fields, metadata=meta))


meta = {"who": "gen.py", "Embedd-Wire": "old", "pandas": '{"index_columns": []}'}


def main():
    wide = {"x": features(N), "label": pa.array(holes(["a", "b"] * N)[:N]), "id": pa.array(range(N))} | everything(N)
    write("everything.arrows", [batch(wide, meta)])
    write("everything_lz4.arrows", [batch(wide, meta)], options=pa.ipc.IpcWriteOptions(compression="lz4"))
    write("everything_zstd.arrows", [batch(wide, meta)], options=pa.ipc.IpcWriteOptions(compression="zstd"))
    write("runs.arrows", [batch({"x": features(N)} | runs(N), meta)])

    two = batch({"x": features(64, 8), "label": pa.array(["abc"[i % 3] for i in range(64)]).dictionary_encode(),
                 "id": pa.array([f"key {i}" for i in range(64)])})
    write("fsl.arrows", [two.slice(0, 40), two.slice(40)])
    write("fsl_sliced.arrows", [two.slice(5, 11)])
    big = batch({"x": features(512, 16), "id": pa.array(range(512))})
    write("fsl_zstd.arrows", [big], options=pa.ipc.IpcWriteOptions(compression="zstd"))
    write("fsl_lz4.arrows", [big], options=pa.ipc.IpcWriteOptions(compression="lz4"))

    rng = np.random.default_rng(1)
    cols = {f"f{j}": pa.array(rng.normal(size=50).astype(np.float32)) for j in range(12)}
    cols = {"label": pa.array([i % 3 for i in range(50)], pa.int8())} | cols | {"t": pa.array(range(50), pa.timestamp("s"))}
    write("columns.arrows", [batch(cols)])
    mixed = {"a": pa.array([1.5, None, float("nan"), float("inf"), 4]), "b": pa.array([1, 2, None, 4, 5], pa.int32()),
             "c": pa.array(np.array([1, 2, 3, -np.inf, 5], np.float32)), "label": pa.array([True, False, None, True, True]),
             "v": pa.array([[1, 2], [3, 4], None, [5, None], [7, 8]], pa.list_(pa.float32())),
             "w": pa.array([[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]], pa.large_list(pa.uint8()))}
    write("mixed.arrows", [batch(mixed)])

    schema = batch({"x": features(0)}).schema
    write("empty_stream.arrows", [], schema=schema)
    write("empty_batches.arrows", [batch({"x": features(0), "s": pa.array([], pa.string())})] * 2)
    v4 = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    write("v4.arrows", [two.slice(0, 9)], options=v4)
    write("empty_slices.arrows", [batch({"x": features(n)} | texts(n)) for n in (2, 0)])

    write("refused/legacy.arrows", [two.slice(0, 9)], options=pa.ipc.IpcWriteOptions(use_legacy_format=True))
    small = pa.array([decimal.Decimal(i) / 4 for i in range(N)], pa.decimal64(12, 2))
    write("refused/decimal64.arrows", [batch({"x": features(N), "price": small})])  # as text
    write("refused/v4_runs.arrows", [batch({"x": features(N)} | runs(N))], options=v4)


FLAT = [pa.null(), pa.bool_(), pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32(), pa.timestamp("ns", "UTC"),
        pa.string(), pa.large_string(), pa.binary(), pa.binary(3), pa.string_view(), pa.binary_view(), pa.decimal128(9, 2)]


def random_type(r, depth):
    if depth == 0 or r.random() < 0.3:
        return FLAT[r.integers(len(FLAT))]
    kind = r.integers(8)
    sub = lambda: random_type(r, depth - 1)
    if kind == 0:
        return pa.struct([(f"f{k}", sub()) for k in range(r.integers(1, 4))])
    if kind == 1:
        return pa.map_(pa.string(), sub())
    if kind == 2:
        return pa.list_(sub(), int(r.integers(1, 4)))
    if kind == 3:
        return pa.dictionary(pa.int8(), FLAT[[4, 10, 12][r.integers(3)]])
    return [pa.list_, pa.large_list, pa.list_view, pa.large_list_view][kind - 4](sub())


def random_value(r, t):
    """A value for pa.array of this type; a fifth of them null."""
    if r.random() < 0.2 or pa.types.is_null(t):
        return None
    if pa.types.is_struct(t):
        return {f.name: random_value(r, f.type) for f in t}
    if pa.types.is_map(t):
        return [(str(k), random_value(r, t.item_type)) for k in range(r.integers(4))]
    if pa.types.is_fixed_size_list(t):
        return [random_value(r, t.value_type) for _ in range(t.list_size)]
    if hasattr(t, "value_type") and not pa.types.is_dictionary(t):
        return [random_value(r, t.value_type) for _ in range(r.integers(4))]
    if pa.types.is_dictionary(t):
        return random_value(r, t.value_type)
    n = int(r.integers(100))
    if pa.types.is_boolean(t):
        return n % 2 == 0
    if pa.types.is_fixed_size_binary(t) and not pa.types.is_decimal(t):
        return bytes([n] * 3)
    if "string" in str(t):
        return f"é{n}" * (n % 5)
    if "binary" in str(t):
        return bytes([n, 255]) * (n % 10)
    if pa.types.is_decimal(t):
        return decimal.Decimal(n) / 4
    if pa.types.is_date(t):
        return datetime.date(2024, 1, 1 + n % 28)
    return n


def random_messages(count):
    for seed in range(count):
        r = np.random.default_rng(seed)
        n = int(r.integers(1, 60))
        cols = {"x": features(n)}
        for k in range(r.integers(1, 6)):
            t = random_type(r, 3)
            cols[f"c{k}"] = pa.array([random_value(r, t) for _ in range(n)], type=t)
        b = batch(cols, meta)
        lo, hi = sorted(int(v) for v in r.integers(0, n + 1, 2))
        options = pa.ipc.IpcWriteOptions(compression=[None, "lz4", "zstd"][seed % 3], unify_dictionaries=False)
        write(f"random{seed}.arrows", [[b], [b.slice(lo, hi - lo)], [b.slice(0, lo), b.slice(lo)]][seed % 3 if n > 1 else 0], options=options)


if __name__ == "__main__":
    sys.exit(random_messages(int(sys.argv[2])) if len(sys.argv) > 2 else main())
