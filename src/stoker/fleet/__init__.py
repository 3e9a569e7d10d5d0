"""Carries out what the scheduler asked: starts and stops serves, and proves that they are what they should be.

swapping/       the scheduler's only caller: runs swaps
supervision/    the fleet: start, adopt, sleep, stop
monitoring/     looks at serves that run; acts for the watchdog
watchdog/       is a ready serve what it should be?
engines/        what to run, how to tell that it is ready, what it counts, how it sleeps
drivers/        how it is run, watched and ended: process, container, unit, external
systemd/        unit files, systemctl, `stoker install`
process/        one process: environment, port, key, log, and how it is recognised later
memory/         who holds what, until it is free; will it fit
stage/: into the vault; rehydrate/: missing ones fetched and verified
warm/           what stays in host memory; conversations/: what is saved over a swap
"""
