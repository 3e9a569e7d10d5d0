"""One request, top to bottom.

accept   bytes in: framing, limits, key, request id                 (IO)
codec    what the body says; errors in the caller's dialect         (pure)
decide   which serve a model name means                             (pure)
lease    may it run now: grant, queue, swap, reject                 (pure)
verify   is the answer built as it has to be                        (pure)
relay    the upstream call; streams both ways; cancels; releases    (IO)
outbox   what both sides write is written together                  (IO)

The pure steps do not import each other: they meet in `stoker.gateway.flow` and speak `stoker.domain`.
"""
