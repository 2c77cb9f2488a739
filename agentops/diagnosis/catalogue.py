"""The catalogue in matching order: specific texts before general ones.

Here: the order, and look-up by id. Not here: the rows themselves, which stand by subject in the
neighbouring modules.
"""

from collections.abc import Mapping
from types import MappingProxyType

from agentops.diagnosis.compiling import COMPILING
from agentops.diagnosis.data import DATA
from agentops.diagnosis.general import GENERAL
from agentops.diagnosis.machine import MACHINE
from agentops.diagnosis.memory import MEMORY
from agentops.diagnosis.network import NETWORK
from agentops.diagnosis.signature import Signature
from agentops.diagnosis.stopping import STOPPING
from agentops.diagnosis.xid import XID

CATALOGUE: tuple[Signature, ...] = tuple(
    row.compiled()
    for row in (*STOPPING, *XID, *MEMORY, *COMPILING, *NETWORK, *MACHINE, *DATA, *GENERAL)
)
BY_ID: Mapping[str, Signature] = MappingProxyType({row.id: row for row in reversed(CATALOGUE)})
