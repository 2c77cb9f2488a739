"""A person who may say yes: another user of the machine, outside every tree that asks.

Here: that person's answer. What it leads to is asserted in the tests.
"""

from agentops.policy import PolicyConfig
from agentops.policy.asking import Party
from agentops.policy.cards import Card
from agentops.recover.approving import approve
from journal import Journal, SystemClock

# Nobody's uid here: 2**31 is below the kernel's limit and above what systems hand out.
SOMEBODY_ELSE = Party(uid=2**31, processes=())


def yes(journal: Journal, config: PolicyConfig, approval_id: str) -> Card:
    """Say yes as that person."""
    return approve(journal, SystemClock(), approval_id, config=config, by=SOMEBODY_ELSE)
