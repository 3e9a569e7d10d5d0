"""What a body says, and what Stoker itself says in each dialect. Pure.

body_fields        the top-level fields of a request body that Stoker needs, and where they are
bounds             how much structure a body may hold, counted before anything is decoded
server_tools       which tools of a request its client does not run itself
edits              the changes to a body that passes through: model, usage, a serve's parameters, the output limit
request_defaults   what a key sets in its requests
multipart          finds `model` and the parts of a form with files; form_parameters changes them
model_query        finds the model in a URL
sse                server-sent events: frames, and their data
frames             reads a stream as it passes: usage, the first meaningful frame, the proper end
endings            why an answer ended, in every dialect's words
reply_formats      how each dialect's streams and answers begin, end, and say nothing
whole_answer       what says whether a whole answer is one
required_fields    what a dialect requires of an answer, and engines leave out
content_coding     compressed replies: which codings serves are asked for, and decoding them
tolerant_json      JSON as engines write it
usage              the tokens that a serve counted, and estimates of those that it did not
upstream_errors    what an error frame, or a 200 that is no answer, means to the client
upstream_messages  what clients get of an engine's own error messages
context_overflow   a prompt that does not fit: recognises an engine's message, and words it as clients expect
own_replies        Stoker's own errors, error events and pings; retry_advice: whether to send the request again
media              speech, transcriptions and images: how much is asked for, and what may answer it
prompt_chain       a prompt as a chain of hashes, by which a replica is chosen
websocket          the handshake's headers, where frames end, a close frame; response_events: messages of Responses
"""
