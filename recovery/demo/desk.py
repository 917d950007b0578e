"""The desk: starts one payout for each scenario, works the branch's tasks by hand, and stops or pauses where told.

Runs beside the served product and goes on until it is stopped. What is already waiting is not started again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model

from recovery import permissions
from recovery.access import provision
from recovery.demo import PEOPLE, flows
from recovery.engine import claim, control, publish, report, signals, start
from recovery.engine.claim import Lease
from recovery.errors import DomainError
from recovery.models import Namespace, WorkflowInstance, WorkflowStep
from recovery.permissions import Actor
from recovery.receipts import new_key
from recovery.states import TERMINAL, InstanceStatus

SCENARIOS = {
    "S1": ("supplier-payout", "Nordlicht Papier GmbH", "4180.00"),
    "S2": ("supplier-payout", "Atelier Verdier", "920.50"),
    "S3": ("supplier-payout-tracked", "Harbour Freight Ltd", "18734.00"),
    "S4": ("supplier-payout-tracked", "Kiln & Clay Co", "260.00"),
    "S5": ("supplier-payout-two-rounds", "Officina Rossi", "7300.00"),
    "S6": ("supplier-payout-advised", "Fjord Timber AS", "12000.00"),
    "S7": ("supplier-payout-cooling-off", "Bluebell Nurseries", "640.00"),
    "S8": ("supplier-payout-branch", "Zinc Works", "15500.00"),
    "S9": ("supplier-payout-branch", "Marlow Books", "88.20"),
    "S10": ("supplier-payout-branch", "Delta Optics", "3410.00"),
    "S11": ("supplier-payout-final-advice", "Granite Quarries", "52000.00"),
    "S12": ("supplier-payout-split", "Union Shipping", "99000.00"),
}
"""Scenario -> definition, beneficiary, amount."""

HOLD, SILENT, DONE = "hold", "silent", "done"

LATE_AFTER = 240
"""Seconds after which the worker that fell silent in S10 reports what it had done."""
SPLIT_AFTER = 600
"""Seconds for which the third part of S12 goes on beside the two that failed."""


def actor(username: str) -> Actor:
    namespace = Namespace.objects.get(name="payments")
    return permissions.actor_of(get_user_model().objects.get(username=username), namespace.pk)


def set_up() -> None:
    """People, rights, queues and definitions; says nothing that is already there again."""
    text = PEOPLE.read_bytes()
    provision.provision(provision.read(text))
    for name in flows.FLOWS:
        publish.publish(actor("order-desk-api"), new_key(), flows.document(name))


@dataclass
class Held:
    """A lease that the branch's clerk holds, and when what is to be done with it."""

    lease: Lease
    scenario: str
    since: float
    done: bool = False

    @property
    def age(self) -> float:
        return time.monotonic() - self.since

    @property
    def is_retry(self) -> bool:
        return self.lease.task.retry_of_id is not None

    @property
    def attempt(self) -> str:
        return self.lease.attempt.pk

    @property
    def token(self) -> str:
        return self.lease.attempt.lease_token


class Desk:
    """One desk with its clerk."""

    def __init__(self) -> None:
        self.desk = actor("order-desk-api")
        self.clerk = actor("bank-worker")
        self.held: list[Held] = []

    def run(self) -> None:
        """Goes on for ever."""
        for scenario in SCENARIOS:
            if not self._is_open(scenario):
                self._start(scenario)
        misdirected = False
        while True:
            self._claim()
            for held in self.held:
                self._work(held)
            self.held = [held for held in self.held if not held.done]
            misdirected = misdirected or self._send_misdirected_advice()
            time.sleep(0.5)

    def _of(self, scenario: str) -> Any:
        return WorkflowInstance.objects.filter(business_key__startswith=f"ORDER-2026-{scenario}-")

    def _is_open(self, scenario: str) -> bool:
        return self._of(scenario).exclude(status__in=TERMINAL).exists()

    def _start(self, scenario: str) -> None:
        definition, beneficiary, amount = SCENARIOS[scenario]
        order = f"ORDER-2026-{scenario}-{self._of(scenario).count() + 1}"
        given = {"order": order, "amount": amount, "currency": "EUR", "beneficiary": beneficiary}
        document = {"application": "order-desk", "definition": definition, "business_key": order, "input": given}
        start.start(self.desk, new_key(), document)

    def _claim(self) -> None:
        for lease in claim.claim(self.clerk, "branch", "branch-clerk", 10):
            scenario = lease.task.business_key.split("-")[2]
            self.held.append(Held(lease, scenario, time.monotonic()))

    def _work(self, held: Held) -> None:
        """What the clerk does with a task now: hold it, fall silent, or report and be done with it."""
        act = getattr(self, f"_{held.scenario.lower()}", self._succeed)
        try:
            decision = self._succeed(held) if held.is_retry else act(held)  # what is repeated goes well
            if decision == HOLD:
                report.heartbeat(self.clerk, held.attempt, held.token)
        except DomainError:
            decision = DONE  # somebody has decided meanwhile; the task is no longer ours
        held.done = decision == DONE

    def _succeed(self, held: Held) -> str:
        reference = {"accepted": True, "reference": f"FT-{held.lease.task.business_key}"}
        report.succeed(self.clerk, held.attempt, held.token, reference)
        return DONE

    def _s8(self, held: Held) -> str:
        """The payout is cancelled while the bank is being asked, and then nobody knows what the bank did."""
        instance = WorkflowInstance.objects.get(pk=held.lease.task.instance_id)
        if instance.status == InstanceStatus.RUNNING:
            self._control(control.cancel, instance, "The supplier sent a corrected invoice.")
            return HOLD
        report.unknown(self.clerk, held.attempt, held.token, "LINE_CUT", "The line was cut.")
        return DONE

    def _s9(self, held: Held) -> str:
        """The payout is paused before its transfer fails."""
        instance = WorkflowInstance.objects.get(pk=held.lease.task.instance_id)
        if not instance.paused:
            self._control(control.pause, instance, "The desk checks the order first.")
            return HOLD
        report.fail(self.clerk, held.attempt, held.token, "LIMIT", "The branch's daily limit is reached.", False)
        return DONE

    def _s10(self, held: Held) -> str:
        """The clerk falls silent and reports long after the lease was lost."""
        return self._succeed(held) if held.age > LATE_AFTER else SILENT

    def _s12(self, held: Held) -> str:
        """Two of three parts fail, once all three are in hand; the third one goes on."""
        parts = [other for other in self.held if other.lease.task.instance_id == held.lease.task.instance_id]
        if WorkflowStep.objects.get(stepactivation__task=held.lease.task).step_key == "transfer-part-c":
            return self._succeed(held) if held.age > SPLIT_AFTER else HOLD
        if len(parts) < 3 and not any(part.done for part in parts):
            return HOLD
        report.fail(self.clerk, held.attempt, held.token, "FORMAT", "The branch cannot read the form.", False)
        return DONE

    def _control(self, act: Any, instance: WorkflowInstance, reason: str) -> None:
        act(self.desk, new_key(), instance.pk, str(instance.control_revision), reason)

    def _send_misdirected_advice(self) -> bool:
        """S6: the clearing house confirms, but names another order."""
        waiting = WorkflowStep.objects.filter(
            instance__in=self._of("S6").exclude(status__in=TERMINAL),
            step_key="await-clearing-advice",
            status="WAITING",
        ).first()
        if waiting is None:
            return False
        document = {
            "step_key": waiting.step_key,
            "generation": 1,
            "name": flows.ADVICE["name"],
            "correlation_key": "ORDER-2025-0006",
            "source_key": "clearing-house-1",
            "payload": {"reference": "CH-2026-000771"},
        }
        try:
            signals.accept(self.desk, waiting.instance_id, document)
        except DomainError:
            return False
        return True
