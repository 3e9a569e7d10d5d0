"""Runs a program with its tests, with limits.

sandbox  starts the process and reads its result    inside  the program that runs in it
command  runs any command, with limits
"""
