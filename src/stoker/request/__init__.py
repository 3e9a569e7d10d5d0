"""One request, top to bottom.

accept     reads the client's bytes: framing, limits, keys                     (IO)
codec      reads the fields of a body; writes errors in the client's dialect   (pure)
decide     finds the serve for a model name, and the tier for a task           (pure)
lease      says whether it may run now: grant, queue, swap, reject             (pure)
translate  turns requests and answers of one dialect into another              (pure)
stored_responses  puts stored turns into a request, and says what is stored of its answer (pure)
relay      calls the serve, and passes its reply to the client                 (IO)
outbox     writes several messages to sockets in one go                        (IO)

decide and lease import none of the other steps. They meet in `stoker.gateway.flow` and
`stoker.exchange`, and share the types of `stoker.domain`.
"""
