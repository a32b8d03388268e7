"""Rows of features as a matrix, from arrays and data frames."""
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def matrix(x: Any, features: Sequence[str]) -> Floats:
    """The n x m matrix of x. Arrays have the features in their order. Frames of pandas, polars and pyarrow, and mappings
    of arrays, are searched by name, in any order; the features `pixels[0]`, `pixels[1]` ... may also be one column
    `pixels` of lists."""
    names = _column_names(x)
    if names is None or names.isdisjoint(features) and names.isdisjoint(_list_of(f) for f in features):
        out = np.asarray(x, dtype=np.float64)
        if out.ndim != 2 or out.shape[1] != len(features):
            raise ValueError(f"rows of shape {out.shape}; the model needs (rows, {len(features)})")
        return out
    lists: dict[str, Floats] = {}
    columns = []
    for name in features:
        if name in names:
            columns.append(_numbers(x[name], name))
            continue
        base = _list_of(name)
        if base not in names:
            raise ValueError(f"no column {name!r}; the model needs {len(features)} features: {', '.join(features[:10])}"
                             + (" ..." if len(features) > 10 else ""))
        if base not in lists:
            lists[base] = _numbers(x[base], base)
        at = int(name[len(base) + 1 : -1])
        if lists[base].ndim != 2 or at >= lists[base].shape[1]:
            raise ValueError(f"column {base!r} has no element {at}; the model needs {name!r}")
        columns.append(lists[base][:, at])
    return np.stack(columns, axis=1)


def _column_names(x: Any) -> set[str] | None:
    """The names of the columns of a frame; None for an array."""
    if isinstance(x, Mapping):
        return {str(name) for name in x}
    names = getattr(x, "column_names", getattr(x, "columns", None))
    return None if names is None else {str(name) for name in names}


def _list_of(feature: str) -> str:
    """The list column that has a feature as its element, or "" if the name is not that of an element."""
    found = re.fullmatch(r"(.*)\[\d+\]", feature, re.DOTALL)
    return found[1] if found else ""


def _numbers(column: Any, name: str) -> Floats:
    """A column of numbers, or of lists of one length, as float64. Nulls are NaN."""
    values: Any = column.to_pylist() if hasattr(column, "to_pylist") else column
    try:
        array = np.asarray(values)
        if array.dtype == object:
            array = np.asarray([np.nan if v is None else v for v in array])
        return array.astype(np.float64)
    except (TypeError, ValueError) as e:
        raise ValueError(f"column {name!r} holds neither numbers nor lists of one length: {e}") from e
