"""Models as ONNX, by onnxruntime: each method against the definition in float64 of the package for Python."""
import json
import os
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest

import fitted

REFUSED = {"lenews", "lenewks"}
CASES = [case for case in fitted.MODELS if case[0] not in REFUSED]


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def project(s, rows):
    (y,) = s.run(["embedding"], {"features": rows})
    return y


IS_LONG = "EMBEDD_LONG" in os.environ  # every method on each scale and data set
SCALES = ["minmax", "none", "unit", "rank"]  # and standard, the default
NONLINEAR = {"sle-ovr", "le", "lle", "isomap", "ksmpa", "tsimr", "mp-tsimr"}  # which take no ranks
if IS_LONG:
    CASES += [(f"{m}-{scale}", ["--method", m, "--scale", scale]) for m in fitted.METHODS for scale in SCALES
              if m not in REFUSED and (scale != "rank" or m not in NONLINEAR)]


def at_a_tie(model, rows):
    """Rows whose neighbours depend on the last bits of distances, since two are at the same distance."""
    if "neighbors" not in model.arrays:
        return np.zeros(len(rows), bool)
    z, k = model._scaled(rows), int(model.arrays["neighbors"][0])
    near = np.sort(((z[:, None] - model.arrays["rows"]) ** 2).sum(2), axis=1)
    return near[:, k] - near[:, k - 1] < 1e-12 * near[:, k]


@pytest.mark.parametrize("name, asked", CASES, ids=[name for name, _ in CASES])
def test_export(fit, run, tmp_path, name, asked):
    for data in ["wine", "iris", "wdbc"] if IS_LONG else fitted.data_sets(name):
        f = fit(data, asked)
        run("model", "export", f.path, "-o", tmp_path / "m.onnx")
        graph = onnx.load(tmp_path / "m.onnx")
        onnx.checker.check_model(graph, full_check=True)
        assert {node.domain for node in graph.graph.node} == {""} and [o.domain for o in graph.opset_import] == [""]
        known = {p.key: p.value for p in graph.metadata_props}
        assert known["digest"] == f.model.digest and known["method"] == f.model.method
        assert json.loads(known["features"]) == list(f.model.features)
        assert json.loads(known["classes"]) == list(f.model.classes)
        s = session(tmp_path / "m.onnx")
        for n in (0, 1, 5000) if data == "wine" else (1, len(f.rows)):
            got = project(s, np.resize(f.rows, (n, f.rows.shape[1])))
            assert got.dtype == np.float32 and got.shape == (n, f.model.dim)
            if n > 0:
                want = np.resize(f.outputs, (n, f.model.dim))
                clear = ~np.resize(at_a_tie(f.model, f.rows), n) if IS_LONG else np.ones(n, bool)
                off = fitted.share_off(got[clear], want[clear], 1e-6) if clear.any() else 0
                assert off <= 1e-3, f"{name}, {data}: {f.model.map}, {n} rows"


@pytest.mark.parametrize("method", sorted(REFUSED))
def test_refused(fit, program, tmp_path, method):
    f = fit("wine", ["--method", method])
    done = subprocess.run([program, "model", "export", f.path, "-o", tmp_path / "m.onnx"], capture_output=True, text=True)
    assert done.returncode == 1 and "quadratic problem" in done.stderr, done.stderr
    assert not (tmp_path / "m.onnx").exists()
