# The twin of probe_host.py for hosts without Python.
text() { printf '"%s"' "$(printf %s "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g')"; }
stat() {
    t=
    while IFS= read -r l || [ -n "$l" ]; do t="$t $l"; done <"/proc/$1/stat" || return 1
    t=${t##*") "}
    [ -n "$t" ]
} 2>/dev/null
# First executable of that name in a colon-separated list of folders.
found() {
    rest=$2:
    while [ -n "$rest" ]; do
        f=${rest%%:*}; rest=${rest#*:}
        [ -n "$f" ] && [ -x "$f/$1" ] && [ ! -d "$f/$1" ] && { printf %s "$f/$1"; return 0; }
    done
    return 1
}
read -r boot </proc/sys/kernel/random/boot_id
ns=$(readlink /proc/self/ns/pid); ns=${ns#*[}; ns=${ns%]}
init=0; visible=false; stat 1 && set -- $t && init=${20} && visible=true
read -r up _ </proc/uptime
hz=$(getconf CLK_TCK 2>/dev/null) || hz=100
sec=${up%.*} frac=${up#*.}; frac=${frac#0}
total=0 available=0
while read -r k v _; do
    case $k in MemTotal:) total=$v ;; MemAvailable:) available=$v ;; esac
done </proc/meminfo
read -r load _ </proc/loadavg
cpus=$(nproc 2>/dev/null) || cpus=$(grep -c '^processor' /proc/cpuinfo)
tools= off= extra=/usr/local/bin:/usr/local/nvidia/bin:/opt/conda/bin
for x in sh bash python3 timeout setsid ps tmux nvidia-smi systemctl docker pct sudo nsenter unshare busybox sha256sum ss dmesg strace py-spy; do
    if w=$(found "$x" "$PATH"); then w=$(text "$w")
    else
        w=null
        o=$(found "$x" "$extra") && off="$off${off:+,}\"$x\":$(text "$o")"
    fi
    tools="$tools${tools:+,}\"$x\":$w"
done
path= rest=$PATH:
while [ -n "$rest" ]; do f=${rest%%:*}; rest=${rest#*:}; path="$path${path:+,}$(text "$f")"; done
comm=; read -r comm 2>/dev/null </proc/1/comm
home=null; [ -n "${HOME+x}" ] && home=$(text "$HOME")
login=null; [ -n "${SHELL+x}" ] && login=$(text "$SHELL")
cgroup=; while IFS= read -r l; do cgroup="$cgroup${cgroup:+\\n}$l"; done </proc/self/cgroup
limits=
while IFS= read -r l; do
    case $l in
        "Max open files"*) n=open_files v=${l#Max open files} ;;
        "Max processes"*) n=processes v=${l#Max processes} ;;
        "Max locked memory"*) n=locked_memory_bytes v=${l#Max locked memory} ;;
        "Max core file size"*) n=core_bytes v=${l#Max core file size} ;;
        *) continue ;;
    esac
    set -- $v
    limits="$limits${limits:+,}\"$n\":\"$1\""
done </proc/self/limits
# The smallest limit on the way up from each control group; 10^18 and more means none.
smallest=
while IFS= read -r l; do
    p=${l#*:*:}
    case $l in
        0::*) top=/sys/fs/cgroup f=memory.max ;;
        *:memory:*|*,memory:*|*:memory,*) top=/sys/fs/cgroup/memory f=memory.limit_in_bytes ;;
        *) continue ;;
    esac
    while :; do
        v=; { read -r v <"$top${p%/}/$f"; } 2>/dev/null
        case $v in ''|*[!0-9]*) ;; *)
            if [ ${#v} -lt 19 ] && { [ -z "$smallest" ] || [ "$v" -lt "$smallest" ]; }; then smallest=$v; fi ;;
        esac
        case $p in ''|/) break ;; esac
        p=${p%/*}
    done
done </proc/self/cgroup
[ -z "$smallest" ] || limits="$limits${limits:+,}\"cgroup_memory_bytes\":\"$smallest\""
printf '{"boot_id":"%s","pid_namespace":%s,"namespace_init_start_ticks":%s,"uptime_ticks":%s,"ticks_per_s":%s,"unix_ms":%s000,' \
    "$boot" "$ns" "$init" $((sec * hz + ${frac:-0} * hz / 100)) "$hz" "$(date +%s)"
printf '"hostname":%s,"kernel":%s,"machine":%s,"python":null,"pidfd":false,"uid":%s,"home":%s,"login_shell":%s,"path":[%s],"tools":{%s},"tools_off_path":{%s},' \
    "$(text "$(uname -n)")" "$(text "$(uname -r)")" "$(text "$(uname -m)")" "$(id -u)" "$home" "$login" "$path" "$tools" "$off"
printf '"cpus":%s,"load_1m":"%s","memory_total_kib":%s,"memory_available_kib":%s,"cgroup":"%s\\n","init_comm":%s,"init_visible":%s,"limits":{%s},"shell_tax_us":null}\n{"done":1}\n' \
    "$cpus" "$load" "$total" "$available" "$cgroup" "$(text "$comm")" "$visible" "$limits"
