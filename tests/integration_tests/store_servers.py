"""A Postgres and a Chroma server for tests, each a child process with a folder of its own, on loopback only."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import chromadb
from chromadb.api.client import AdminClient, Client
from chromadb.config import Settings

PATIENCE = 60
"""Seconds that a server may take to start."""


def postgres_programs() -> Path | None:
    """Where the PyPI package `pgserver`, which has no wheels for every Python, keeps Postgres with pgvector."""
    found = importlib.util.find_spec("pgserver")
    return Path(found.origin).parent / "pginstall" if found and found.origin else None


@contextmanager
def postgres_server() -> Iterator[str]:
    """A Postgres with pgvector, reached through a socket in its folder.

    Yields:
        Its connection string.
    """
    programs = postgres_programs()
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        home.chmod(0o755)
        user = {}
        if (
            os.geteuid() == 0
        ):  # Postgres refuses to run as root, and others cannot look into root's folders
            user = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            package = programs.parent
            libraries = package.with_name(
                "pgserver.libs"
            )  # programs find them by their place beside the package
            if libraries.exists():
                shutil.copytree(libraries, home / libraries.name)
            programs = Path(
                shutil.copytree(programs, home / package.name / programs.name)
            )
        data = home / "data"
        data.mkdir()
        if user:
            shutil.chown(data, user["user"], user["group"])
        make = [
            programs / "bin" / "initdb",
            "-D",
            data,
            "-U",
            "postgres",
            "-N",
            "--auth=trust",
            "--locale=C",
            "-E",
            "UTF8",
        ]
        subprocess.run(make, check=True, capture_output=True, cwd=data, **user)  # noqa: S603 - our own programs
        with (data / "log").open("w") as log:
            run = [
                programs / "bin" / "postgres",
                "-D",
                data,
                "-k",
                data,
                "-h",
                "",
                "-c",
                "fsync=off",
            ]
            server = subprocess.Popen(run, stdout=log, stderr=log, cwd=data, **user)  # noqa: S603 - as above
        try:
            _await(
                lambda: (
                    (data / ".s.PGSQL.5432").exists()
                    and "ready" in (data / "postmaster.pid").read_text()
                )
            )
            yield f"postgresql://postgres@/postgres?host={data}"
        finally:
            server.send_signal(
                signal.SIGQUIT
            )  # its immediate shutdown: nothing is to be kept
            server.wait(PATIENCE)


@contextmanager
def chroma_server(folder: Path) -> Iterator[int]:
    """A Chroma server that keeps its data in a folder.

    Yields:
        Its port on 127.0.0.1.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = "import sys, chromadb_rust_bindings; chromadb_rust_bindings.cli(['chroma', *sys.argv[1:]])"
    place = ["--path", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(  # noqa: S603 - our own programs
        [sys.executable, "-c", code, "run", *place],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            _await(lambda: _listens(port))
            yield port
        finally:
            server.kill()


@contextmanager
def chroma_client(port: int, database: str) -> Iterator[Client]:
    """A client of a Chroma server, in a database that is made if need be."""
    settings = Settings(
        chroma_api_impl="chromadb.api.fastapi.FastAPI",
        chroma_server_host="127.0.0.1",
        chroma_server_http_port=port,
        anonymized_telemetry=False,
    )
    admin = AdminClient(settings)
    if database not in {found["name"] for found in admin.list_databases()}:
        admin.create_database(database)
    client = chromadb.HttpClient(
        host="127.0.0.1", port=port, database=database, settings=settings
    )
    try:
        yield client
    finally:
        # chromadb closes none of the HTTP sessions that it opens, not even in Client.close().
        for api in (admin._server, client._server, client._admin_client._server):
            api._session.close()
        client.close()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _await(ready) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready():
        if time.monotonic() > deadline:
            msg = "the server did not start"
            raise TimeoutError(msg)
        time.sleep(0.05)
