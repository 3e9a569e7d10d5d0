"""Which serve does a request mean, and may this caller mean it? Pure. Of which class of tasks is it?

names     every model name -> its serve; unknown names get the nearest known one
dialects  which dialect the serve is asked in
context   does the request fit what the serve can hold?
explore   whether another tier than the first choice gets a request
classify  the class of tasks: declared, or by rules over the request's form and its last user text
          (asks reads the text, highrisk and rules ask of it, signals and shapes are their tables)
"""
