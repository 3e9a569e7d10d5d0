"""Test tools that ship with the package: no GPU, no model, no sleep.

clock      FakeClock: time that moves when a test says so
fleet      FakeFleet: serves that start and stop by word
scripted   the scripted model server as a program: `python -m stoker.testing.scripted --port N --id NAME`
coder      a scripted worker and validator for orchestrators
imitation  the program under vLLM's and SGLang's own command lines
server     ScriptedServer: the same in the test's own loop
  connection  one client's connection: HTTP in, one request after the other
  routes   which path is answered how
  reply_plan  one reply, ready to be played: script and dialect brought together
  playback plays one reply onto the connection: pace, cuts, stalls, splits
  surface  what vLLM and SGLang answer besides inference: memory verbs, metrics
script/    what it is told to do, and what it recorded
dialects/  the replies of each dialect; strict/: what the clouds' own APIs refuse
ballast    memory that is really held, and really given back
client     RawClient: sends exactly the bytes given; reads replies and SSE strictly

`docs/reference/testing-kit.md` is the page for users.
"""
