"""Slots of another Stoker (`slot = "box2:gpu0"`), machines that sleep, and this machine's own sleep when it is idle.

table         [boxes.NAME] and [idle_suspend]
there         what the other Stoker's status says about a serve and a slot. Pure
box_api       the questions and commands to it; wake: the packet that wakes its machine
driver        loads a serve there, watches it, and lets it go
idle          when this machine may sleep. Pure; suspend: ends what is loaded, runs the command, brings it back
server        the part of the running server
doctor        what `stoker doctor` says of boxes
"""
