"""What a log says: known failure texts with their roles. Pure; streams of any size."""

from agentops.diagnosis.diagnose import Diagnosis, Finding, diagnose
from agentops.diagnosis.signature import Signature

__all__ = ["Diagnosis", "Finding", "Signature", "diagnose"]
