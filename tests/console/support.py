"""Reading pages and sending their forms as a browser without JavaScript does."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from django.test import Client


@dataclass
class Control:
    """One field of a form as a browser sees it."""

    name: str
    kind: str
    value: str
    checked: bool = False


class _Reader(HTMLParser):
    """The controls of every form, the links, and every element with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[tuple[dict[str, str], list[Control]]] = []
        self.links: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self._textarea: Control | None = None
        self._select: Control | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        if tag == "form":
            self.forms.append((given, []))
        elif tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("input", "textarea", "select") and self.forms and "name" in given:
            kind = given.get("type", "text") if tag == "input" else tag
            control = Control(given["name"], kind, given.get("value", ""), "checked" in given)
            self.forms[-1][1].append(control)
            self._textarea = control if tag == "textarea" else None
            self._select = control if tag == "select" else None
        elif tag == "option" and self._select is not None and "selected" in given:
            self._select.value = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._textarea = None

    def handle_data(self, data: str) -> None:
        if self._textarea is not None:
            self._textarea.value += data
        self.text.append(data)


@dataclass
class Page:
    """What came back."""

    response: Any
    html: str
    reader: _Reader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = _Reader()
        self.reader.feed(self.html)

    @property
    def status(self) -> int:
        return self.response.status_code

    @property
    def text(self) -> str:
        """The visible words, white space folded."""
        return " ".join(" ".join(self.reader.text).split())

    def form(self, containing: str) -> tuple[dict[str, str], list[Control]]:
        """The form that has a field of that name."""
        return next(form for form in self.reader.forms if any(c.name == containing for c in form[1]))

    def fields(self, containing: str) -> dict[str, str]:
        """What a browser would send of that form now."""
        sent = {}
        for control in self.form(containing)[1]:
            if control.kind in ("checkbox", "radio") and not control.checked:
                continue
            # The first line end after <textarea> is not part of its value.
            sent[control.name] = control.value.removeprefix("\n") if control.kind == "textarea" else control.value
        return sent

    def control(self, name: str) -> Control:
        return next(control for _attrs, controls in self.reader.forms for control in controls if control.name == name)


@dataclass
class Desk:
    """Somebody's browser. Follows no redirect by itself."""

    client: Client

    def get(self, url: str, **headers: Any) -> Page:
        return _page(self.client.get(url, headers=headers))

    def htmx(self, url: str, **headers: str) -> Page:
        return self.get(url, **{"HX-Request": "true"}, **headers)

    def post(self, url: str, data: dict[str, Any], **headers: Any) -> Page:
        return _page(self.client.post(url, data, headers=headers))

    def send(self, page: Page, url: str, **typed: Any) -> Page:
        """Types into the page's decision form and sends it."""
        return self.post(url, page.fields("operation_key") | typed)


def _page(response: Any) -> Page:
    return Page(response, response.content.decode())


def act_url(flow: Any, slug: str, target: str = "") -> str:
    """The form of one operation."""
    return f"/instances/{flow.id}/recovery/{slug}/" + (f"{target}/" if target else "")


CLAIM = {"reason": "The bank portal was read.", "evidence_ref": "bank-portal:FT26333"}
"""What a person types into every form."""
