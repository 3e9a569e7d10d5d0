"""Carries out what `lease` asked: starts and stops serves, and proves that they are what they should be.

conductor   the scheduler's only caller; tells the fleet what to do and hears what came of it (fetching: who waits for
            weights; swapper: runs swaps; swaps: what is reported of one; recovery: those that were cut off)
supervisor  the fleet: start, sleep, stop, adopt, close; keeping: the books it works on
lifecycle   one table: the states of a serve and what may happen in each; held: one serve, from launch to gone
preflight   what stands in the way of a start (requirements, ports; engines' weights and commands)
adoption    finding what an earlier control plane left (records, identity, fingerprint, keys, signing)
obituary    what is said of a start that failed, or of a serve that ended
engines/    what to run, how to tell that it is ready, what it counts, how it sleeps (rest)
drivers/    how it is run, watched and ended: process, container, unit, external
memory/     who holds what, until it is free (scales), and will it fit
warm/       what stays in host memory; conversations/  what is saved over a swap
parts       the files of a GGUF model, which may be split
watchdog/   is a ready serve what it should be; rehydrate/  missing weights: fetched, verified
report      the fleet as `/status` shows it; logs: append-mode files, bounded by rotation
"""
