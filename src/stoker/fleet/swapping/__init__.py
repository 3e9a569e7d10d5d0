"""Carries out what the scheduler decides.

conductor  the scheduler's only caller: tells the fleet what to do, and the scheduler what came of it
swapper    runs one swap: drain, stop, start, prove; `swaps`: what is reported of one
fetching   who waits for weights to be fetched        recovery  swaps that were cut off by a crash
residency  what is loaded, for routing                report    slots and serves for `/status`
"""
