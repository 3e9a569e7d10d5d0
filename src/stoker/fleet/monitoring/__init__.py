"""Looks at serves that run, and acts on what it finds.

watchdog_view    what the watchdog sees of the fleet: serves that run, requests in flight
engine_work      whether an engine works on something, by its own counters
external_serves  finds external serves that run before anybody asks for them
"""
