"""Runs the whole product in the foreground: migrations, then web, workers and beat as children of one process.

Nothing is restarted behind anybody's back: when one child ends, all end, and the exit status says so. Whoever wants
restarts puts a service manager above (docs/operations.md).
"""

import contextlib
import ctypes
import http.client
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from django.conf import settings

START_TIMEOUT = 60
"""Seconds until the web process must have answered."""
STOP_TIMEOUT = 15
"""Seconds for requests and tasks in hand; after that the processes are killed, and the sweep finds what they left."""
_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}
_PR_SET_PDEATHSIG = 1


class StackFailure(Exception):
    """The stack cannot start, or one of its processes ended by itself; the message says which."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """A child process: the name that messages use for it, its command line, and descriptors it inherits."""

    name: str
    command: Sequence[str]
    pass_fds: Sequence[int] = field(default=())


def die_with_parent(with_signal: int = signal.SIGKILL) -> None:
    """Asks the kernel to send this process a signal when its parent dies, however it dies. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(with_signal), 0, 0, 0)


def run_stack(
    *,
    extra_env: Mapping[str, str] | None = None,
    extra_processes: Iterable[Process] = (),
    on_ready: Callable[[str], None] = lambda address: print(f"Weave is ready at {address}", flush=True),  # noqa: T201
) -> None:
    """Migrates, starts everything and returns when somebody asked it to stop (SIGINT, SIGTERM, SIGHUP).

    `extra_env` goes over the environment of every child. The address and how many processes there are come from the
    settings of this process; with WEAVE_HANDLERS in the environment there is a worker for handlers too.
    `extra_processes` start after the web process has answered. `on_ready` then gets the address, and is the place for
    the one line that tells people; signals wait while it runs.

    Raises StackFailure when a child ends by itself or the web process does not answer in time.
    """
    environment = {**os.environ, **(extra_env or {})}
    listener = _listen()
    # From here on signals are taken by sigtimedwait, one at a time: no handler runs between two statements.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    stack = _Stack(environment, os.getpid())
    try:
        for arguments in (["migrate", "--no-input"], ["collectstatic", "--no-input"]):
            if stack.run_to_its_end(_manage(*arguments, "--verbosity=0")):
                return
        for process in _processes(listener, environment):
            stack.start(process)
        address = _address(listener)
        listener.close()
        if stack.wait(until=lambda: _answers(address), timeout=START_TIMEOUT):
            return
        for process in extra_processes:
            stack.start(process)
        on_ready(address)
        stack.wait()
    finally:
        listener.close()
        stack.stop()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class _Stack:
    """The children that run now."""

    def __init__(self, environment: Mapping[str, str], parent: int) -> None:
        self.environment = environment
        self.parent = parent
        self.children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, process: Process) -> None:
        self.children[process.name] = subprocess.Popen(
            process.command,
            cwd=settings.BASE_DIR,
            env=self.environment,
            pass_fds=tuple(process.pass_fds),
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),  # standard output belongs to the line that says "ready"
            start_new_session=True,  # a Ctrl-C reaches us only, and we pass it on in order
            preexec_fn=self._in_the_child,  # safe: this process has one thread
        )

    def _in_the_child(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        die_with_parent(signal.SIGKILL)
        if os.getppid() != self.parent:  # it died before the kernel was asked
            os._exit(1)

    def run_to_its_end(self, process: Process) -> bool:
        """True when somebody asked to stop meanwhile."""
        self.start(process)
        child = self.children[process.name]
        if self.wait(until=lambda: child.poll() is not None, watched=()):
            return True
        del self.children[process.name]
        if child.returncode:
            raise StackFailure(f"{process.name} failed (exit status {child.returncode}).")
        return False

    def wait(
        self,
        until: Callable[[], bool] = lambda: False,
        timeout: float = float("inf"),
        watched: Iterable[str] | None = None,
    ) -> bool:
        """Waits until `until` holds (False) or somebody asks to stop (True), while all children live."""
        deadline = time.monotonic() + timeout
        while True:
            for name in self.children if watched is None else watched:
                if (status := self.children[name].poll()) is not None:
                    raise StackFailure(f"The {name} process ended (exit status {status}); everything is stopped.")
            if until():
                return False
            if time.monotonic() > deadline:
                raise StackFailure(f"The web process has not answered within {timeout:.0f} seconds.")
            taken = signal.sigtimedwait(_SIGNALS, 0.2)
            if taken and taken.si_signo != signal.SIGCHLD:
                return True

    def stop(self) -> None:
        """Asks all to end, the newest first, and kills what is left after STOP_TIMEOUT or at a second request.

        What comes within a second is the same request by another way: `make` passes on what the terminal sent us too.
        """
        running = [child for child in reversed(self.children.values()) if child.poll() is None]
        for child in running:
            child.terminate()
        asked = time.monotonic()
        while any(child.poll() is None for child in running) and time.monotonic() < asked + STOP_TIMEOUT:
            taken = signal.sigtimedwait(_SIGNALS, 0.2)
            if taken and taken.si_signo != signal.SIGCHLD and time.monotonic() > asked + 1:
                break
        for child in self.children.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)  # the whole group: a child may have left children
            child.wait()


def _manage(*arguments: str) -> Process:
    return Process(name=f"manage.py {arguments[0]}", command=[sys.executable, "manage.py", *arguments])


def _processes(listener: socket.socket, environment: Mapping[str, str]) -> list[Process]:
    python = [sys.executable, "-m"]
    celery = [*python, "celery", "--quiet", "--app", "weave_admin"]
    web = [*python, "gunicorn", "weave_admin.wsgi", f"--bind=fd://{listener.fileno()}", "--no-control-socket"]
    web += ["--worker-class=gthread", f"--workers={settings.WEB_PROCESSES}", f"--threads={settings.WEB_THREADS}"]
    web += ["--log-level=warning", f"--graceful-timeout={STOP_TIMEOUT}"]
    if settings.TLS_CERTIFICATE:
        web += [f"--certfile={settings.TLS_CERTIFICATE}", f"--keyfile={settings.TLS_KEY}"]
    processes = [
        Process(name="web", command=web, pass_fds=[listener.fileno()]),
        Process(name="worker", command=[*celery, *_worker("worker", settings.CELERY_TASK_DEFAULT_QUEUE)]),
    ]
    if environment.get("WEAVE_HANDLERS"):
        queue = settings.CELERY_TASK_ROUTES["recovery.tasks.work"]["queue"]
        processes.append(Process(name="handlers", command=[*celery, *_worker("handlers", queue)]))
    # Last, so that its first message finds the workers' queues.
    return [*processes, Process(name="beat", command=[*celery, "beat"])]


def _worker(name: str, queues: str) -> list[str]:
    concurrency = f"--concurrency={settings.WORKER_PROCESSES}"
    # Workers have nothing to say to each other: the database is where they meet.
    return [
        "worker",
        f"--hostname={name}@%h",
        f"--queues={queues}",
        concurrency,
        "--without-gossip",
        "--without-mingle",
    ]


def _listen() -> socket.socket:
    """The web process inherits this socket: a port that is taken shows here, before anything has started."""
    host, port = settings.HOST, settings.PORT
    if not settings.TLS and host not in ("127.0.0.1", "::1", "localhost"):
        raise StackFailure("HOST: without TLS only a loopback address is served.")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise StackFailure(f"{host}:{port} cannot be served: {error.strerror}.") from None


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"{'https' if settings.TLS_CERTIFICATE else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/"


def _answers(address: str) -> bool:
    """True when the web process answers a request. Raises StackFailure when the answer is a failure of its own."""
    scheme, _, place = address.rstrip("/").partition("://")
    connection = http.client.HTTPConnection(place, timeout=5)
    if scheme == "https":
        unverified = ssl.create_default_context()  # the certificate names the public host, not this address
        unverified.check_hostname = False
        unverified.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(place, timeout=5, context=unverified)
    host = settings.ALLOWED_HOSTS[0].lstrip(".") if settings.ALLOWED_HOSTS else "localhost"
    try:
        connection.request("GET", "/", headers={"Host": host.replace("*", "localhost")})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    if status >= 500:
        raise StackFailure(f"The web process fails (HTTP {status}); its log says why.")
    return True
