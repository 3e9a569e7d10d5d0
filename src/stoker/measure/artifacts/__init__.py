"""What was measured, stored as files.

result_file  a run as a file: complete and private, or absent
fingerprint  what was measured, in readable parts        machine  where it was measured
"""
