# Writes the files of this directory with pyarrow (26.0.1 wrote those that are committed): python3 write.py
import datetime as dt
import decimal
import os

import pyarrow as pa
import pyarrow.parquet as pq

n = 30


def gaps(values):
    return [None if i % 7 == 3 else v for i, v in enumerate(values)]


table = pa.table({
    "f64": pa.array(gaps([i / 2 for i in range(n)])),
    "f32": pa.array([i / 4 for i in range(n)], pa.float32()),
    "f16": pa.array([float(i) for i in range(n)], pa.float16()),
    "i8": pa.array([i - 50 for i in range(n)], pa.int8()),
    "u32": pa.array([2**32 - 1 - i for i in range(n)], pa.uint32()),
    "u64": pa.array([2**64 - 1 - i for i in range(n)], pa.uint64()),
    "b": pa.array([i % 2 == 0 for i in range(n)]),
    "s": pa.array(gaps(["name %d" % i for i in range(n)])),
    "dict": pa.array(gaps(["c%d" % (i % 5) for i in range(n)])).dictionary_encode(),
    "bin": pa.array([b"\x00\xff%d" % i for i in range(n)]),
    "fsb": pa.array([b"abcd"] * n, pa.binary(4)),
    "ts": pa.array([dt.datetime(2020, 1, 1) + dt.timedelta(seconds=i) for i in range(n)], pa.timestamp("us", tz="UTC")),
    "date": pa.array([dt.date(2020, 1, 1) + dt.timedelta(days=i) for i in range(n)]),
    "time": pa.array(range(n), pa.time64("us")),
    "dec": pa.array([decimal.Decimal(i) / 100 for i in range(n)], pa.decimal128(12, 2)),
    "list": pa.array(gaps([[float(j) for j in range(i % 4)] for i in range(n)]), pa.list_(pa.float64())),
    "vector": pa.array([[i, i + 1, i + 2] for i in range(n)], pa.list_(pa.float32(), 3)),
    "struct": pa.array([{"a": 1, "b": "x"}] * n),
    "map": pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int32())),
})
os.chdir(os.path.dirname(os.path.abspath(__file__)))
pq.write_table(table, "types.parquet", compression="zstd", row_group_size=10)
pq.write_table(pa.table({"x": [float(i) for i in range(100)]}), "lz4.parquet", compression="lz4")
pq.write_table(table, "lz4v2.parquet", compression="lz4", row_group_size=10, data_page_version="2.0")

# Pages of LZ4 without a dictionary in front of them, after a row group without rows, and booleans in runs.
numbers = pa.table({"x": [i / 2 for i in range(400)]})
with pq.ParquetWriter("lz4pages.parquet", numbers.schema, compression="lz4", use_dictionary=False, data_page_size=500, write_batch_size=100) as w:
    w.write_table(numbers.slice(0, 0))
    w.write_table(numbers)
flags = [i % 100 < 41 or i % 13 == 0 for i in range(503)]
runs = pa.table({
    "b": pa.array([None if i % 29 == 3 else flags[i] for i in range(500)]),
    "l": pa.array([flags[i : i + i % 4] for i in range(500)]),
})
pq.write_table(runs, "runs.parquet", compression="snappy", data_page_version="2.0", row_group_size=300)
pq.write_table(runs, "runsv1.parquet", compression="none", use_dictionary=False, column_encoding={"b": "RLE", "l.list.element": "RLE"})

# Values whose text the library of Arrow gets wrong.
forms = pa.table({
    "half": pa.array([2**-24, 2**-14 - 2**-24, 0.1], pa.float16()),
    "price": pa.array([decimal.Decimal("0.01"), None, decimal.Decimal("-123456789.99")], pa.decimal128(20, 2)),
    "wide": pa.array([decimal.Decimal("0.3"), decimal.Decimal(10**50), None], pa.decimal256(60, 1)),
    "local": pa.array([dt.datetime(2020, 1, 1, 12, 0, 0, 5)] * 2 + [None], pa.timestamp("us")),
    "zone": pa.array([dt.datetime(2020, 7, 1)] * 2 + [None], pa.timestamp("s", tz="Europe/Zurich")),
    "nothing": pa.nulls(3),
})
with pa.ipc.new_file("forms.arrow", forms.schema) as w:
    w.write_table(forms)

# Polars (2.1.0 wrote the file that is committed) leaves the prefix of the schema's frame out, and writes texts as views.
import polars as pl

pl.DataFrame({
    "x": gaps([i / 2 for i in range(n)]),
    "s": gaps(["a text of more than twelve bytes, number %d" % i if i % 2 else "short %d" % i for i in range(n)]),
    "c": pl.Series(gaps(["c%d" % (i % 5) for i in range(n)]), dtype=pl.Categorical),
    "b": pl.Series(gaps([b"\x00\xff%d" % i for i in range(n)]), dtype=pl.Binary),
    "v": pl.Series([[i, i + 1.5] for i in range(n)], dtype=pl.Array(pl.Float32, 2)),
    "l": pl.Series(gaps([["e%d" % k for k in range(i % 3)] for i in range(n)]), dtype=pl.List(pl.String)),
}).write_ipc("polars.arrow", compression="zstd", record_batch_size=11)
