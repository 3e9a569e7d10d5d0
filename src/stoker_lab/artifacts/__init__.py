"""What was measured, stored as files.

result_file  a run as a file: complete and private, or absent
record_file  a header and its records, line by line
fingerprint  what was measured, in readable parts        machine  where it was measured
"""
