"""Forms of access administration. What is right is the services' to say; here only what cannot be sent is refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.utils.translation import gettext as now_
from django.utils.translation import gettext_lazy as _

from recovery.access.credentials import MAX_LABEL
from recovery.access.groups import MAX_NAME
from recovery.access.holders import PERMISSIONS
from recovery.errors import DomainError, ValidationFailed

KINDS = [("user", _("a person")), ("group", _("a group"))]


class Until(forms.DateTimeField):
    """A time in the reader's zone, as browsers ask for one; empty for no end."""

    def __init__(self, **kwargs: Any) -> None:
        widget = forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"})
        super().__init__(label=_("Until"), required=False, widget=widget, **kwargs)


class ReasonedForm(forms.Form):
    """A change of access with the reason that the log keeps."""

    reason = forms.CharField(label=_("Reason"), required=False, strip=False, widget=forms.Textarea(attrs={"rows": 3}))

    field_order = ["kind", "name", "username", "label", "application", "permissions", "queues", "expires_at", "reason"]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        # A browser sends the end of a line as two characters; the person typed one, and the limit counts one.
        cleaned["reason"] = cleaned.get("reason", "").replace("\r\n", "\n")
        if not cleaned["reason"].strip():
            self.add_error("reason", _("Say why, in 1 to 1,024 characters."))
        return cleaned

    def sent(self) -> dict[str, Any]:
        """What was typed. Raises ValidationFailed."""
        if not self.is_valid():
            raise ValidationFailed(now_("Nothing was changed. Mend what is marked and send it again."))
        return self.cleaned_data

    def tell(self, error: DomainError) -> None:
        """Puts a refusal's sentences at their fields."""
        self.is_valid()
        for name, sentences in error.fields.items():
            if name in self.fields and name not in self.errors:
                self.add_error(name, sentences)


class GrantForm(ReasonedForm):
    """Whom, what, until when."""

    kind = forms.ChoiceField(label=_("To"), choices=KINDS, widget=forms.RadioSelect, initial="user")
    name = forms.CharField(label=_("Name"), max_length=150, strip=False)
    permissions = forms.MultipleChoiceField(
        label=_("Permissions"),
        required=False,
        choices=[(name, name) for name in PERMISSIONS],
        widget=forms.CheckboxSelectMultiple,
    )
    queues = forms.MultipleChoiceField(label=_("Queues to use"), required=False, widget=forms.CheckboxSelectMultiple)
    expires_at = Until()

    def __init__(self, data: Any, queues: Iterable[str], **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        self.fields["queues"].choices = [(name, name) for name in queues]  # type: ignore[attr-defined]


class ChangeForm(ReasonedForm):
    """One grant: another end, or none of it any more. `version`: of the grant as the page showed it."""

    version = forms.CharField(widget=forms.HiddenInput, required=False)
    expires_at = Until()


class GroupForm(ReasonedForm):
    name = forms.CharField(label=_("Name"), max_length=MAX_NAME, strip=False)


class MemberForm(ReasonedForm):
    name = forms.CharField(label=_("Person"), max_length=150, strip=False)


class CredentialForm(ReasonedForm):
    """Whose rights it carries, what it is for, what it is limited to."""

    name = forms.CharField(label=_("Account"), max_length=150, strip=False)
    label = forms.CharField(label=_("Label"), max_length=MAX_LABEL, strip=False)
    application = forms.ChoiceField(label=_("Application"), required=False)
    expires_at = Until()

    def __init__(self, data: Any, applications: Iterable[str], **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        names = [(name, name) for name in applications]
        self.fields["application"].choices = [("", _("any of the namespace")), *names]  # type: ignore[attr-defined]


class WhyForm(forms.Form):
    """Who, and which instance. In the URL."""

    person = forms.CharField(label=_("Person"), max_length=150, strip=False)
    instance = forms.CharField(label=_("Instance, by identifier or business key"), max_length=191)


class LogFilter(forms.Form):
    """The filters of the log, in the URL. An invalid one is an error, never "all entries"."""

    about = forms.CharField(label=_("About"), required=False, max_length=150, strip=False)
    by = forms.CharField(label=_("By"), required=False, max_length=150, strip=False)
    before = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput)
