"""Data frames as messages: rows to the input of a pipeline, and its outputs as frames.

`publish` and `subscribe` are for scripts and notebooks: they block, and connect by themselves. A program with its own
nats-py connection uses `encode` and `decode` with it.
"""
from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import nats
import nats.aio.client
import nats.errors
import nats.js.api
import nats.js.errors
import numpy as np
import pyarrow as pa

CONTENT_TYPE = "application/vnd.apache.arrow.stream"
Form = Literal["arrow", "pandas", "polars", "numpy"]
T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Message:
    """One message of a subject, with its rows as a frame."""

    frame: Any
    headers: Mapping[str, str]  #: Embedd-Model, Embedd-Epoch, Embedd-Source ... (docs/wire.md)
    subject: str
    sequence: int  #: in its stream


def publish(frame: Any, subject: str, *, server: str = "nats://127.0.0.1:4222", rows: int = 256,
            headers: Mapping[str, str] | None = None, **options: Any) -> list[int]:
    """Publishes the rows of a frame, some in each message, and returns the sequences of the messages in their stream.

    The frame is of pandas, polars or pyarrow, or a mapping of arrays, as {"pixels": x, "label": y}: a matrix becomes one
    column of lists, the fastest form for features. Every message is confirmed by the stream. options are those of
    nats.connect, such as user_credentials and tls."""
    messages = list(encode(frame, rows))

    async def send() -> list[int]:
        connection = await _connect(server, options)
        try:
            js = connection.jetstream()
            head = {"Content-Type": CONTENT_TYPE, **(headers or {})}
            return [(await js.publish(subject, data, headers=head)).seq for data in messages]
        except nats.js.errors.NoStreamResponseError as error:
            raise LookupError(f"no stream stores {subject}, so nothing was published: publish to input.subject of the "
                              "pipeline, and create its stream with `embedd setup --apply`") from error
        except nats.errors.MaxPayloadError as error:
            raise ValueError(f"a message of up to {rows} rows has more than the {connection.max_payload} bytes that the server "
                             "accepts: give fewer rows=") from error
        finally:
            await connection.close()

    with _Loop() as loop:
        return loop.run(send())


def subscribe(subject: str, *, server: str = "nats://127.0.0.1:4222", to: Form = "pandas", durable: str | None = None,
              new: bool = False, limit: int | None = None, timeout: float | None = None, **options: Any) -> Iterator[Message]:
    """Yields the messages of a subject in the order of its stream, all that are stored and then those that come.

    The iteration ends after limit messages, or when none has come for timeout seconds; without both it goes on. new
    begins with the next message to come. With durable, the stream keeps the place of this name, and a later subscription
    continues there: a message is acknowledged when the loop asks for the next one, and delivered again if the loop is
    left before, by break or by an error."""
    with _Loop() as loop:
        connection = loop.run(_connect(server, options))
        try:
            try:
                pulled = loop.run(_pull(connection, subject, durable, new))
            except nats.js.errors.NotFoundError as error:
                raise LookupError(f"no stream stores {subject}: subscribe to output.subject of the pipeline") from error
            received = delivered = 0
            last = None if new else 0
            while limit is None or received < limit:
                try:
                    (msg,) = loop.run(pulled.fetch(1, timeout=60 if timeout is None else timeout))
                except nats.errors.TimeoutError:
                    msg = None
                if durable is None and last is not None:
                    sent = loop.run(_sent(pulled)) if msg is None else msg.metadata.sequence.consumer - 1
                    if sent is not None and sent != delivered:
                        # The connection was cut while messages were on their way, which the server does not send again.
                        loop.run(pulled.unsubscribe())
                        pulled, delivered = loop.run(_pull(connection, subject, None, new, last)), 0
                        continue
                if msg is None:
                    if timeout is None:
                        continue
                    return
                sequence = msg.metadata.sequence
                received, delivered, last = received + 1, sequence.consumer, sequence.stream
                try:
                    yield Message(decode(msg.data, to), msg.headers or {}, msg.subject, last)
                except BaseException:
                    if durable is not None:
                        loop.run(msg.nak())
                    raise
                if durable is not None:
                    loop.run(msg.ack_sync())
        finally:
            loop.run(connection.close())


def encode(frame: Any, rows: int = 256) -> Iterator[bytes]:
    """The messages of a frame, with at most a number of rows each."""
    if rows < 1:
        raise ValueError(f"{rows} rows in each message; give at least 1")
    table = _table(frame)
    for at in range(0, table.num_rows, rows):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            # One batch: chunks may have dictionaries of their own, and a message has each dictionary once.
            writer.write_table(table.slice(at, rows).combine_chunks())
        yield sink.getvalue().to_pybytes()


def decode(data: bytes, to: Form = "pandas") -> Any:
    """The rows of a message. As numpy it is a dict of arrays, where lists of one length are a matrix."""
    try:
        table = pa.ipc.open_stream(data).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        if data[:4] == b"\xff\xff\xff\xff":
            raise
        raise ValueError(f"the message is no Arrow stream, it begins with {bytes(data[:20])!r}; leave output.format of the "
                         "pipeline at arrow, or read its JSON or CSV with nats-py") from error
    if to == "arrow":
        return table
    if to == "pandas":
        return table.to_pandas()
    if to == "polars":
        import polars

        return polars.from_arrow(table)
    if to == "numpy":
        return {name: _array(table[name].combine_chunks()) for name in table.column_names}
    raise ValueError(f"to={to!r}; give arrow, pandas, polars or numpy")


def _table(frame: Any) -> Any:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if isinstance(frame, Mapping):
        return pa.table({name: _column(values) for name, values in frame.items()})
    if hasattr(frame, "columns") and hasattr(frame, "to_arrow"):  # a series has no columns
        return frame.to_arrow()
    if hasattr(frame, "columns") and hasattr(frame, "iloc"):
        return pa.Table.from_pandas(frame, preserve_index=False)
    raise TypeError(f"a {type(frame).__name__} is no frame of pandas, polars or pyarrow and no mapping of arrays")


def _column(values: Any) -> Any:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    array = np.asarray(values)
    if array.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[1])
    return pa.array(array)


def _array(column: Any) -> np.ndarray:
    if pa.types.is_fixed_size_list(column.type) and column.null_count == 0:
        size = column.type.list_size
        flat = column.flatten().to_numpy(zero_copy_only=False)
        return np.asarray(flat).reshape(len(column), size)
    return np.asarray(column.to_numpy(zero_copy_only=False))


async def _connect(server: str, options: Mapping[str, Any]) -> nats.aio.client.Client:
    connection, where = nats.aio.client.Client(), server.rpartition("@")[2]  # without a password
    cause: list[Exception] = []

    async def report(error: Exception) -> None:
        cause[:] = [error]
        if connection.is_connected:
            log.error("%s: %s", where, error)

    try:
        await connection.connect(server, **{"allow_reconnect": True, "connect_timeout": 5, "max_reconnect_attempts": 3,
                                            "error_cb": report, **options})
    except nats.errors.NoServersError as error:
        raise ConnectionError(f"no connection to {where}: {(cause or [error])[0]}; start a server there (`embedd run` starts "
                              "one), or give another server= or login") from error
    return connection


async def _pull(
    connection: nats.aio.client.Client, subject: str, durable: str | None, new: bool, after: int | None = None
) -> Any:
    """Create a consumer, of the messages behind the stream sequence `after` if that is given."""
    policy = nats.js.api.DeliverPolicy.NEW if new else nats.js.api.DeliverPolicy.ALL
    config = nats.js.api.ConsumerConfig(deliver_policy=policy)
    if after is not None:
        config.deliver_policy, config.opt_start_seq = nats.js.api.DeliverPolicy.BY_START_SEQUENCE, after + 1
    if durable is None:
        config.ack_policy = nats.js.api.AckPolicy.NONE
        config.inactive_threshold = 600.0
    return await connection.jetstream().pull_subscribe(subject, durable=durable, config=config)


async def _sent(pulled: Any) -> int | None:
    """The number of messages that the server has sent to a consumer; None if it does not say so."""
    try:
        info = await pulled.consumer_info()
    except nats.errors.Error:  # for example, the user may not ask
        return None
    return int(info.delivered.consumer_seq) if info.delivered else None


class _Loop(contextlib.AbstractContextManager["_Loop"]):
    """An event loop in its own thread, so that blocking calls work where a loop runs already, as in a notebook."""

    def __enter__(self) -> _Loop:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="embedd.nats", daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()
