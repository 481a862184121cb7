"""Python's garbage collector, told what a server is like.

It stops everything while it looks for circles among all objects that live. Of those a server has some 200,000 from its
imports alone, none of which ever dies: looking at them took 45 ms on an idle machine and 140 in the middle of a burst
of runs, for which a stop had to wait. Put aside once, they are not looked at again.
"""

import gc

# How many more objects may be made than are freed before the youngest are looked at. Python's own 700 are a few calls.
NEW_OBJECTS = 10_000


def put_imports_aside() -> None:
    """Call it when everything is loaded and nothing has happened yet."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
