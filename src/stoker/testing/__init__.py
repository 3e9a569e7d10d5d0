"""Test tools that ship with the package: no GPU, no model, no sleep.

clock      FakeClock: time that moves when a test says so
fleet      FakeFleet: serves that start and stop by word
script     Script: every fault of the scripted model server, a record and a command line
scripted   the scripted model server as a program: `python -m stoker.testing.scripted --port N --id NAME`
imitation  the program under vLLM's and SGLang's own command lines
server     ScriptedServer: the same in the test's own loop
  line         one client's connection: HTTP in, one request after the other
  routes       which path is answered how
  ask          what a request asks for, and what its text overrides in the script
  dialects/    the replies of each dialect: tokens, encoded ahead of time, and rich answers
  answers      rich answers: thinking, text, calls; and which one a request gets
  quirks       habits of real upstreams, by name
  strict/      what the clouds' own APIs refuse
  plan         one reply, ready to be played: script and dialect brought together
  playback     plays one reply onto the connection: pace, cuts, stalls, splits
  surface      what vLLM and SGLang answer besides inference: memory verbs, metrics
  ballast      memory that is really held, and really given back
  framing      how a reply's bytes are wrapped: chunked, length, close; gzip
  record       what came in, and what became of it
client     RawClient: sends exactly the bytes given; reads replies and SSE strictly

`docs/testing.md` is the page for users.
"""
