"""The web page at `/ui/`.

page       what is answered: its files, and sessions
files      the page's files, the documentation's pages, and the headers they are sent with
static/    the page itself: HTML, CSS and ES modules, sent as they are; `vendor` holds libraries (scripts/vendor_web.py)
"""
