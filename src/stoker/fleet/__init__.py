"""Carries out what `lease` asked: starts and stops serves, and proves that they are what they should be.

conductor   the scheduler's only caller; tells the fleet what to do and hears what came of it
supervisor  the fleet: start, stop, adopt, close; everything below serves it
lifecycle   one table: the states of a serve and what may happen in each
held        one serve in our care, from launch to gone
preflight   what stands in the way of a start (requirements, ports; engines' weights and commands)
launcher    port, key, command line, log, environment, spawn
adoption    finding what an earlier control plane left (records, identity, fingerprint, signing)
obituary    what is said of a start that failed, or of a serve that ended
logs        append-mode files, bounded by rotation
engines/    what to run and how to tell that it is ready
drivers/    how it is run, watched and ended
report      the fleet as `/status` shows it
"""
