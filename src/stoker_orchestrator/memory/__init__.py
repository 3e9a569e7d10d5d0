"""What an orchestrated request leaves on disk, for people to read and for a repeated request to go on with.

records     a Markdown file that only grows, one whole record at a time
scratchpad  one file per request: what was decided, written, found, committed     pads  all of them
project     the files of a project, and what Stoker wrote there
recorder    writes what a run does into both
"""
