"""The whole example with one command: `python examples/bank_transfer/run.py`.

Serves the product on a database in a folder that is removed afterwards, provisions it, tells the story, and asks the
server to verify itself. Exit status: 0 everything came out as told; 1 something did not; 2 it could not be started.

The Python that runs it needs what the product needs (`make install`), and httpx.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "sdk")]

try:
    import httpx  # noqa: F401
except ModuleNotFoundError:
    sys.exit("The SDK needs httpx: python -m pip install ./sdk, with the Python that runs this.")

from story import Wrong, tell  # noqa: E402
from weave_client.errors import WeaveError  # noqa: E402

TOLD, OTHERWISE, NOT_STARTED = 0, 1, 2


class NotStarted(Exception):
    """The product did not start, or could not be provisioned."""


def environment(folder: str) -> dict[str, str]:
    """For the product's processes: everything is kept in `folder`."""
    ours = ("DATABASE_URL", "BROKER_URL", "TLS", "WEAVE_HANDLERS", "WEAVE_URL", "WEAVE_TOKEN")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    settings = {
        "VAR_DIR": folder,
        "PORT": "0",
        "DJANGO_SETTINGS_MODULE": "weave_admin.settings",
        "LOG_LEVEL": "WARNING",
    }
    return kept | settings | {"WEB_THREADS": "8", "WORKER_PROCESSES": "1"}


def manage(*arguments: str, env: dict[str, str]) -> str:
    """Runs a command of `manage.py`; what it printed. Raises NotStarted where it fails."""
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotStarted(f"manage.py {arguments[0]}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def tokens(printed: str) -> dict[str, str]:
    """User name -> token."""
    return {each["user"]: each["token"] for each in json.loads(printed)["credentials"]}


def serve(folder: str, env: dict[str, str]) -> tuple[subprocess.Popen[str], str]:
    """The product's process and its address, once it is ready. Raises NotStarted."""
    with (Path(folder) / "log").open("w") as log:
        command: list[Any] = [sys.executable, "manage.py", "serve"]
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    address = next((word for word in line.split() if word.startswith("http")), "")
    if not address:
        process.wait()
        raise NotStarted((Path(folder) / "log").read_text()[-2000:])
    return process, address


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="bank-transfer-") as folder:
        env = environment(folder)
        try:
            print("Starting the product on a database of its own ...", flush=True)
            process, address = serve(folder, env)
        except NotStarted as failure:
            print(failure, file=sys.stderr)
            return NOT_STARTED
        try:
            token = tokens(manage("provision", str(HERE / "provision.json"), env=env))
            print(f"It runs at {address}\n", flush=True)
            tell(address, token["operator"], token["bank-worker"], lambda line: print(line, flush=True))
            manage("verify", env=env)
            print("The server's own verification finds nothing wrong. Everything came out as told.")
            return TOLD
        except (Wrong, WeaveError, NotStarted) as failure:
            print(f"\nIt came out otherwise: {failure}", file=sys.stderr)
            print((Path(folder) / "log").read_text()[-2000:], file=sys.stderr)
            return OTHERWISE
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


if __name__ == "__main__":
    sys.exit(main())
