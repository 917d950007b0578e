"""The public HTTP API, version 1. Routers find, call and render; every decision is made below them.

One outer layer (`edge`) speaks English, checks what a caller accepts and turns every refusal into problem+json.
"""
