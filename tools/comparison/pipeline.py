"""The peer of `embedd run` in peers.py: Arrow record batches from a stream, times a matrix, to another stream.

    python pipeline.py URL DURABLE MODEL

It does what a pipeline of embedd does: it pulls with the same number of messages in flight, publishes each output
under a message id, waits for the confirmation, and acknowledges the input. It runs on uvloop, reads and writes Arrow
without copies of columns, pulls the next messages while it works, and publishes without waiting for the one before.
"""

import asyncio
import sys

import nats
import numpy as np
import pyarrow as pa
import uvloop
from nats.js.api import AckPolicy, ConsumerConfig

PENDING = 1024  # messages in flight, as of embedd
BATCH = 64  # messages of a pull
MEMORY = 256 << 20  # bytes of messages that wait, as of embedd


def reduced(body, weights, bias):
    """The message with x replaced by its product with the weights."""
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        batch = reader.read_next_batch()
    at = batch.schema.get_field_index("x")
    x = batch.column(at).values.to_numpy().reshape(batch.num_rows, -1)
    y = x @ weights
    y += bias
    names, columns = batch.schema.names, batch.columns
    del names[at], columns[at]
    columns.append(pa.FixedSizeListArray.from_arrays(pa.array(y.reshape(-1)), y.shape[1]))
    out = pa.RecordBatch.from_arrays(columns, names=[*names, "embedding"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, out.schema) as writer:
        writer.write_batch(out)
    return sink.getvalue().to_pybytes()


async def run(url, durable, model):
    arrays = np.load(model)
    weights, bias = arrays["weights"], arrays["bias"]
    nc = await nats.connect(url, pending_size=MEMORY)
    js = nc.jetstream(publish_async_max_pending=2 * PENDING)
    config = ConsumerConfig(
        durable_name=durable, ack_policy=AckPolicy.EXPLICIT, max_ack_pending=PENDING, filter_subject="features.bench"
    )
    await js.add_consumer("features", config)
    subscription = await js.pull_subscribe_bind(durable, "features", pending_bytes_limit=MEMORY)

    def confirmed(message):
        def done(future):
            future.result()
            tasks.add(task := asyncio.ensure_future(message.ack()))
            task.add_done_callback(tasks.discard)

        return done

    async def fetch():
        while True:
            try:
                return await subscription.fetch(BATCH, timeout=5)
            except nats.errors.TimeoutError:
                pass

    tasks, coming = set(), asyncio.ensure_future(fetch())
    while True:
        messages = await coming
        coming = asyncio.ensure_future(fetch())
        for message in messages:
            future = await js.publish_async(
                "reduced.bench",
                reduced(message.data, weights, bias),
                headers={"Nats-Msg-Id": f"{durable}/{message.metadata.sequence.stream}"},
            )
            future.add_done_callback(confirmed(message))


if __name__ == "__main__":
    uvloop.run(run(*sys.argv[1:]))
