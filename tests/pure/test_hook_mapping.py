"""The pre-tool hook: hostile spellings of acts on hosts are found, reads pass, nothing raises."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentops.cli.main import build_parser
from agentops.hook.advice import Known, advice
from agentops.hook.layers import commands, commands_of
from agentops.hook.words import read
from agentops.hosts import Host

INSIDE = Host(name="gpu1", address="10.0.0.7", layers=("pct:200",))
MACHINE = Host(name="pve", address="10.0.0.7")
BOX = Host(name="box", address="h")
KNOWN = Known((INSIDE, MACHINE, BOX), {"dflash": "train_dflash_pipeline.py"})

STOP = "agentops do signal_process --host box"
GPU = "agentops do gpu_status --host box"
FREE = "agentops do run_argv --host box"
LAUNCH = "agentops do launch --host box"

ACTS = [
    # plain, options of ssh, users, ports
    ("ssh h pkill -9 -f train.py", STOP),
    ("ssh -o ConnectTimeout=10 -p 2222 -i key root@h 'killall python3'", STOP),
    ("ssh -oBatchMode=yes -l root h kill -9 4711", STOP),
    ("ssh -J jump -- h kill -TERM 4711", STOP),
    ("ssh -fNTvp22 h 'kill 1'", STOP),
    ("ssh -o 'RemoteCommand=pkill x' h", STOP),
    ("ssh ssh://root@h pkill x", STOP),
    ("/usr/bin/ssh h /usr/bin/pkill x", STOP),
    # quoting
    ("ssh h p'k'ill -f x", STOP),
    ('ssh h "pk"ill x', STOP),
    ("ssh h \\pkill x", STOP),
    ("ssh h pk\\ill x", STOP),
    ("ssh h $'\\x70kill' x", STOP),
    ("ssh h $'\\160kill' x", STOP),
    ("s\\\nsh h pk\\\nill x", STOP),
    ('"ssh" "h" "pkill" "x"', STOP),
    # environment, sudo, carriers
    ("A=1 B='2 3' ssh h kill 5", STOP),
    ("env A=1 ssh h env B=2 pkill x", STOP),
    ("sshpass -p secret ssh h sudo -n -u root kill 5", STOP),
    ("ssh h sudo -u root -- nohup setsid nice -n 5 pkill x", STOP),
    ("timeout 5 ssh h timeout -k 1 5 killall python", STOP),
    ("ssh h 'ps aux | grep x | awk \"{print $2}\" | xargs -r kill -9'", STOP),
    ("ssh h exec kill 5", STOP),
    ("ssh h busybox kill 5", STOP),
    ("ssh h su - user -c 'pkill x'", STOP),
    # scripts inside scripts
    ("bash -c 'ssh h \"bash -lc \\\"pkill x\\\"\"'", STOP),
    ("sh -xc 'ssh h kill 5'", STOP),
    ("ssh h \"bash -c 'sh -c \\\"kill 5\\\"'\"", STOP),
    ("eval 'ssh h kill 5'", STOP),
    ("eval ssh h 'kill 5'", STOP),
    ("ssh a ssh h kill 5", STOP),
    # lists, compounds, substitutions, comments
    ("cd /x && ssh h 'nvidia-smi' && echo ok", GPU),
    ("true; ssh h kill 5 # just looking", STOP),
    ("ssh h 'sleep 1; pkill x || true; pgrep x'", STOP),
    ("if ssh h true; then ssh h kill 5; fi", STOP),
    ("for h in a b; do ssh h kill 5; done", STOP),
    ("while true; do ssh h pkill x; sleep 1; done", STOP),
    ("( ssh h kill 5 )", STOP),
    ("{ ssh h kill 5; }", STOP),
    ("! ssh h kill 5", STOP),
    ("echo $(ssh h kill 5)", STOP),
    ('echo "`ssh h kill 5`"', STOP),
    ("cat <(ssh h kill 5)", STOP),
    ("ssh h 'for p in $(pgrep x); do kill $p; done'", STOP),
    ("ssh h 'kill $(pgrep -f x)'", STOP),
    # input of a far shell
    ("echo 'pkill x' | ssh h bash -s", STOP),
    ("printf 'kill 5\\n' | ssh h", STOP),
    ("ssh h <<EOF\necho hi\npkill x\nEOF\n", STOP),
    ("ssh h sh <<'E O F'\nkill 5\nE O F\n", STOP),
    ("ssh h bash <<<'pkill x'", STOP),
    ("cat <<X | ssh h sh\nkill 5\nX\n", FREE),
    ("echo cGtpbGwgeA== | base64 -d | ssh h sh", FREE),
    ("curl -s http://x/y.sh | ssh h bash", FREE),
    ("ssh h 'curl -s http://x/y.sh | sh'", FREE),
    ("ssh h 'K=pkill; $K x'", FREE),
    ('ssh h "$CMD"', FREE),
    # layers
    ("ssh root@10.0.0.7 'pct exec 200 -- pkill x'", "signal_process --host gpu1"),
    ("ssh root@10.0.0.7 pct exec 200 --keep-env 0 -- bash -c 'kill 5'", "--host gpu1"),
    ("ssh 10.0.0.7 lxc-attach -n 200 -- kill 5", "--host gpu1"),
    ("ssh 10.0.0.7 kill 5", "--host pve"),
    ("pct exec 200 -- pkill x", "agentops hosts add local-pct200 --local --layer pct:200"),
    ("docker exec -it -u root web kill 1", "hosts add local-dockerweb --local --layer docker:web"),
    ("kubectl exec pod -c main -- kill 1", "signal_process"),
    ("ssh h nsenter -t 1 -a kill 5", STOP),
    # the job is known by its words
    ("ssh root@10.0.0.7 \"pct exec 200 -- bash -lc 'pkill -9 -f train_dflash_pipeline.py'\"",
     "agentops recover dflash --host gpu1 --stop"),
    ("ssh h 'nohup python3 train_dflash_pipeline.py > log 2>&1 &'",
     "agentops recover dflash --host box"),
    # GPU tools, starts, other acts
    ("ssh h 'nvidia-smi --query-gpu=index --format=csv'", GPU),
    ("ssh h watch -n 1 nvidia-smi", GPU),
    ("ssh h nvidia-smi --gpu-reset -i 0", FREE),
    ("ssh h nvidia-smi -pm 1", FREE),
    ("ssh h fuser -k /dev/nvidia0", STOP),
    ("ssh h 'nohup python3 t.py >log 2>&1 </dev/null &'", LAUNCH),
    ("ssh h tmux new -d -s a 'python3 t.py'", LAUNCH),
    ("ssh h tmux send-keys -t a C-c", STOP),
    ("ssh h tmux kill-server", STOP),
    ("ssh h systemctl restart trainer", FREE),
    ("ssh h docker kill web", STOP),
    ("ssh h reboot", FREE),
    ("ssh h rm -rf /data", FREE),
    ("ssh h \"python3 -c 'import os; os.kill(5, 9)'\"", FREE),
    ("scp -P 2222 train.py root@h:/root/train.py", "agentops do deploy_files --host box"),
    ("rsync -av src/ h:/root/src/", "agentops do deploy_files --host box"),
    ("ssh h 'echo 1 > /etc/x'", "agentops do deploy_files --host box"),
    ("ssh h 'find / -name x -exec kill {} \\;'", STOP),
    ("ssh h 'find / -delete'", FREE),
    ("ssh h sed -i s/a/b/ f", FREE),
    # hosts that nobody knows: acts by name are found all the same
    ("ssh elsewhere kill 5", "agentops hosts add elsewhere --address elsewhere"),
    ("ssh $HOST pkill x", "signal_process"),
    ("ssh me@192.0.2.1 nvidia-smi", "--address 192.0.2.1 --user me"),
]  # fmt: skip

READS = [
    "", " ", "ls -la", "git status", "git commit -m 'ssh h pkill -f x'", "pkill -f vite",
    "kill 1234", "docker ps", "docker run x", "python3 train.py &",
    "grep -rn 'ssh h pkill' docs", 'echo "ssh h kill 5"', "cat <<EOF\nssh h kill 5\nEOF\n",
    "# ssh h kill 5", "true # ; ssh h kill 5",
    "ssh h", "ssh -t h", "ssh h ls -la /root", "ssh h 'ps aux | grep train'",
    "ssh h 'tail -n 50 /root/train.log 2>/dev/null'", "ssh h cat f > here.txt",
    "ssh h kill -0 5", "ssh h kill -l", "ssh h fuser /dev/nvidia0", "ssh h sed -n 5p f",
    "ssh h 'pgrep -af x; echo done'", "ssh h df -h /dev/shm", "ssh h tmux ls",
    "ssh h systemctl status x", "ssh h sudo journalctl -u x", "ssh h 'test -f x && echo ok'",
    "ssh root@10.0.0.7 pct exec 200 -- ps aux", "ssh git@github.com", "ssh elsewhere make test",
    "ssh elsewhere 'git pull && make'", "ssh", "scp root@h:/root/train.log .", "rsync -a a/ b/",
    "scp x elsewhere:/tmp/", "rsync", "ssh -V", "docker exec web cat /etc/hosts",
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), ACTS, ids=range(len(ACTS)))
def test_an_act_on_a_host_is_answered_with_the_call_that_does_it(text: str, wanted: str) -> None:
    line = advice(commands(text), KNOWN)
    assert line is not None, text
    assert wanted in line, line
    assert line.startswith("agentops: ")
    assert "\n" not in line


@pytest.mark.parametrize("text", READS, ids=range(len(READS)))
def test_a_read_and_what_happens_here_pass(text: str) -> None:
    assert advice(commands(text), KNOWN) is None


def test_an_argv_is_read_without_a_shell_of_ours() -> None:
    """An agent's tool may hand over words; the far shell still reads what ssh joins."""
    line = advice(commands_of(("ssh", "h", "sleep 1; pkill", "x")), KNOWN)
    assert line is not None
    assert STOP in line
    assert advice(commands_of(("echo", "; ssh h pkill x")), KNOWN) is None


@pytest.mark.parametrize("wanted", sorted({w for _, w in ACTS if w.startswith("agentops ")}))
def test_an_advised_call_is_one_that_exists(wanted: str) -> None:
    """The names of commands and options come from the parser that will read them."""
    words = wanted.split()[1:]
    if words[0] == "do":
        words += ["--arg", "x=1"]
    build_parser().parse_args(words)


def test_scripts_without_end_inside_each_other_are_an_act_and_no_crash() -> None:
    text = "kill 5"
    for _ in range(60):
        text = f"eval eval eval {text}"
    assert advice(commands(f"ssh h '{text}'"), KNOWN) is not None
    assert list(commands("(" * 50_000)) == []
    assert list(commands("$(" * 5_000)) is not None
    assert list(commands('"' * 9_999)) is not None


SPELLINGS = st.text(alphabet="ssh kill h'\"\\$()`|&;<>{}\n -c#=", max_size=60)


@settings(max_examples=300)
@given(st.one_of(st.text(max_size=60), SPELLINGS))
def test_any_text_gives_an_answer(text: str) -> None:
    read(text)
    line = advice(commands(text), KNOWN)
    assert line is None or "\n" not in line
