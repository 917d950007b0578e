"""Forms of the console that are not decisions: what the queue is filtered by."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from recovery.console.reader import Reader
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
