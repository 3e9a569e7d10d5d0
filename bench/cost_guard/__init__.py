"""Does a request cost more than it did? Counts of instructions, kept in the repository and compared with the code.

work          the request path on in-memory transports: requests, streamed events, translated events
in_memory     the transports, and an event loop that connects to them
bytecode      Python instructions per function, exact and the same on every machine
machine_code  instructions of the processor, counted by valgrind
guard         the kept counts, and what grew
"""
