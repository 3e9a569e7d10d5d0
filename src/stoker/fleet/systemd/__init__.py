"""Services of systemd: their unit files, `systemctl`, and what `stoker install systemd` writes.

syntax   how systemd reads a unit's line and an environment file, and so how to write one
units    the text of every unit, and whether one on disk is still what was written
files    several files at once: all of them change, or none
systemctl  asks systemd, and waits for its jobs
install  what has to change on this machine, and carrying it out
"""
