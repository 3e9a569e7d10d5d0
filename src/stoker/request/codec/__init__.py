"""What a body says, and what Stoker itself says in each dialect. Pure.

body_fields        the top-level fields of a request body that Stoker needs, and where they are
bounds             how much structure a body may hold, counted before anything is decoded
server_tools       which tools of a request its client does not run itself
multipart          finds `model` and the parts of a form with files; form_parameters changes them
edits              the only changes to a body that passes through: model, usage, engine-private parameters
sse                server-sent events: frames, and their data
frames             reads a stream as it passes: usage, the first meaningful frame, the proper end
empty_answer       an answer that is complete and says nothing
content_coding     compressed replies: which codings serves are asked for, and decoding them
usage              the tokens that a serve counted; text_tokens: estimates of those that it did not
upstream_errors    what an error frame, or a 200 that is no answer, means to the client
own_replies        Stoker's own errors, error events and pings
upstream_messages  what clients get of an engine's own error messages
context_overflow   a prompt that does not fit: recognises an engine's message, and words it as clients expect
unsupported_input  images, audio or video for a model that takes none, in the words of each engine
request_parameters what a serve sets in its requests' bodies; request_defaults: what a key sets
multipart          finds the model in a form with files; model_query: finds it in a URL
media_units        the images, characters or seconds that a media request uses; media_answers: checks its answer
prompt_chain       a prompt as a chain of hashes, by which a replica is chosen
websocket          the handshake's headers, where frames end, a close frame
outline            what routing looks at in a request (with turn_content, harness, envelopes, summaries, toolbox)
"""
