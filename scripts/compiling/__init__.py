"""Stoker compiled by mypyc: `scripts/compile`, `scripts/test --compiled`, `scripts/release compile`.

modules.txt  which modules are compiled      compiler    C and libraries from them, in a folder of their own
hatch_hook   the same while a wheel is made, if STOKER_COMPILE=1
"""
