"""What was measured, kept as files.

artifact      a run as a file: whole and private, or not there at all
fingerprint   what was measured, in parts that can be read    machine  where it was measured
side_by_side  two runs of any kind, every number
"""
