# Writes one table as every tool writes it: python3 write.py, with pandas 3.1.1, pyarrow 26.0.1, polars 2.1.0 and
# duckdb 2.0.0. TestOneTable fits each file and wants one model.
import csv
import decimal
import os

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

os.chdir(os.path.dirname(os.path.abspath(__file__)))
n = 36
a = [(i * 7 % 23) / 8 - 1 for i in range(n)]
b = [((i * i) % 41) / 4 for i in range(n)]
c = [None if i % 11 == 5 else (i * 5) % 17 for i in range(n)]
on = [(i * i) % 7 < 3 for i in range(n)]
name = ["row, %d" % i for i in range(n)]
label = [i % 3 for i in range(n)]
cents = [decimal.Decimal(v) for v in b]

table = pa.table({"name": name, "a": a, "b": b, "c": pa.array(c, pa.int64()), "never": pa.nulls(n, pa.float64()),
                  "on": on, "label": label})


def having(**columns):
    t = table
    for column, values in columns.items():
        t = t.set_column(t.column_names.index(column), column, values)
    return t


words = pa.array(["%d" % v for v in label])
exact = having(a=pa.array(a, pa.float16()), b=pa.array(cents, pa.decimal128(6, 2)))
small = having(a=pa.array(a, pa.float32()), c=pa.array(c, pa.uint8()), on=pa.array([int(v) for v in on], pa.int8()))
views = having(name=table["name"].cast(pa.string_view()), label=words.cast(pa.string_view()))

frame = table.to_pandas()
frame["c"] = frame["c"].astype("Int64")
floats = frame.astype({"label": float})


def texts(path, frame=frame, **how):
    frame.to_csv(path, index=False, **how)


texts("pandas.csv")
texts("pandas_gzip.csv.gz")
texts("pandas_tab.tsv", sep="\t")
texts("pandas_tab_gzip.tsv.gz", sep="\t")
texts("pandas_tab_in_csv.csv", sep="\t")
texts("pandas_semicolon.csv", sep=";")
texts("pandas_bar.csv", sep="|")
texts("pandas_decimal_comma.csv", sep=";", decimal=",")
texts("pandas_colon.csv", sep=":")
for word in ["NA", "N/A", "NaN", "null", "None"]:
    texts("pandas_missing_%s.csv" % word.replace("/", ""), na_rep=word)
texts("pandas_missing_question.csv", na_rep="?")
texts("pandas_quoted.csv", quoting=csv.QUOTE_ALL)
texts("pandas_crlf.csv", lineterminator="\r\n")
texts("pandas_bom.csv", encoding="utf-8-sig")
texts("pandas_digits.csv", float_format="%.6f")
texts("pandas_float_labels.csv", floats)
frame.to_parquet("pandas.parquet", index=False)
frame.to_parquet("pandas_index.parquet")
floats.astype({"c": float}).to_parquet("pandas_float_labels.parquet", index=False)
frame.to_feather("pandas.feather")

for codec in ["none", "snappy", "brotli", "zstd", "lz4"]:
    pq.write_table(table, "pyarrow_%s.parquet" % codec, compression=codec)
pq.write_table(table, "pyarrow_v2.parquet", data_page_version="2.0", version="2.6")
pq.write_table(table, "pyarrow_v2_lz4.parquet", data_page_version="2.0", compression="lz4")
pq.write_table(table, "pyarrow_plain.parquet", use_dictionary=False)
pq.write_table(table, "pyarrow_groups.parquet", row_group_size=7)
pq.write_table(table, "pyarrow_split.parquet", use_dictionary=False, use_byte_stream_split=["a", "b"])
pq.write_table(table, "pyarrow_delta.parquet", use_dictionary=False,
               column_encoding={"c": "DELTA_BINARY_PACKED", "name": "DELTA_LENGTH_BYTE_ARRAY"})
pq.write_table(exact, "pyarrow_exact.parquet")
pq.write_table(small, "pyarrow_small.parquet")
pq.write_table(having(label=words.dictionary_encode()), "pyarrow_words.parquet")


def arrow(path, table, make=pa.ipc.new_file, rows=None, **options):
    with make(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as w:
        w.write_table(table, max_chunksize=rows)


arrow("pyarrow.arrow", table)
arrow("pyarrow_batches.arrow", table, rows=7)
arrow("pyarrow_lz4.arrow", table, compression="lz4")
arrow("pyarrow_zstd.arrows", table, pa.ipc.new_stream, rows=10, compression="zstd")
arrow("pyarrow_exact.arrow", exact)
arrow("pyarrow_decimal256.arrow", having(b=pa.array(cents, pa.decimal256(50, 3))))
arrow("pyarrow_small.arrow", small)
arrow("pyarrow_views.arrow", views)
arrow("pyarrow_words.arrow", having(name=table["name"].cast(pa.large_string()), label=words.dictionary_encode()))
arrow("pyarrow_float_labels.arrow", having(label=pa.array([float(v) for v in label], pa.float32())))
feather.write_feather(table, "pyarrow.feather", compression="lz4")

polars = pl.from_arrow(table)
category = polars.with_columns(pl.col("label").cast(pl.String).cast(pl.Categorical), pl.col("a").cast(pl.Float32),
                               pl.col("b").cast(pl.Decimal(8, 2)))
polars.write_csv("polars.csv")
polars.write_csv("polars_semicolon.csv", separator=";", null_value="NA", quote_style="non_numeric")
for codec in ["snappy", "lz4", "zstd"]:
    polars.write_parquet("polars_%s.parquet" % codec, compression=codec)
category.write_parquet("polars_category.parquet", row_group_size=10)
polars.write_ipc("polars.arrow")
polars.write_ipc("polars_zstd.arrow", compression="zstd", record_batch_size=10)
polars.write_ipc("polars_oldest.arrow", compat_level=pl.CompatLevel.oldest())
polars.write_ipc_stream("polars.arrows")
category.write_ipc("polars_category.arrow", record_batch_size=10)

duckdb.register("t", table)
duckdb.sql("COPY t TO 'duckdb.csv'")
duckdb.sql("COPY t TO 'duckdb_tab.tsv' (DELIMITER '\t', NULL 'null')")
for codec in ["snappy", "gzip", "lz4_raw"]:
    duckdb.sql("COPY t TO 'duckdb_%s.parquet' (FORMAT parquet, COMPRESSION %s)" % (codec, codec))
duckdb.sql("COPY (SELECT name, a::FLOAT AS a, b::DECIMAL(9, 4) AS b, c::TINYINT AS c, never, \"on\", label::DECIMAL(4, 1) AS label "
           "FROM t) TO 'duckdb_exact.parquet' (FORMAT parquet, PARQUET_VERSION v2)")
