"""What can be done on a host, and how its answer reads: the closed set of typed commands."""

from collections.abc import Mapping

from agentops.commands.base import Command, Completed, Malformed, Observation
from agentops.commands.deploy import DeployFiles
from agentops.commands.files import FileDigest, TailLog
from agentops.commands.gpu import GpuProcesses, GpuStatus
from agentops.commands.heartbeat import ReadHeartbeat
from agentops.commands.host_probe import ProbeHost
from agentops.commands.launch import Launch
from agentops.commands.model_check import CheckModel
from agentops.commands.processes import ListProcesses
from agentops.commands.signals import SignalProcess
from agentops.commands.waiting import WaitUntil

__all__ = ["COMMANDS", "Command", "Completed", "Malformed", "Observation"]

_ALL: tuple[type[Command], ...] = (
    CheckModel,
    DeployFiles,
    FileDigest,
    GpuProcesses,
    GpuStatus,
    Launch,
    ListProcesses,
    ProbeHost,
    ReadHeartbeat,
    SignalProcess,
    TailLog,
    WaitUntil,
)

COMMANDS: Mapping[str, type[Command]] = {command.name: command for command in _ALL}
