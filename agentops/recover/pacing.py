"""How long a pause lasts: at least what policy decided, longer the longer the same wait goes on.

Looks have a budget, and a young job may take minutes to its first heartbeat; looking each second
would spend the budget before the start is over. Not here: what is waited for (``agentops.policy``,
whose decisions say before when not to look again, and no word on how soon after).
"""

from agentops.policy import Pause, PolicyState

# A wait may be noticed to be over late by this part of its length.
OVERSHOOT = 6
_WAITING = ("probe", "wait")


def rest_us(pause: Pause, state: PolicyState, now_us: int) -> int:
    """How long to rest at *now_us*, in microseconds; *state* is what the pause was decided on."""
    since_us = now_us
    for made in reversed(state.decisions):
        if made.action == "pause":
            since_us = made.at_us
        elif made.purpose not in _WAITING:
            break
    return max(0, pause.until_us - now_us, (now_us - since_us) // OVERSHOOT)
