"""GF/s of numpy's x @ w in float32 on one thread: rows from memory, and rows in a cache."""
import sys
import time

import numpy as np

n, m, d = map(int, sys.argv[1:])
ring = np.ones((512 << 20) // (4 * n * m) * n * m, np.float32).reshape(-1, n, m)
w = np.ones((m, d), np.float32)
y = np.empty((n, d), np.float32)
few = max((256 << 10) // (4 * m), 24)
cold, warm = [], []
for i in range(200):
    x = ring[i % len(ring)]
    began = time.perf_counter()
    np.matmul(x, w, out=y)
    cold.append(time.perf_counter() - began)
    x = ring[0, :few]
    np.matmul(x, w, out=y[:few])
    began = time.perf_counter()
    np.matmul(x, w, out=y[:few])
    warm.append((time.perf_counter() - began) * n / few)
flop = 2e-9 * n * m * d
print(flop / sorted(cold)[10], flop / sorted(warm)[10])
