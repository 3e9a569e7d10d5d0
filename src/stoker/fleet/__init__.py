"""Carries out what the scheduler decides: starts and stops serves, and proves that they work.

swapping/       runs swaps; the scheduler's only caller
supervision/    the fleet: starts, adopts, puts to sleep and stops serves
monitoring      watches running serves; acts for the watchdog
yielding        gives a slot's devices up while another program needs them
watchdog/       checks that a ready serve still works, and decides what to do if not
drivers/        how a serve runs and ends: process, container, systemd unit, cluster job, external
systemd/        unit files, systemctl, `stoker install`
process/        one engine process: environment, port, key, log, and how to recognise it later
memory/         who holds which memory, whether a model fits, when memory is free again
weights/        downloads and verifies missing weights; prefetches models into the vault
warm/           keeps models in host memory; conversations/: saves KV caches over a swap
"""
