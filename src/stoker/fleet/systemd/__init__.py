"""systemd services: their unit files, `systemctl`, and what `stoker install systemd` writes.

syntax       quotes and parses lines of units and environment files
units        the text of every unit, and whether one on disk was changed
unit_states  the states of a unit, and how to start it from each
systemctl    calls systemd, and waits for its jobs
install      plans the changes to this machine, and carries them out: all files or none
"""
