"""Faults for tests: a call that is killed, refused or cut off at any statement, and everything that is stored."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from django.apps import apps
from django.db import OperationalError, connection

Act = Callable[[], object]


def facts() -> dict[str, list[dict[str, Any]]]:
    """Every row of every entity, by table."""
    models = apps.get_app_config("recovery").get_models()
    return {model.__name__: list(model._default_manager.order_by("pk").values()) for model in models}


def in_child(act: Act) -> int:
    """Runs `act` in a forked process with a connection of its own; answers the signal that ended it, 0 for none."""
    connection.close()  # or the child would share the parent's socket
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(0)
    _pid, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_statement(number: int, act: Act, fault: Act, *, only_writes: bool = False) -> None:
    """Runs `act`, and `fault` once, before its n-th statement (or write)."""
    statements = count(1)

    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if (not only_writes or sql.startswith(("INSERT", "UPDATE"))) and next(statements) == number:
            fault()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(wrapper):
        act()


@contextmanager
def answers_lost() -> Iterator[list[bool]]:
    """The first commit inside the block succeeds, but its caller sees a lost connection. Not empty once that was so."""
    commit = connection._commit
    lost: list[bool] = []

    def commit_and_lose() -> None:
        commit()
        if not lost:
            lost.append(True)
            raise OperationalError(2013, "Lost connection to server during query")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_commit", commit_and_lose)
        yield lost
