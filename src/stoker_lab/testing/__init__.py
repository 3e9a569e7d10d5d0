"""Test tools that ship with the package: no GPU, no model, no sleep.

clock      FakeClock: time that moves when a test says so
fleet      FakeFleet: serves that start and stop on command
scripted   the scripted model server as a program: `python -m stoker_lab.testing.scripted --port N --id NAME`
coder      a scripted worker and validator for orchestrators
imitation  the program under vLLM's and SGLang's own command lines
server     ScriptedServer: the same in the test's own loop
  connection  one client's connection: HTTP in, one request after the other
  routes   how each path is answered
  reply_plan  one reply, ready to be sent: what the script and the dialect say
  playback sends one reply: pace, cuts, stalls, splits
  surface  what vLLM and SGLang answer besides inference: memory verbs, metrics
script/    what the server is told to do, and what it recorded
dialects/  the replies of each dialect; strict/: what the clouds' own APIs refuse
ballast    memory that is really allocated and freed
client     RawClient: sends exactly the bytes given; reads replies and SSE strictly

`docs/reference/testing-kit.md` is the page for users.
"""
