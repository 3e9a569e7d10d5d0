"""A canary and a decode check in cycles, for hours.

soak      runs the cycles and keeps the record    schedule  when each cycle starts; pure
decode    how fast concurrent answers come
"""
