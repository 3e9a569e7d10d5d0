"""What a translation costs beside passing through: `python -m bench.translation`.

codec   each pair of dialects in this process: CPU per request, per event, and for a huge argument
door    through the running program: added time to an answer, CPU per event, against the same upstream
"""
