"""A running pipeline asked from another language, by the conventions of NATS services."""
import asyncio
import json

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_digits

import harness


def test_asked_from_python(daemon, server):
    """Found by its service; transforms for who asks, to the bits of the stream; errors come as those of services do."""
    x, y = load_digits(return_X_y=True)
    x = x.astype(np.float32)

    def batch(rows, labelled=True):
        pixels = pa.FixedSizeListArray.from_arrays(pa.array(x[rows].reshape(-1)), x.shape[1])
        label = pa.array(y[rows] if labelled else [None] * len(rows), pa.int8())
        return pa.record_batch({"id": pa.array(rows, pa.int64()), "label": label, "pixels": pixels})

    async def ask(c, endpoint, data=b""):
        return await c.nc.request("embedd.digits." + endpoint, data, timeout=harness.AMPLE)

    async def go():
        async with harness.Client(server.url) as c:
            await c.streams()
            daemon("""
digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {method: lda, dim: 9}
  training: {window: {rows: 2000}, every: {rows: 500, period: none}}""")
            batches = np.array_split(np.arange(len(x)), 20)
            for rows in batches:
                await c.publish("features.digits", batch(rows))
            await c.read("REDUCED", len(batches))
            info = json.loads((await c.nc.request("$SRV.INFO.embedd_digits", b"", timeout=harness.AMPLE)).data)
            assert info["type"] == "io.nats.micro.v1.info_response" and info["metadata"] == {"pipeline": "digits"}
            assert {e["subject"] for e in info["endpoints"]} >= {"embedd.digits." + e for e in ("status", "retrain", "transform", "model.ls", "model.pin")}
            for _ in range(10 * harness.AMPLE):
                status = json.loads((await ask(c, "status")).data)
                if status["learning"]["rows"] == len(x) and not status["learning"]["fitting"]:
                    break
                await asyncio.sleep(0.1)
            assert status["ready"] and status["model"]["dim"] == 9 and status["learning"]["classes"] == 10

            await ask(c, "model.pin")
            listed = json.loads((await ask(c, "model.ls")).data)["models"]
            live = [m for m in listed if m["state"] == "live"]
            assert len(live) == 1 and live[0]["pinned"]
            rows = np.arange(40, 60)
            asked = await ask(c, "transform", harness.to_bytes(batch(rows, labelled=False)))
            assert asked.headers["Embedd-Model"] == live[0]["version"] and asked.headers["Content-Type"] == harness.CONTENT_TYPE
            await c.publish("features.digits", batch(rows, labelled=False))
            streamed = (await c.read("REDUCED", len(batches) + 1))[-1]
            assert harness.to_table(asked.data).equals(harness.to_table(streamed.data))

            refused = await ask(c, "transform", b"no Arrow")
            assert refused.headers["Nats-Service-Error-Code"] == "not_arrow" == refused.headers["Embedd-Code"]
            assert refused.headers["Nats-Service-Error"]
            for _ in range(10 * harness.AMPLE):
                refused = await ask(c, "retrain")
                if refused.headers:
                    break
                await asyncio.sleep(0.1)
            assert refused.headers["Nats-Service-Error-Code"] == "pinned"

    asyncio.run(go())
