"""A multipart body as it arrives: every file hashed and written at once, nothing kept that did not arrive whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.core.files.uploadhandler import FileUploadHandler, SkipFile
from django.http import HttpRequest, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.utils.translation import gettext as _

from recovery.errors import ValidationFailed
from recovery.evidence import kinds, names
from recovery.evidence.store import Incoming


class Arrived:
    """A whole file. `name` is for display; `media_type` was found in its content."""

    def __init__(self, name: str, incoming: Incoming) -> None:
        self.name = names.displayed(name)
        self.incoming = incoming
        self.media_type = kinds.media_type(incoming.path)

    @property
    def problem(self) -> str:
        """Why it is not taken; "" where it is."""
        if not self.incoming.size:
            return _("%(name)s: the file is empty.") % {"name": self.name}
        if not kinds.is_taken(self.media_type):
            return _("%(name)s: a file of type %(kind)s is not taken as evidence.") % {
                "name": self.name,
                "kind": self.media_type,
            }
        return ""


class Parcel(FileUploadHandler):
    """The files of one request. `problems`: why some were not taken; then none is kept."""

    def __init__(self, request: HttpRequest | None = None) -> None:
        super().__init__(request)
        self.files: list[Arrived] = []
        self.problems: list[str] = []
        self._incoming: Incoming | None = None
        self._announced = self._read = 0

    def handle_raw_input(self, input_data: Any, META: Any, content_length: int, *boundary: Any) -> None:  # noqa: N803
        """Counts what is read: the parser itself takes a body that was cut between two parts for a whole one."""
        self._announced, read = content_length, input_data.read

        def counted(*size: int) -> bytes:
            chunk: bytes = read(*size)
            self._read += len(chunk)
            return chunk

        input_data.read = counted

    def new_file(self, field_name: str, file_name: str, *about: Any, **more: Any) -> None:
        super().new_file(field_name, file_name, *about, **more)
        self._discard()
        if len(self.files) >= settings.EVIDENCE_MAX_FILES:
            self.refuse(_("At most %(count)d files at once.") % {"count": settings.EVIDENCE_MAX_FILES})
            raise SkipFile
        self._incoming = Incoming()

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        assert self._incoming is not None
        if self._incoming.size + len(raw_data) > settings.EVIDENCE_MAX_FILE_BYTES:
            self._discard()
            self.refuse(
                _("%(name)s: larger than %(limit)d bytes.")
                % {"name": names.displayed(str(self.file_name)), "limit": settings.EVIDENCE_MAX_FILE_BYTES}
            )
            raise SkipFile
        self._incoming.write(raw_data)

    def file_complete(self, file_size: int) -> None:
        assert self._incoming is not None
        self._incoming.finish()
        arrived, self._incoming = Arrived(str(self.file_name), self._incoming), None
        self.files.append(arrived)
        if arrived.problem:
            self.refuse(arrived.problem)

    def refuse(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    @property
    def is_cut(self) -> bool:
        """Whether less arrived than was announced."""
        return self._read < self._announced

    def close(self) -> None:
        """Forgets what was not kept."""
        self._discard()
        for arrived in self.files:
            arrived.incoming.discard()

    def _discard(self) -> None:
        if self._incoming is not None:
            self._incoming.discard()
            self._incoming = None


@contextmanager
def arriving(request: HttpRequest) -> Iterator[Parcel]:
    """Reads the body; what the block does not keep is gone after it.

    Raises ValidationFailed for a body that is too large (before any of it is read), malformed, or cut off.
    """
    most = settings.EVIDENCE_MAX_FILES * settings.EVIDENCE_MAX_FILE_BYTES + settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    if int(request.META.get("CONTENT_LENGTH") or 0) > most:
        raise _refused(_("Larger than %(limit)d bytes altogether.") % {"limit": most})
    parcel = Parcel(request)
    request.upload_handlers = [parcel]
    try:
        try:
            request.POST  # noqa: B018 - reading it is what parses the body
        except (TooManyFilesSent, TooManyFieldsSent, RequestDataTooBig):
            raise _refused(_("There are too many parts, or too much text.")) from None
        except (MultiPartParserError, UnreadablePostError):
            raise _refused(_("The upload was cut off or is malformed. Send it again.")) from None
        if parcel.is_cut:
            raise _refused(_("The upload was cut off or is malformed. Send it again."))
        yield parcel
    finally:
        parcel.close()


def _refused(sentence: str) -> ValidationFailed:
    return ValidationFailed(sentence, fields={"file": [sentence]})
