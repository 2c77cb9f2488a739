"""The catalogue in matching order: specific texts before general ones.

Here: the order, and look-up by id. Not here: the rows themselves, which stand by subject in the
neighbouring modules.
"""

from collections.abc import Mapping
from types import MappingProxyType

from agentops.diagnosis.signature import Signature
from agentops.diagnosis.stopping import STOPPING

CATALOGUE: tuple[Signature, ...] = (*STOPPING,)
BY_ID: Mapping[str, Signature] = MappingProxyType({row.id: row for row in CATALOGUE})
