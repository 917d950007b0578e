"""Who may do what, administered: grants, groups, credentials, and the log of every change.

Every change runs in `ledger.change`: one transaction that locks the ledger first, keeps every namespace administered
and writes the log. Nothing here asks whether somebody is a superuser (G2).
"""
