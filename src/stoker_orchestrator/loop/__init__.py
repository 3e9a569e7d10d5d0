"""The loop of an orchestrated request, without IO: events in, commands out.

states    the states of a request and of a block, as tables    messages  events and commands
loop      the state machine                                    cutter    cuts the worker's stream into blocks
blocks    a block, a check's result, the joined answer         transcript  what the worker is sent
"""
