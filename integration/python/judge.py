"""Judges in pyarrow what TestMutants of arrowio wrote: python judge.py FILE

One line of JSON for each finding: an output that cannot be opened or is not valid, or a message that pyarrow accepts and
embedd does not.
"""
import json
import struct
import subprocess
import sys

import pyarrow as pa


def judge(data):
    """None if pyarrow accepts the message, else why not."""
    try:
        with pa.ipc.open_stream(data) as reader:
            str(reader.schema)
            for batch in reader:
                batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, NotImplementedError, TypeError, KeyError) as e:
        return f"{type(e).__name__}: {e}"


def records(path):
    """Verdict, message and outputs of each mutant."""
    with open(path, "rb") as f:
        def part():
            head = f.read(4)
            return f.read(struct.unpack("<I", head)[0]) if head else None
        while (verdict := part()) is not None:
            message, n = part(), int(part())
            yield verdict.decode(), message, [part() for _ in range(n)]


def child(path, first):
    for k, (verdict, message, outputs) in enumerate(records(path)):
        if k < first:
            continue
        for i, out in enumerate(outputs):
            print(json.dumps({"at": k, "output": i}), flush=True)
            if (why := judge(out)) is not None:
                print(json.dumps({"mutant": k, "output": i, "invalid": why}), flush=True)
        if verdict != "accepted":
            print(json.dumps({"at": k}), flush=True)
            if judge(message) is None:
                print(json.dumps({"mutant": k, "refused": verdict}), flush=True)
    print(json.dumps({"end": True}), flush=True)


def findings(path):
    """All findings. Some messages end pyarrow's process: a child reads them, and the next one continues after that mutant."""
    first, found = 0, []
    while True:
        run = subprocess.run([sys.executable, __file__, path, str(first)], capture_output=True, text=True)
        lines = [json.loads(x) for x in run.stdout.splitlines()]
        found += [x for x in lines if "mutant" in x]
        if lines and "end" in lines[-1]:
            return found
        at = [x for x in lines if "at" in x]
        if not at:
            raise RuntimeError(run.stderr)
        if "output" in at[-1]:
            found.append({"mutant": at[-1]["at"], "output": at[-1]["output"], "invalid": "it ends the process"})
        first = at[-1]["at"] + 1


if __name__ == "__main__":
    if len(sys.argv) > 2:
        child(sys.argv[1], int(sys.argv[2]))
    else:
        for x in findings(sys.argv[1]):
            print(json.dumps(x))
