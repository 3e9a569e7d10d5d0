"""Sends one request to a serve, and handles its reply.

attempts     carries out a plan: one candidate after the other, until one answers
request_context  a client's request under way
upstream_client  sends a request to one serve, and releases its lease
leasing      takes a lease, waits for it, returns it  formatter  the request as the serve wants it
counting     counts tokens with the engine's counter  images     downloads images for serves that take no URLs
metering     what one request to a serve used: counted, else estimated
planner      who answers to names that mean no serve  recording  who sees the content of requests
first_byte   ends an attempt that stays silent        internal_client  Stoker's own requests: judge, validator, worker
loading_notes  what a streaming client sees while its model loads
waiting_bodies  a limit for the bodies of waiting requests
media           requests of audio and images whose body is not a JSON object
internal_stream  the streamed answer to one of them
"""
