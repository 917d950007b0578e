"""A MariaDB server for one test run: data and socket in a temporary folder, no TCP, gone afterwards.

It reads no configuration of the machine and touches no server that may run there.
"""

import getpass
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recovery.supervisor import die_with_parent

START_TIMEOUT = 60
"""Seconds until the server must take connections."""


class NoMariaDB(Exception):
    """There is no server to test on; the message says what to do."""


@contextmanager
def private_mariadb() -> Iterator[str]:
    """The URL of the server, for TEST_DATABASE_URL. Raises NoMariaDB when it cannot be started."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    server, installer = (shutil.which(name, path=path) for name in ("mariadbd", "mariadb-install-db"))
    if not server or not installer:
        raise NoMariaDB("There is no MariaDB: install mariadb-server-core, or name a server in TEST_DATABASE_URL.")
    with tempfile.TemporaryDirectory(prefix="weave-mariadb-") as folder:
        place = Path(folder)
        ours = ["--no-defaults", f"--datadir={place / 'data'}"]
        if os.geteuid() == 0:
            ours.append(f"--user={getpass.getuser()}")  # as root it starts only when told who it is
        # Root without a password: the socket lies in a folder that only this account can enter.
        install = [installer, *ours, "--auth-root-authentication-method=normal", "--skip-test-db"]
        made = subprocess.run(install, capture_output=True, text=True)
        if made.returncode:
            raise NoMariaDB(f"mariadb-install-db failed:\n{made.stdout}{made.stderr}")
        with _running([server, *ours], place):
            yield f"mysql://root@localhost/weave?unix_socket={place / 'socket'}"


@contextmanager
def _running(command: list[str], place: Path) -> Iterator[None]:
    options = [f"--socket={place / 'socket'}", f"--pid-file={place / 'pid'}", "--skip-networking", "--skip-log-bin"]
    # A test's data need not survive a power failure, and 64 callers with a connection each need room.
    options += ["--innodb-flush-log-at-trx-commit=0", "--skip-innodb-doublewrite", "--max-connections=300"]
    with (place / "log").open("w") as log:
        server = subprocess.Popen(
            [*command, *options],
            stdout=log,
            stderr=log,
            start_new_session=True,  # a Ctrl-C is for the tests first, which still need the server to end in order
            preexec_fn=lambda: die_with_parent(signal.SIGTERM),
        )
    try:
        deadline = time.monotonic() + START_TIMEOUT
        while not (place / "socket").exists():
            if server.poll() is not None or time.monotonic() > deadline:
                raise NoMariaDB(f"MariaDB did not start:\n{(place / 'log').read_text()[-4000:]}")
            time.sleep(0.05)
        yield
    finally:
        server.terminate()
        server.wait()
