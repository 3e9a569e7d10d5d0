"""Which serve does a request mean, and may this caller mean it? Pure. Of which class of tasks is it?

names     every model name -> its serve; unknown names get the nearest known one
dialects  which dialect the serve is asked in
context   does the request fit what the serve can hold?
explore   whether another tier than the first choice gets a request
classify  the class of tasks: declared, by rules over the request's form, or by weights that were learned
          (asks reads a text, between searches the middle of a long one, features names what was read, weights adds up)
"""
