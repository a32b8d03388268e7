"""Compares in pyarrow what the round trip test wrote: python check.py OUT [IN], after go test -run KeptColumns -args -out OUT

The first number of a row's embedding is ten times its row in the input.
"""
import collections
import glob
import os
import sys

import pyarrow as pa

here = sys.argv[2] if len(sys.argv) > 2 else os.path.dirname(os.path.abspath(__file__))


def read(path):
    with open(path, "rb") as f:
        reader = pa.ipc.open_stream(f.read())
    batches = list(reader)
    for b in batches:
        b.validate(full=True)
    return reader.schema, batches


def rows(batches, name):
    """Each row's value of a column, as one-row arrays: take() does not know every type."""
    return [b.column(name).slice(i, 1) for b in batches for i in range(b.num_rows)]


def same(a, b):
    if pa.types.is_dictionary(a.type):  # it may have lost the entries that no row uses
        a, b = a.dictionary_decode(), b.dictionary_decode()
    return a.equals(b) or str(a.to_pylist()) == str(b.to_pylist())


groups = collections.defaultdict(list)
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.out")), key=lambda p: int(p.split(".")[-2])):
    groups[os.path.basename(path).rsplit(".", 2)[0]].append(path)
values = 0
for group, paths in groups.items():
    schema, batches = read(os.path.join(here, group.split(".")[0] + ".arrows"))
    for path in paths:
        out_schema, out = read(path)
        got = [v[0] for b in out for v in b.column("embedding").to_pylist()]
        wanted = [int(v) // 10 for v in got]
        if group.endswith("whole"):
            assert wanted == list(range(sum(b.num_rows for b in batches))), group
            assert [b.num_rows for b in out] == [b.num_rows for b in batches], group
        assert out_schema.field(len(out_schema) - 1).type == pa.list_(pa.field("item", pa.float32(), nullable=False), 2), group
        for f in schema:
            if f.name == "x":
                continue
            g = out_schema.field(f.name)
            assert f.equals(g, check_metadata=True), (group, f, g)
            source, result = rows(batches, f.name), rows(out, f.name)
            assert len(result) == len(wanted)
            for at, r in zip(wanted, result):
                assert same(source[at], r), (group, f.name, at, source[at], r)
                values += 1
        for key, value in (schema.metadata or {}).items():
            assert out_schema.metadata[key] == (b"1" if key == b"Embedd-Wire" else value), (group, key)
print(len(groups), "outputs,", sum(map(len, groups.values())), "messages,", values, "values equal")
