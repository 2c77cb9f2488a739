# The twin of list_processes.py for hosts without Python: POSIX sh, tr, sed, readlink.
# Text for a JSON string: quotes and backslashes escaped, newlines as \n, NULs as "$1".
us=$(printf '\037') rs=$(printf '\036')
json() { tr '\000\n' '\037\036' | sed "s/[\\\\\"]/\\\\&/g; s/$rs/\\\\n/g; s/$us\$//; s/$us/$1/g"; }
link() { t=$(readlink "$1" 2>/dev/null) && printf '"%s"' "$(printf %s "$t" | json ' ')" || printf null; }
# Field N (from the state on, 1-based) of a stat file, into s1..; the comm may hold anything.
stat() {
    t=
    while IFS= read -r l || [ -n "$l" ]; do t="$t $l"; done <"/proc/$1/stat" || return 1
    t=${t##*") "}
    [ -n "$t" ]
} 2>/dev/null
read -r boot </proc/sys/kernel/random/boot_id
ns=$(readlink /proc/self/ns/pid); ns=${ns#*[}; ns=${ns%]}
init=0; stat 1 && set -- $t && init=${20}
visible=true; [ -e /proc/1/stat ] || visible=false
read -r up _ </proc/uptime
hz=$(getconf CLK_TCK 2>/dev/null) || hz=100
kib=$(($(getconf PAGESIZE 2>/dev/null || echo 4096) / 1024))
sec=${up%.*} frac=${up#*.}
frac=${frac#0}
chain= p=$$
while [ "$p" -gt 0 ] 2>/dev/null && stat "$p"; do
    chain=$chain${chain:+,}$p
    set -- $t; p=$2
done
printf '{"boot_id":"%s","pid_namespace":%s,"namespace_init_start_ticks":%s,"uptime_ticks":%s,"ticks_per_s":%s,"init_visible":%s,"own":[%s]}\n' \
    "$boot" "$ns" "$init" $((sec * hz + ${frac:-0} * hz / 100)) "$hz" "$visible" "$chain"
n=1
for d in /proc/[0-9]*; do
    pid=${d#/proc/}
    stat "$pid" || continue
    set -- $t
    [ $(($7 & 2097152)) -eq 0 ] || continue
    uid= threads=0 ign=0 cgt=0 pnd=0 shd=0 comm=
    while IFS= read -r l; do
        v=${l#*:}; v=${v#?}
        case $l in
        Name:*) comm=$v ;; Uid:*) uid=${v%%[!0-9]*} ;; Threads:*) threads=$v ;;
        SigPnd:*) pnd=$v ;; ShdPnd:*) shd=$v ;; SigIgn:*) ign=$v ;; SigCgt:*) cgt=$v ;;
        esac
    done 2>/dev/null <"$d/status"
    [ -n "$uid" ] || continue
    wchan=; IFS= read -r wchan 2>/dev/null <"$d/wchan"
    launch=$(tr '\0' '\n' 2>/dev/null <"$d/environ" | sed -n 's/^AGENTOPS_LAUNCH_ID=//p')
    [ -n "$launch" ] && launch=\"$(printf %s "$launch" | json ' ')\" || launch=null
    comm=$(printf %s "$comm" | sed 's/[\\"]/\\&/g')
    words=$(head -c 8192 "$d/cmdline" 2>/dev/null | json '","')
    [ -z "$words" ] || words=\"$words\"
    printf '{"pid":%s,"ppid":%s,"pgid":%s,"sid":%s,"state":"%s","uid":%s,"threads":%s,"start_ticks":%s,"cpu_ticks":%s,"rss_kib":%s,"ignored":"%s","caught":"%s","pending":"%s","shared_pending":"%s","comm":"%s","cmdline":[%s],"exe":%s,"cwd":%s,"cgroup":"%s","wchan":"%s","launch_id":%s}\n' \
        "$pid" "$2" "$3" "$4" "$1" "$uid" "$threads" "${20}" $((${12} + ${13})) $((${22} * kib)) \
        "$ign" "$cgt" "$pnd" "$shd" "$comm" "$words" "$(link "$d/exe")" "$(link "$d/cwd")" \
        "$(json " " 2>/dev/null <"$d/cgroup")" "$wchan" "$launch"
    n=$((n + 1))
done
printf '{"done":%s}\n' "$n"
