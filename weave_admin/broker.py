"""The broker that needs no server: kombu's file system transport, made safe for several processes.

kombu opens a message file before it writes it, so that a worker which looks at the folder in between takes an empty
message and fails; it hands messages on through the system's temporary folder, where a move between two file systems
is a copy that two workers can both make; and it reads a routing table that another process has just truncated. Here
every file appears and disappears by one rename inside its folder, and the routing tables have a lock.
"""

import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.transport import filesystem
from kombu.utils.json import dumps, loads


class Channel(filesystem.Channel):
    def _put(self, queue: str, payload: Any, **kwargs: Any) -> None:  # type: ignore[override]  # as kombu's own does
        name = f"{time.time_ns()}_{uuid.uuid4()}.{queue}.msg"
        draft = Path(self.data_folder_out, f".{name}")
        draft.write_text(dumps(payload))
        draft.rename(draft.with_name(name))

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        folder = Path(self.data_folder_in)
        for name in sorted(os.listdir(folder)):
            if name.partition(".")[2] != f"{queue}.msg":
                continue
            taken = folder / f".{name}"
            try:
                (folder / name).rename(taken)
            except FileNotFoundError:  # another worker was first
                continue
            payload = taken.read_text()
            taken.unlink()
            return loads(payload)
        raise Empty

    @contextmanager
    def _routing(self) -> Iterator[None]:
        with Path(self.control_folder, ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def get_table(self, exchange: str) -> Any:
        with self._routing():
            return super().get_table(exchange)

    def _queue_bind(self, *args: Any) -> None:
        with self._routing():
            super()._queue_bind(*args)

    def _delete(self, *args: Any, **kwargs: Any) -> None:
        with self._routing():
            super()._delete(*args, **kwargs)


class Transport(filesystem.Transport):
    Channel = Channel
