"""Does a serve meet the gate of an alias? Pure.

judgement     conditions and measurements in, one finding per condition out
measurements  what has to be measured for a gate, and which conditions no measurement can decide
"""
