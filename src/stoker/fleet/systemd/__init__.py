"""systemd services: their unit files, `systemctl`, and their states.

syntax       quotes and parses lines of units and environment files
units        the text of every unit, and whether one on disk was changed
unit_states  the states of a unit, and how to start it from each
systemctl    calls systemd, and waits for its jobs
"""
