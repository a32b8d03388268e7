"""What embedd publishes is valid in pyarrow, and what pyarrow accepts embedd accepts, except what docs/wire.md names."""
import re
import subprocess

import harness
import judge

# What embedd refuses and pyarrow accepts (docs/wire.md, "Validity"), by its error.
EXCEPTIONS = [
    r"outside the message's metadata", r"the metadata ends before", r"a field's name is not UTF-8", r"buffer \d+ is -?\d+ bytes from",
    r"a compressed buffer", r"offsets reach \d+ and", r"an offset of -", r"a column of -?\d+ rows", r"a batch of -",
    r"a batch with \d+ (nodes|buffers|data buffer counts)", r"the validity bitmap has", r"bytes follow", r"stops before its first batch",
    r"^(too_\w+|unsupported|dictionary|truncated):",
]


def test_mutants(tmp_path):
    file = tmp_path / "mutants"
    command = ["go", "test", "-vet=off", "./arrowio", "-run", "^TestMutants$", "-args", "-mutants", "4000", "-mutants-out", str(file)]
    done = subprocess.run(command, cwd=harness.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    findings = judge.findings(file)
    assert [f for f in findings if "invalid" in f] == []
    refused = [f for f in findings if "refused" in f]
    assert [f for f in refused if not any(re.search(x, f["refused"]) for x in EXCEPTIONS)] == []
    assert refused, "the mutants have none of the exceptions: is pyarrow asked?"
