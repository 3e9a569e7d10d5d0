"""Who may use Stoker, and how much: keys, limits, usage.

access_control  Host and Origin, then the key behind a request
caller          a key at run time
refusals        counts and logs refused requests, and slows down guesses of keys
"""
