"""`make test`: the suite on SQLite, then on MariaDB, one exit status for both.

MariaDB is the server that TEST_DATABASE_URL names, else one that is started for the run. It is never left out.
Arguments go to pytest; without any the whole suite runs, and then every numbered rule must have a test.
"""

import os
import signal
import subprocess
import sys
from contextlib import nullcontext

from tests.support.private_mariadb import NoMariaDB, private_mariadb

PROCESSES = os.environ.get("TEST_PROCESSES", "2")


def run(database: str, url: str, arguments: list[str]) -> tuple[int, str]:
    """Runs pytest, passing its output on: its exit status, and the line that sums it up."""
    print(f"\n--- {database}: pytest -n {PROCESSES} {' '.join(arguments)}", flush=True)
    environment = {name: value for name, value in os.environ.items() if name != "TEST_DATABASE_URL"}
    if url:
        environment["TEST_DATABASE_URL"] = url
    command = [sys.executable, "-m", "pytest", "-n", PROCESSES, *(arguments or ["--require-rules"])]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as tests:
        assert tests.stdout is not None
        output = b""
        try:
            while part := os.read(tests.stdout.fileno(), 65536):
                output = (output + part)[-4096:]
                sys.stdout.buffer.write(part)
                sys.stdout.flush()
        except BaseException:
            tests.send_signal(signal.SIGINT)  # it takes its test databases away
            tests.communicate()
            raise
    lines = output.decode(errors="replace").strip().splitlines()
    return tests.returncode, lines[-1] if lines else "no output"


def main(arguments: list[str]) -> int:
    """The first exit status that is not 0, or 0."""
    # A request to stop unwinds like Ctrl-C, so that the server is stopped and its folder removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    given = os.environ.get("TEST_DATABASE_URL", "")
    if given and not given.startswith("mysql://"):
        print("TEST_DATABASE_URL must name a MariaDB server: mysql://user:password@host/name", file=sys.stderr)
        return 2
    results = {"SQLite": run("SQLite", "", arguments)}
    with nullcontext(given) if given else private_mariadb() as url:
        results["MariaDB"] = run("MariaDB", url, arguments)
    print("\n--- both")
    for database, (_, summary) in results.items():
        print(f"{database}:\n{summary}")
    return next((status for status, _ in results.values() if status), 0)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except NoMariaDB as missing:
        sys.exit(f"MariaDB is part of the suite. {missing}")
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
