"""Models of embedd in Python: read a file, transform rows.

`Model` needs numpy only. `embedd.sklearn` has an estimator, `embedd.nats` sends and receives data frames; both import
more packages, which the extras `embedd[sklearn]` and `embedd[nats]` install.
"""
from embedd.model import Model, ModelError

__all__ = ["Model", "ModelError"]
