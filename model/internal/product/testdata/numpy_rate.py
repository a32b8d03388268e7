"""GF/s of numpy's x @ w in float32 on one thread, rows from memory and rows in a cache, and GB/s of its dot product."""
import sys
import time

import numpy as np

n, m, d = map(int, sys.argv[1:])
ring = np.ones((512 << 20) // (4 * n * m) * n * m, np.float32).reshape(-1, n, m)
w = np.ones((m, d), np.float32)
y = np.empty((n, d), np.float32)
few = max((256 << 10) // (4 * m), 24)
cold, warm, read = [], [], []
for i in range(200):
    x = ring[2 * i % len(ring)].ravel()
    began = time.perf_counter()
    np.dot(x, x)
    read.append(time.perf_counter() - began)
    x = ring[(2 * i + 1) % len(ring)]
    began = time.perf_counter()
    np.matmul(x, w, out=y)
    cold.append(time.perf_counter() - began)
    x = ring[0, :few]
    np.matmul(x, w, out=y[:few])
    began = time.perf_counter()
    np.matmul(x, w, out=y[:few])
    warm.append((time.perf_counter() - began) * n / few)
flop = 2e-9 * n * m * d
print(flop / sorted(cold)[10], flop / sorted(warm)[10], 4e-9 * n * m / sorted(read)[10])
