"""Forms of the console that are not decisions: what the queue is filtered by."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from recovery.console.presenters.audit import KNOWN
from recovery.console.presenters.facts import act_word
from recovery.console.reader import Reader
from recovery.operations import REGISTRY
from recovery.states import InstanceStatus, ReviewReason

WITHIN = {"1h": timedelta(hours=1), "2h": timedelta(hours=2), "8h": timedelta(hours=8), "1d": timedelta(days=1)}


def _namespace(reader: Reader) -> forms.ChoiceField:
    names = [(name, name) for name in reader.names]
    return forms.ChoiceField(label=_("Namespace"), required=False, choices=[("", _("any")), *names])


class QueueFilter(forms.Form):
    """The filters of the queue, all of them in the URL. An invalid one is an error, never "all rows"."""

    application = forms.CharField(label=_("Application"), required=False, max_length=64)
    definition = forms.CharField(label=_("Definition"), required=False, max_length=128)
    step = forms.CharField(label=_("Step"), required=False, max_length=128)
    within = forms.ChoiceField(
        label=_("Deadline within"),
        required=False,
        choices=[
            ("", _("any")),
            ("1h", _("1 hour")),
            ("2h", _("2 hours")),
            ("8h", _("8 hours")),
            ("1d", _("1 day")),
        ],
    )
    reason = forms.ChoiceField(
        required=False, choices=[("", ""), *ReviewReason.choices], widget=forms.HiddenInput, label=_("Reason")
    )
    mine = forms.BooleanField(label=_("what I may act on"), required=False)

    def __init__(self, data: Any, reader: Reader) -> None:
        super().__init__(data)
        self.fields["namespace"] = _namespace(reader)
        for name in ("application", "definition", "step"):
            self.fields[name].widget.attrs |= {"placeholder": _("any"), "spellcheck": "false"}

    @property
    def within_span(self) -> timedelta | None:
        return WITHIN.get(self.cleaned_data.get("within", ""))

    @property
    def is_used(self) -> bool:
        return any(value for name, value in self.cleaned_data.items() if name != "reason")


SPANS = {"8h": timedelta(hours=8), "1d": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}


class _SpanFilter(forms.Form):
    """Filters of a list of what happened: who, and not longer ago than."""

    actor = forms.CharField(label=_("Who"), required=False, max_length=150)
    within = forms.ChoiceField(
        label=_("In the last"),
        required=False,
        choices=[
            ("", _("any time")),
            ("8h", _("8 hours")),
            ("1d", _("1 day")),
            ("7d", _("7 days")),
            ("30d", _("30 days")),
        ],
    )

    def __init__(self, data: Any, namespaces: list[tuple[str, str]]) -> None:
        """`namespaces`: (id, name) of those that may be listed."""
        super().__init__(data)
        self.namespaces = namespaces
        names = [(name, name) for _key, name in namespaces]
        self.fields["namespace"] = forms.ChoiceField(
            label=_("Namespace"), required=False, choices=[("", _("any")), *names]
        )
        for field in self.fields.values():
            if isinstance(field.widget, forms.TextInput):
                field.widget.attrs |= {"placeholder": _("any"), "spellcheck": "false"}

    def since(self, now: datetime) -> datetime | None:
        """When the span begins, None without one."""
        span = SPANS.get(self.cleaned_data["within"])
        return now - span if span else None

    @property
    def namespace_ids(self) -> tuple[str, ...]:
        wanted = self.cleaned_data["namespace"]
        return tuple(key for key, name in self.namespaces if wanted in ("", name))

    @property
    def is_used(self) -> bool:
        return any(self.cleaned_data.values())


class HandledFilter(_SpanFilter):
    """The filters of what was handled, all of them in the URL."""

    act = forms.ChoiceField(
        label=_("How"), required=False, choices=[("", _("any")), *((slug, act.name) for slug, act in REGISTRY.items())]
    )


class AuditFilter(_SpanFilter):
    """The filters of the audit, all of them in the URL and each along an index."""

    instance = forms.CharField(label=_("Instance"), required=False, max_length=191)
    action = forms.ChoiceField(
        label=_("Act"), required=False, choices=lambda: [("", _("any")), *((name, act_word(name)) for name in KNOWN)]
    )


class ViewForm(forms.Form):
    """A name for the filters of the queue that stand in the URL."""

    name = forms.CharField(label=_("Name of the view"), max_length=64)
    query = forms.CharField(required=False, max_length=1024, widget=forms.HiddenInput)


class InstanceFilter(forms.Form):
    """The filters of the list of instances, all of them in the URL."""

    status = forms.ChoiceField(label=_("Status"), required=False, choices=[("", _("any")), *InstanceStatus.choices])
    definition = forms.CharField(label=_("Definition"), required=False, max_length=128)
    business_key = forms.CharField(label=_("Business key begins with"), required=False, max_length=191)

    def __init__(self, data: Any, reader: Reader) -> None:
        super().__init__(data)
        self.fields["namespace"] = _namespace(reader)
        for name in ("definition", "business_key"):
            self.fields[name].widget.attrs |= {"placeholder": _("any"), "spellcheck": "false"}

    @property
    def is_used(self) -> bool:
        return any(self.cleaned_data.values())
