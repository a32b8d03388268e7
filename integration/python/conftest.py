import os
import pathlib
import subprocess
import sys

import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the matrices are small, and cores are few
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients" / "python" / "src"))
import fitted  # noqa: E402
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


def runner(program, directory):
    """Runs a verb that must succeed, and returns what it prints."""

    def call(*args):
        done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, cwd=directory, timeout=300)
        assert done.returncode == 0, f"embedd {' '.join(map(str, args))}: {done.returncode}\n{done.stderr}"
        return done.stdout

    return call


@pytest.fixture
def run(program, tmp_path):
    return runner(program, tmp_path)


@pytest.fixture(scope="session")
def fit(program, tmp_path_factory):
    """A model of a data set by these flags, fitted once for all tests."""
    fits = {}

    def call(data, asked):
        key = (data, *asked)
        if key not in fits:
            directory = tmp_path_factory.mktemp("fit")
            fits[key] = fitted.Fitted(runner(program, directory), directory, data, asked)
        return fits[key]

    return call
