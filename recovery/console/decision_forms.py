"""The forms of the six operations: the claim as a person types it, turned into the command that the operation takes.

A form only asks for what a person says. What was seen (revisions, activation) and the operation key travel hidden, as
they were when the page was opened. What is right about the claim is the operation's to say; here only what cannot be
sent at all is refused, so that all of it is refused at once.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from recovery import exact_json
from recovery.console.presenters.acts import WORDS
from recovery.operations.base import Operation

OUTCOMES = [("SUCCEEDED", _("SUCCEEDED")), ("FAILED", _("FAILED"))]

VALUE = {"review-task": "result", "resolve-step": "output"}
"""Operations that take an outcome with a JSON value, and the value's name in the command."""

SEEN = ("expected_revision", "expected_step_revision", "activation_id", "expected_task_revision")
"""What the page showed when it was opened."""


class JsonText(forms.CharField):
    """JSON as a person types it; every number keeps its exact value. Cleans to a one-element tuple: null is a value."""

    widget = forms.Textarea

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if not text.strip():
            return None
        try:
            return (exact_json.parse(text),)
        except exact_json.InvalidJson as error:
            raise forms.ValidationError(_("This is not JSON: %(problem)s."), params={"problem": str(error)}) from None


class DecisionForm(forms.Form):
    """The claim of one operation. Nothing is chosen or ticked for the person."""

    operation_key = forms.CharField(widget=forms.HiddenInput, required=False, strip=False)
    seen_at = forms.CharField(widget=forms.HiddenInput, required=False)
    seen_digest = forms.RegexField(r"^[0-9a-f]{64}$", widget=forms.HiddenInput, required=False)
    evidence_ref = forms.CharField(required=False, strip=False)
    reason = forms.CharField(required=False, strip=False, widget=forms.Textarea)

    def __init__(self, data: Any, operation: Operation, *, kept: list[str], initial: dict[str, str]) -> None:
        """`kept`: references that decisions on this instance already named; one of them may be chosen again."""
        super().__init__(data, initial=initial)
        self.operation = operation
        self.words = WORDS[operation.slug]
        for name in SEEN:
            self.fields[name] = forms.CharField(widget=forms.HiddenInput, required=False)
        if value := VALUE.get(operation.slug):
            self.fields["outcome"] = forms.ChoiceField(choices=OUTCOMES, required=False, widget=forms.RadioSelect)
            self.fields[value] = JsonText(required=False)
        self.fields[operation.statement] = forms.BooleanField(required=False)
        self.fields["evidence"] = forms.ChoiceField(
            choices=[(ref, ref) for ref in kept], required=False, widget=forms.RadioSelect
        )

        # The order of the page, so that the summary of what is wrong reads like it.
        self.order_fields(["outcome", self.value_name, "evidence", "evidence_ref", "reason", operation.statement])

    @property
    def value_name(self) -> str:
        return VALUE.get(self.operation.slug, "")

    @property
    def value(self) -> Any:
        return self[self.value_name]

    @property
    def statement(self) -> Any:
        return self[self.operation.statement]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        # A browser sends the end of a line as two characters; the person typed one, and the limit counts one.
        cleaned["reason"] = cleaned.get("reason", "").replace("\r\n", "\n")
        self._need(bool(cleaned["reason"].strip()), "reason", _("Say why, in 1 to 1,024 characters."))
        chosen, typed = cleaned.get("evidence", ""), cleaned.get("evidence_ref", "")
        self._need(bool(chosen or typed), "evidence_ref", _("Name what shows it: choose a reference or enter one."))
        self._need(not (chosen and typed), "evidence_ref", _("Choose a reference or enter one, not both."))
        self._need(
            cleaned.get(self.operation.statement, False),
            self.operation.statement,
            _("Tick this to say that you stand by it. The server cannot find it out for you."),
        )
        if self.value_name:
            self._need(bool(cleaned.get("outcome")), "outcome", _("Choose how it ended."))
            if self.value_name not in self.errors:
                self._need(cleaned.get(self.value_name) is not None, self.value_name, _("Enter JSON; null is a value."))
        return cleaned

    def _need(self, holds: bool, field: str, sentence: Any) -> None:
        if not holds and field not in self.errors:
            self.add_error(field, sentence)

    def payload(self, target: dict[str, str]) -> dict[str, Any]:
        """The command as the operation reads it. Only of a valid form."""
        cleaned = self.cleaned_data
        payload = {
            "expected_revision": cleaned["expected_revision"],
            "reason": cleaned["reason"],
            "evidence_ref": cleaned["evidence"] or cleaned["evidence_ref"],
            self.operation.statement: cleaned[self.operation.statement],
            **target,
        }
        if self.operation.target == "step":
            payload |= {name: cleaned[name] for name in ("activation_id", "expected_step_revision")}
        if self.operation.target == "task":
            payload["expected_task_revision"] = cleaned["expected_task_revision"]
        if self.value_name:
            payload |= {"outcome": cleaned["outcome"], self.value_name: cleaned[self.value_name][0]}
        return payload
