"""Runs swaps: carries out the scheduler's commands, from the check of a start to the report.

conductor      the scheduler's only caller: carries out its commands, reports results back
swapper        runs swaps: check, stop, start, prove; waits for weights; ends what a crash interrupted
status_report  slots and serves for `/status`
"""
