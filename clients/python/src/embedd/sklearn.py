"""A scikit-learn transformer that fits with the program embedd."""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from embedd.model import Model
from embedd.rows import Floats


class Embedd(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Supervised dimension reduction by the methods of embedd, in a Pipeline or a grid search.

    `fit` runs `embedd fit`, so the model is the one that the program fits to the same rows: `model_` has its digest, and
    `model_bytes_` is the model file, ready for `model.file` of a pipeline. `transform` needs numpy only.

    Parameters
    ----------
    method : a name that `embedd methods` lists, or "auto". Without y it must be one without labels, as "pca".
    dim : number of outputs, or "auto". There are at most as many as features.
    scale : "standard", "minmax", "unit", "rank" or "none".
    seed : seed of the fit.
    params : parameters of the method, as {"ridge": 0.1}.
    program : path of the program; by default EMBEDD, or `embedd` in PATH.
    """

    def __init__(self, method: str = "auto", dim: int | str = "auto", scale: str = "standard", seed: int = 1,
                 params: Mapping[str, Any] | None = None, program: str | None = None) -> None:
        self.method = method
        self.dim = dim
        self.scale = scale
        self.seed = seed
        self.params = params
        self.program = program

    def fit(self, X: Any, y: Any = None) -> Embedd:
        if y is None:
            X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        else:
            X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
            check_classification_targets(y)
        names = [str(name) for name in getattr(self, "feature_names_in_", (f"x{j}" for j in range(X.shape[1])))]
        columns = {name: pa.array(X[:, j]) for j, name in enumerate(names)}
        dim = self.dim if isinstance(self.dim, str) else min(self.dim, X.shape[1])
        command = [self._program(), "fit", "--data", "-", "--features", "*", "--method", self.method, "--dim", str(dim),
                   "--scale", self.scale, "--seed", str(self.seed)]
        if y is not None:
            label = "label"
            while label in columns:
                label += "_"
            columns[label] = pa.array([str(v) for v in y])
            command += ["--label", label]
        for name, value in (self.params or {}).items():
            command += ["--set", f"{name}={value}"]
        table = pa.table(columns)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "model.embedd"
            done = subprocess.run([*command, "-o", str(path)], input=sink.getvalue().to_pybytes(), capture_output=True)
            if done.returncode:
                raise ValueError(done.stderr.decode(errors="replace").strip().removeprefix("embedd: "))
            self.model_bytes_ = path.read_bytes()
        self.model_ = Model.from_bytes(self.model_bytes_)
        self._used = [names.index(name) for name in self.model_.features]
        return self

    def transform(self, X: Any) -> Floats:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self.model_.transform(X[:, self._used], nulls="impute")

    @property
    def _n_features_out(self) -> int:
        return self.model_.dim

    def _program(self) -> str:
        program = self.program or os.environ.get("EMBEDD") or shutil.which("embedd")
        if program is None:
            raise FileNotFoundError("no program embedd in PATH: install it, or give its path as program or in EMBEDD")
        return program
