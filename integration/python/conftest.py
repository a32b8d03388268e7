import os
import pathlib
import subprocess
import sys

import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the matrices are small, and cores are few
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients" / "python" / "src"))
import harness  # noqa: E402


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    return harness.build(tmp_path_factory.mktemp("bin"), "embedd", "./cmd/embedd")


@pytest.fixture(scope="session")
def server_program(tmp_path_factory):
    return harness.build(tmp_path_factory.mktemp("bin"), "nats-server", "github.com/nats-io/nats-server/v2")


@pytest.fixture
def server(server_program, tmp_path, request):
    settings = getattr(request, "param", "")
    s = harness.Server(server_program, tmp_path, settings)
    yield s
    s.stop()


@pytest.fixture
def daemon(program, server, tmp_path):
    """Starts a daemon with the pipelines that it is given; holds it to end with 0."""
    started = []

    def start(pipelines):
        started.append(harness.Daemon(program, tmp_path, server.url, pipelines))
        return started[-1]

    yield start
    for d in started:
        d.stop()


@pytest.fixture
def run(program, tmp_path):
    """Runs a verb that must succeed, and returns what it prints."""

    def call(*args):
        done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, cwd=tmp_path, timeout=300)
        assert done.returncode == 0, f"embedd {' '.join(map(str, args))}: {done.returncode}\n{done.stderr}"
        return done.stdout

    return call
