"""Why a request went as it did, in words: what `stoker explain` prints and the web page draws. Pure.

explanation  facts and times of one request
facts        one fact per line, in the order in which they happened
timeline     what it waited for, and how long each part of it took
reasons      error codes in words
"""
