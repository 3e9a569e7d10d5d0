"""Live events: GET /events.

streams  the readers, and the one task that feeds them while there are any
ring     the last events with their ids, from which readers go on. Pure
wanted   which topics a request asks for. Pure
topics   what each topic reads: the status, swaps, decisions, results
log_topic  the lines of one serve's log
"""
