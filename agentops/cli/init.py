"""``agentops init``: the files of a new project, each with its remedy for the empty places."""

import argparse
from pathlib import Path

from agentops.cli.context import default_anchor, open_journal, settings_for
from agentops.cli.policies import shipped_text
from agentops.cli.printing import say
from agentops.cli.status import Status
from agentops.config.settings import FILE_NAME
from agentops.errors import UsageError
from journal import KeyStore

_POLICY = "policy.toml"
_SETTINGS = """\
# Settings of agentops for this folder. Flags and $AGENTOPS_JOURNAL beat this file.

[journal]
path = "{path}"
# Whose seals count: verify trusts this line and no key found inside a journal.
key = "{key}"
# Copies of seals go here. Best on another disk or under another user.
anchor = "{anchor}"

[policy]
file = "{policy}"

# Hosts: agentops hosts add NAME --address HOST [--layer pct:200] [--tier dev]
"""
_JOB = """
# A job: what agentops recover NAME works on. Fill in and remove the leading '# '.
# [job.dflash]
# role_match = { cmd_contains = "train_dflash_pipeline.py" }  # selects candidates, proves nothing
# supervisor = { cmd_contains = "/root/run.sh" }              # what would restart it, if anything
# [job.dflash.progress]
# heartbeat = "/root/run/heartbeat.json"
# log = "/root/train.log"
# stall_s = 300
# [job.dflash.launch]
# argv = ["python3", "-P", "train_dflash_pipeline.py", "run.json"]
# cwd = "/root"
# log = "/root/train.log"
"""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("init", help="write agentops.toml, policy.toml and a journal")
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", type=Path, default=Path(), help="of the project"
    )
    parser.set_defaults(run=_init)


def _init(arguments: argparse.Namespace) -> Status:
    folder = arguments.folder
    settings_file, policy_file = folder / FILE_NAME, folder / _POLICY
    for path in (settings_file, policy_file):
        if path.exists():
            raise UsageError(f"{path} is there already; edit it, or remove it first")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"FOLDER {folder} is a file; name a folder, there or to be made")
    folder.mkdir(parents=True, exist_ok=True)
    arguments.journal = folder / "ops.journal"
    settings = settings_for(arguments)
    with open_journal(settings) as journal:
        pinned = KeyStore(settings.places.keys).pinned(journal.journal_id)
    settings_file.write_text(
        _SETTINGS.format(
            path=arguments.journal.name,
            key=pinned.keys[-1].line,
            anchor=default_anchor(settings),
            policy=_POLICY,
        ),
        encoding="utf-8",
    )
    policy_file.write_text(shipped_text() + _JOB, encoding="utf-8")
    for path in (settings_file, policy_file, arguments.journal):
        say(f"wrote {path}")
    say("next: agentops hosts add NAME --address HOST, then describe a job in policy.toml")
    return Status.YES
