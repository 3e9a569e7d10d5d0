"""Staging: a model comes into the vault while others are served, and is there only when it is whole and proved.

orders    what is fetched from where, and what it will be called (pure)
decide    is it there already, and is there room (pure)
box       the place under the vault where it grows, who works in it, and what is known of it
stager    look, fetch, prove, arrive; the fetching itself is `rehydrate`'s
vault     what is in the vault: models, parts, sizes; what was begun; taking one out
priority  behind everybody who serves
"""
