"""The only writer of state. Pages, API and websocket ask here; each transition is a compare-and-set, in one transaction
with the event that reports it, and is announced only after the commit.

Who may write a run's events: while it is `running`, the worker that holds it, through its journal; otherwise an action
here. So numbers need no lock of their own.
"""

from runs.actions.agents import check_approvals, save_agent
from runs.actions.approvals import Decision, ask_for_approvals, decide_approvals, expire_approvals
from runs.actions.claim import (
    Claim,
    claim_lost_runs,
    claim_runs,
    hand_back,
    hand_back_rest,
    release_orphans,
    renew_leases,
)
from runs.actions.conversations import (
    conversations_to_end,
    delete_conversation,
    ended_conversations,
    note_task_ended,
    purge_some,
    rename_conversation,
    reset_conversation,
    restore_conversation,
    stop_deleted_runs,
)
from runs.actions.edit import edit_run, withdraw_run
from runs.actions.ending import (
    CALL_STATES,
    STOP_FIELDS,
    Ending,
    Usage,
    close_run,
    end_run,
    keep_usage,
    make_receipt,
    show_usage,
    usage_so_far,
)
from runs.actions.refusals import Refused
from runs.actions.stop import request_stop, stop_requests
from runs.actions.stored import completed_calls, first_own_position
from runs.actions.submit import RunOrder, submit_run
from runs.actions.workers import check_in, check_out, drain_worker, report, show_pool

__all__ = [
    "CALL_STATES",
    "STOP_FIELDS",
    "Claim",
    "Decision",
    "Ending",
    "Refused",
    "RunOrder",
    "Usage",
    "ask_for_approvals",
    "check_approvals",
    "check_in",
    "check_out",
    "claim_lost_runs",
    "claim_runs",
    "close_run",
    "completed_calls",
    "conversations_to_end",
    "decide_approvals",
    "delete_conversation",
    "drain_worker",
    "edit_run",
    "end_run",
    "ended_conversations",
    "expire_approvals",
    "first_own_position",
    "hand_back",
    "hand_back_rest",
    "keep_usage",
    "make_receipt",
    "note_task_ended",
    "purge_some",
    "release_orphans",
    "rename_conversation",
    "renew_leases",
    "report",
    "request_stop",
    "reset_conversation",
    "restore_conversation",
    "save_agent",
    "show_pool",
    "show_usage",
    "stop_deleted_runs",
    "stop_requests",
    "submit_run",
    "usage_so_far",
    "withdraw_run",
]
