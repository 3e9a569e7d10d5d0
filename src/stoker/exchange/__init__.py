"""One conversation with a model server, whoever starts it.

leasing          a lease, held and given back
call             a client's request under way            formatter  the request as the serve wants it
check            checks of an answer                     recorder   what was asked and answered, for grading
internal_client  our own requests: judge, classifier     waiting    keeps a waiting client's connection alive
"""
