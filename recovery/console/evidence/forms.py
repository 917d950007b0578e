"""Forms of evidence. Files are read by the upload handler as they arrive, not by a form."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from recovery.console.access.forms import ReasonedForm
from recovery.errors import DomainError


class FilesInput(forms.FileInput):
    allow_multiple_selected = True


class AttachForm(forms.Form):
    """Files, a note, and references, one on each line. The key makes a double click one bundle."""

    operation_key = forms.CharField(widget=forms.HiddenInput, required=False, strip=False)
    file = forms.Field(label=_("Files"), required=False, widget=FilesInput(attrs={"multiple": True}))
    note = forms.CharField(label=_("Note"), required=False, strip=False, widget=forms.Textarea(attrs={"rows": 4}))
    reference = forms.CharField(label=_("Kept elsewhere"), required=False, widget=forms.Textarea(attrs={"rows": 2}))

    @property
    def notes(self) -> list[str]:
        # A browser sends the end of a line as two characters; the person typed one, and the limit counts one.
        note = str(self.data.get("note", "")).replace("\r\n", "\n")
        return [note] if note.strip() else []

    @property
    def references(self) -> list[str]:
        lines = str(self.data.get("reference", "")).splitlines()
        return [line.strip() for line in lines if line.strip()]

    def tell(self, error: DomainError) -> None:
        """Puts a refusal's sentences at their fields."""
        self.is_valid()
        for name, sentences in error.fields.items():
            if name in self.fields:
                self.add_error(name, sentences)


class WithdrawForm(ReasonedForm):
    """Why a bundle must not be relied on any more."""


class BundleFilter(forms.Form):
    """The filters of the list, in the URL."""

    namespace = forms.ChoiceField(label=_("Namespace"), required=False)
    instance = forms.CharField(label=_("About the instance"), required=False, max_length=64)
    after = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def __init__(self, data: Any, names: list[str]) -> None:
        super().__init__(data)
        choices = [("", _("all")), *((name, name) for name in names)]
        self.fields["namespace"].choices = choices  # type: ignore[attr-defined]
