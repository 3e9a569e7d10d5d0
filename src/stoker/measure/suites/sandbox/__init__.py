"""Runs a program with its tests, with limits.

sandbox  starts the process and reads its verdict    inside  the program that runs in it
"""
