"""The only writer of state. Pages, API and websocket ask here; each transition is a compare-and-set, in one transaction
with the event that reports it, and is announced only after the commit.

Who may write a run's events: while it is `running`, the worker that holds it, through its journal; otherwise an action
here. So numbers need no lock of their own.
"""

from runs.actions.agents import save_agent
from runs.actions.claim import (
    Claim,
    claim_lost_runs,
    claim_runs,
    hand_back,
    hand_back_rest,
    release_orphans,
    renew_leases,
)
from runs.actions.conversations import rename_conversation
from runs.actions.ending import (
    CALL_STATES,
    STOP_FIELDS,
    Ending,
    Usage,
    end_run,
    make_receipt,
    usage_of,
    usage_so_far,
)
from runs.actions.refusals import Refused
from runs.actions.stop import request_stop, stop_requests
from runs.actions.submit import RunOrder, submit_run

__all__ = [
    "CALL_STATES",
    "STOP_FIELDS",
    "Claim",
    "Ending",
    "Refused",
    "RunOrder",
    "Usage",
    "claim_lost_runs",
    "claim_runs",
    "end_run",
    "hand_back",
    "hand_back_rest",
    "make_receipt",
    "release_orphans",
    "rename_conversation",
    "renew_leases",
    "request_stop",
    "save_agent",
    "stop_requests",
    "submit_run",
    "usage_of",
    "usage_so_far",
]
