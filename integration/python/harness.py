"""Starts the nats-server program and the daemon as separate processes for the tests."""
import asyncio
import contextlib
import os
import pathlib
import random
import socket
import subprocess
import time

import nats
import pyarrow as pa

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTENT_TYPE = "application/vnd.apache.arrow.stream"
AMPLE = 180  # seconds for what must happen: only a failing test waits so long, however busy the machine is


def build(directory, name, package):
    """The program from the directory EMBEDD_BIN, else built from this repository."""
    if os.environ.get("EMBEDD_BIN"):
        return os.path.join(os.environ["EMBEDD_BIN"], name)
    path = directory / name
    subprocess.run(["go", "build", "-o", path, package], cwd=ROOT, check=True)
    return str(path)


def until(holds, what):
    """Waits until a condition holds."""
    end = time.monotonic() + AMPLE
    while not holds():
        assert time.monotonic() < end, what()
        time.sleep(0.1)


def free_port():
    """A port and what reserves it, as FreePort of internal/link does, for all tests that run."""
    while True:
        port, held = random.randrange(20000, 32000), socket.socket(type=socket.SOCK_DGRAM)
        with contextlib.suppress(OSError), socket.socket() as s:
            held.bind(("127.0.0.1", port))
            s.bind(("127.0.0.1", port))
            return port, held
        held.close()


class Server:
    """A nats-server process on a free port, with its own store."""

    def __init__(self, program, directory, settings=""):
        port, self.held = free_port()
        self.url = f"nats://127.0.0.1:{port}"
        conf = directory / "nats.conf"
        conf.write_text(f'listen: 127.0.0.1:{port}\njetstream {{store_dir: "{directory}/store"}}\nlog_file: "{directory}/nats.log"\n{settings}\n')
        self.process = subprocess.Popen([program, "-c", conf])

        def listens():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return True

        until(listens, lambda: "the server does not listen")

    def stop(self):
        self.process.terminate()
        self.process.wait(AMPLE)
        self.held.close()


class Daemon:
    """`embedd run` with these pipelines."""

    def __init__(self, program, directory, url, pipelines):
        conf = directory / "embedd.yaml"
        indented = "".join("  " + line + "\n" for line in pipelines.strip().splitlines())
        conf.write_text(f"nats: {{url: '{url}'}}\nhttp: {{listen: '127.0.0.1:0'}}\npipelines:\n{indented}")
        self.log = directory / "embedd.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([program, "run", "-c", conf], stderr=log, cwd=directory)
        until(lambda: self.process.poll() is not None or "msg=serving" in self.log.read_text(), self.log.read_text)
        assert self.process.poll() is None, f"the daemon does not serve:\n{self.log.read_text()}"

    def stop(self):
        self.process.terminate()
        code = self.process.wait(AMPLE)
        assert code == 0, f"the daemon ended with {code}:\n{self.log.read_text()}"


class Client:
    """nats-py with the few calls that the tests make."""

    def __init__(self, url):
        self.url = url

    async def __aenter__(self):
        self.nc = await nats.connect(self.url)
        self.js = self.nc.jetstream(timeout=AMPLE)
        return self

    async def __aexit__(self, *_):
        await self.nc.close()

    async def streams(self):
        for name in ("features", "reduced", "dead"):
            await self.js.add_stream(name=name.upper(), subjects=[name + ".>"])

    async def publish(self, subject, *batches):
        ack = await self.js.publish(subject, to_bytes(*batches), headers={"Content-Type": CONTENT_TYPE, "X-Client": "python"})
        return ack.seq

    async def read(self, stream, n, seconds=AMPLE):
        """The first n messages of a stream, when they are there."""
        end = time.monotonic() + seconds
        while True:
            have = (await self.js.stream_info(stream)).state.messages
            if have >= n:
                break
            if time.monotonic() > end:
                raise TimeoutError(f"{stream} holds {have} of {n} messages")
            await asyncio.sleep(0.1)
        out = []
        for seq in range(1, n + 1):
            out.append(await self.js.get_msg(stream, seq))
        return out


def to_bytes(*batches):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as w:
        for b in batches:
            w.write_batch(b)
    return sink.getvalue().to_pybytes()


def to_table(data):
    table = pa.ipc.open_stream(data).read_all()
    table.validate(full=True)
    return table
