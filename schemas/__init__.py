"""The wire: what may come in and what goes out, as the API document names it.

A body and a query are named for the message that they become, a record for what it shows.
"""
