"""A SECRET_KEY that nobody has to invent."""

import contextlib
import os
import secrets
import tempfile
from pathlib import Path


def kept_secret_key(path: Path) -> str:
    """The key in the file `path`, which is made once, readable by its owner only.

    Processes that start together agree on one key: each writes a file of its own, and only one of them can take the
    name, because a hard link is refused where the name exists.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mkstemp makes it 0600
        try:
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_urlsafe(64))
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        finally:
            os.unlink(draft)
    return path.read_text().strip()
