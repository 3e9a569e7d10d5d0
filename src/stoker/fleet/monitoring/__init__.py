"""Watches running serves, and acts for the watchdog.

watchdog_view    what the watchdog sees of the fleet: running serves, requests in flight
engine_work      whether an engine is working, by its own counters
external_serves  finds external serves that already run, before anybody asks for them
worker_moves     lets serves behind an edge follow its worker to another address
"""
