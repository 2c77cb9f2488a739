"""What can be done on a host, and how its answer reads: the closed set of typed commands."""

from collections.abc import Mapping

from agentops.commands.base import Command, Completed, Malformed, Observation
from agentops.commands.clearing import MoveAside, RemoveSegments
from agentops.commands.comparing import CompareFiles
from agentops.commands.deploy import DeployFiles
from agentops.commands.files import FileDigest, TailLog
from agentops.commands.gpu import GpuProcesses, GpuStatus
from agentops.commands.heartbeat import ReadHeartbeat
from agentops.commands.history import HostHistory
from agentops.commands.host_probe import ProbeHost
from agentops.commands.inspecting import InspectProcess
from agentops.commands.kernel_log import KernelLog
from agentops.commands.launch import Launch
from agentops.commands.model_check import CheckModel
from agentops.commands.observing import Observe
from agentops.commands.patching import ApplyPatch
from agentops.commands.processes import ListProcesses
from agentops.commands.rolling_back import RollBack
from agentops.commands.run_argv import RunArgv
from agentops.commands.signals import SignalProcess
from agentops.commands.sockets import Locks, Ports
from agentops.commands.space import DiskFree, SharedMemory
from agentops.commands.stopping import StopProcesses
from agentops.commands.tmux import TmuxCapture, TmuxInterrupt, TmuxSessions
from agentops.commands.transfer import Transfer
from agentops.commands.waiting import WaitUntil

__all__ = ["COMMANDS", "Command", "Completed", "Malformed", "Observation"]

_ALL: tuple[type[Command], ...] = (
    ApplyPatch,
    CheckModel,
    CompareFiles,
    DeployFiles,
    DiskFree,
    FileDigest,
    GpuProcesses,
    GpuStatus,
    HostHistory,
    InspectProcess,
    KernelLog,
    Launch,
    ListProcesses,
    Locks,
    MoveAside,
    Observe,
    Ports,
    ProbeHost,
    ReadHeartbeat,
    RemoveSegments,
    RollBack,
    RunArgv,
    SharedMemory,
    SignalProcess,
    StopProcesses,
    TailLog,
    TmuxCapture,
    TmuxInterrupt,
    TmuxSessions,
    Transfer,
    WaitUntil,
)

COMMANDS: Mapping[str, type[Command]] = {command.name: command for command in _ALL}
