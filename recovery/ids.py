"""Primary keys, made by the application before the insert.

An InboxEvent names a ResultEvent that is written after it, so the database cannot hand out the keys.
"""

import secrets
import time


def new_id() -> str:
    """32 lower-case hexadecimal digits: 48 bits of milliseconds, then 80 random bits.

    Nearly ascending, so that new rows land at the end of the clustered index.
    """
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"
