"""Who may use Stoker, and how much: keys, limits, usage.

access_control  Host and Origin, then the key behind a request
keyring         all keys, of the file and made at run time, with the settings in effect
caller          a key at run time
sessions        cookies that stand for a key, for the web page
refusals        counts and logs refused requests, and slows down guesses of keys

windows         the minutes, days and months in which limits count, and the time that they count by
limits          what was used in each window, and what is left; the headers by which clients see that
quota           limits of a key or an application, and what one request reserves of them

usage           totals by hour, key, application, serve and class
usage_report    usage added up for people
key_admin       what operators do with keys; settings_input: checks the settings that they give
access_file     `STATE/access.db`: keys, overrides, counters, usage
access_store    keeps that file in step, and applies the changes of operators
"""
