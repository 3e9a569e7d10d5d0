"""Which serve does a request mean, and may this caller mean it? Pure. (Quality routing joins here later.)

names     every model name -> its serve; unknown names get the nearest known one
dialects  which dialect the serve is asked in
context   does the request fit what the serve can hold?
"""
