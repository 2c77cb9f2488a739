"""From a decided run to a typed command.

Here: one builder for each command that policy asks for; what the decision only names (contents,
argv) comes from the configuration. Not here: deciding or executing.
"""

from pydantic import ValidationError

from agentops.commands import COMMANDS, Command
from agentops.commands.deploy import DeployFiles, FileToDeploy
from agentops.commands.launch import Launch
from agentops.errors import ConfigError
from agentops.policy import Job, Run
from agentops.policy.moves import EMPTY_SHA256
from agentops.recover.sources import Sources
from journal.events import JsonObject


def build(run: Run, job: Job, sources: Sources) -> Command:
    """The command that *run* means.

    Raises:
        ConfigError: the policy file holds something that the command cannot take.
    """
    try:
        match run.command:
            case "deploy_files":
                return _deploy(run.arguments, job, sources)
            case "launch":
                return _launch(run.arguments, job)
            case name:
                return COMMANDS[name].model_validate(run.arguments)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"policy: {run.command} cannot take {key} = {first['input']!r}: {first['msg']}"
        ) from error


def _launch(arguments: JsonObject, job: Job) -> Launch:
    launch = job.launch
    if launch is None:
        raise ConfigError("policy: the job has no [job.NAME.launch] table")
    port, chosen = launch.port, arguments.get("port")
    handed = {} if port is None else {port.variable: str(chosen)}
    return Launch.model_validate(
        {
            "argv": launch.argv,
            "env": {**launch.env, **handed},
            "cwd": launch.cwd,
            "log": launch.log,
            "launch_id": arguments.get("launch_id"),
            "manner": launch.manner,
        }
    )


def _deploy(arguments: JsonObject, job: Job, sources: Sources) -> DeployFiles:
    listed = arguments.get("files")
    modes = {file.path: file.mode for repair in job.repair for file in repair.files}
    files = []
    for item in listed if isinstance(listed, list) else []:
        if not isinstance(item, dict):
            continue
        path, sha256 = str(item.get("path")), str(item.get("sha256"))
        content = b"" if sha256 == EMPTY_SHA256 else sources.of(sha256)
        if content is None:
            raise ConfigError(f"policy: the contents for {path!r} were not read; check its source")
        files.append(
            FileToDeploy(
                path=path,
                content=content,
                expects=str(item.get("expects")),
                mode=modes.get(path, 0o644),
                check_python=path.endswith(".py"),
            )
        )
    return DeployFiles(files=tuple(files))
