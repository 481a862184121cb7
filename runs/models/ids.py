"""Public ids: a prefix that says what it is, and 96 random bits that tell nothing."""

import secrets


def new_run_id() -> str:
    return "run_" + secrets.token_hex(12)


def new_conversation_id() -> str:
    return "conv_" + secrets.token_hex(12)


def new_approval_id() -> str:
    return "appr_" + secrets.token_hex(12)


def new_message_id() -> str:
    return "msg_" + secrets.token_hex(12)
