"""The front door: requests come in here.

http_api   every request: its key, its route; inference goes to `flow`
flow    one inference request from end to end           settings   what a reload gives to the flow
upstream  requests that go to an engine's own path      compat    the paths of llama-swap and llama.cpp's router
explain  why a request went as it did                      requests  those in flight
media    reads requests for audio and images            key_rules  what a key says about one request
outcome  how it ended, in its decision and for its client
realtime  WebSocket sessions: /v1/realtime               response_sockets  the Responses API over WebSocket
operations  what a path does; pages of extensions
admin   POST /admin/VERB                                keys       /admin/keys and /admin/apps
usage   GET /v1/usage                                   decisions  GET /admin/decisions
results  GET /admin/results                             doctor  GET /admin/doctor
status  /status and /metrics                            models     entries of /v1/models
response_turns  requests that refer to stored responses, or are stored
silent_reply  keeps a summary from its client
responses  pages of what is stored
image_options  POST /sdapi/v1/options
events  GET /events: what happens, live
web     the web page at /ui/
ollama  the read-only endpoints of Ollama               log_file   Stoker's own log
hand_over  gives sockets and connections to the process that replaces this one; socket_channel  how they travel
server  sockets, event loop, signals                      http_server  connections, until it ends
"""
