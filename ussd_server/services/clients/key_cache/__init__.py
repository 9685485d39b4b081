"""The key cache: `look_up` a key, and `invalidate` the keys of a client.

A change of a key must hold in every process before the caller gets the reply (docs/DECISIONS.md). Two modules ensure
it:

`generations.py`     Redis holds a random token for each client, its generation. A cached key is used only if the Redis
                     call that counts the request finds the generation unchanged; a change ends it first.
`unseen_changes.py`  A change that cannot reach Redis is counted in the database. Every process reads the count twice a
                     second, and the change is answered when all have had time to see it.

Without a proof from both, the key is read from the database.
"""
