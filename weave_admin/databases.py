"""From a database URL to Django's connection settings.

What is set here decides correctness, not taste: the isolation level, the time zone and when a write lock is taken.
"""

from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

SQLITE = "django.db.backends.sqlite3"
MYSQL = "django.db.backends.mysql"


def database(url: str) -> dict[str, Any]:
    """An entry of DATABASES for `sqlite:///file` or `mysql://user:password@host/name[?unix_socket=path]`.

    Raises ImproperlyConfigured for any other database.
    """
    config: dict[str, Any] = environ.Env.db_url_config(url)
    options = config.setdefault("OPTIONS", {})
    if config.get("ENGINE") == SQLITE:
        # IMMEDIATE takes the write lock at BEGIN: a transaction that reads first and writes later would otherwise
        # fail at once with "database is locked" instead of waiting its turn.
        options |= {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            # FULL: with NORMAL, a power failure could take back a commit whose receipt was already shown.
            # Recursive triggers: or INSERT OR REPLACE would remove an audit past the trigger that refuses DELETE.
            "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA recursive_triggers = ON",
        }
    elif config.get("ENGINE") == MYSQL:
        options |= {
            "charset": "utf8mb4",
            # Under REPEATABLE READ a plain read before the lock freezes the snapshot, and the second caller of an
            # operation would miss the receipt of the first.
            "isolation_level": "read committed",
            # A lock is held for milliseconds. Who waits 50 s for it, the server's default, and that on each try, is
            # told BUSY after minutes.
            "init_command": "SET time_zone = '+00:00', sql_mode = 'TRADITIONAL', innodb_lock_wait_timeout = 10",
        }
        config["TEST"] = {"CHARSET": "utf8mb4"}
    else:
        raise ImproperlyConfigured("The database must be sqlite:///… or mysql://… (MariaDB 10.6 or later, MySQL 8).")
    return config | {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}
