"""A bank, in a process of its own. It books transfers, answers enquiries, sends advices, and fails as banks do.

    POST /transfers {"order", "amount"}   books once per order; asked again, it answers the first booking
    GET  /transfers/ORDER                 what became of it; ?enquiry=TAG is kept for the advice
    GET  /ledger                          every booking, and how often each order was asked for
    POST /advices                         sends the advices that are due, each of them twice

What goes wrong is decided by the scenario at the start of an order, call by call; after that all goes well.
"""

from __future__ import annotations

import json
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TROUBLE: dict[tuple[str, str], tuple[str, ...]] = {
    ("S1", "transfer"): ("silence",),
    ("S2", "transfer"): ("refused", "refused", "refused"),
    ("S3", "enquiry"): ("certificate", "processing", "certificate"),
    ("S4", "enquiry"): ("silence",),
    ("S11", "enquiry"): ("certificate",),
}
"""(scenario, question) -> what the calls meet, one after the other."""

SILENCE = 20.0
"""Seconds without an answer, longer than any caller waits here."""


class Ledger:
    """What the bank knows. Every call of one order gets the next trouble of its scenario."""

    def __init__(self, callback: str) -> None:
        self.callback = callback
        self.bookings: dict[str, dict[str, Any]] = {}
        self.calls: dict[tuple[str, str], int] = {}
        self.enquiries: dict[str, str] = {}
        self.lock = threading.Lock()

    def trouble(self, order: str, question: str) -> str:
        with self.lock:
            number = self.calls.get((order, question), 0)
            self.calls[order, question] = number + 1
        script = TROUBLE.get((order.partition("-")[0], question), ())
        return script[number] if number < len(script) else "none"

    def book(self, order: str, amount: Any) -> dict[str, Any]:
        """Moves the money, once."""
        with self.lock:
            reference = f"FT{len(self.bookings) + 1:05}"
            return self.bookings.setdefault(order, {"order": order, "amount": amount, "reference": reference})

    def send_advices(self) -> None:
        with self.lock:
            due, self.enquiries = self.enquiries, {}
        for order, tag in due.items():
            advice = json.dumps({"order": order, "enquiry": tag, "advice": f"advice-{order}", "number": 1}).encode()
            for _time in range(2):  # banks like to be sure
                asked = urllib.request.Request(self.callback, advice, {"Content-Type": "application/json"})
                with urllib.request.urlopen(asked, timeout=10):
                    pass


class Counter(BaseHTTPRequestHandler):
    """Where the bank is asked."""

    ledger: Ledger

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if self.path == "/advices":
            self.ledger.send_advices()
            return self._answer(200, {})
        trouble = self.ledger.trouble(body["order"], "transfer")
        if trouble == "refused":
            return self._answer(403, {"error": "ACCOUNT_BLOCKED"})
        booking = self.ledger.book(body["order"], body["amount"])
        if trouble == "silence":  # the money has moved, and nobody hears of it
            threading.Event().wait(SILENCE)
            return None
        return self._answer(200, {"state": "booked", "reference": booking["reference"]})

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if asked.path == "/ledger":
            calls = {f"{order} {question}": count for (order, question), count in self.ledger.calls.items()}
            return self._answer(200, {"bookings": list(self.ledger.bookings.values()), "calls": calls})
        order = asked.path.rpartition("/")[2]
        for tag in parse_qs(asked.query).get("enquiry", ()):
            self.ledger.enquiries.setdefault(order, tag)
        trouble = self.ledger.trouble(order, "enquiry")
        if trouble == "silence":
            threading.Event().wait(SILENCE)
            return None
        if trouble == "certificate":
            return self._answer(401, {"error": "CERTIFICATE_EXPIRED"})
        return self._answer(200, {"state": "processing" if trouble == "processing" else "done"})

    def _answer(self, status: int, data: Any) -> None:
        content = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def main() -> None:
    """`bank.py CALLBACK`: serves a free port, and prints its address as the only line."""
    Counter.ledger = Ledger(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Counter)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
