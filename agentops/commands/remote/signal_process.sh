# The twin of signal_process.py for hosts without Python: checks, then signals at once.
# Arguments: identity as JSON (unused here), signal, boot id, namespace, init ticks, pid, start ticks.
sig=$2 boot=$3 ns=$4 init=$5 pid=$6 start=$7
stat() {
    t=
    while IFS= read -r l || [ -n "$l" ]; do t="$t $l"; done <"/proc/$1/stat" || return 1
    t=${t##*") "}
    [ -n "$t" ]
} 2>/dev/null
say() {
    printf '{"delivered":%s,"quality":"recheck","refusal":%s,"state_before":"%s"}\n{"done":1}\n' "$1" "$2" "$3"
    exit 0
}
read -r b </proc/sys/kernel/random/boot_id
n=$(readlink /proc/self/ns/pid); n=${n#*[}; n=${n%]}
i=0; stat 1 && set -- $t && i=${20}
[ "$b" = "$boot" ] && [ "$n" = "$ns" ] && [ "$i" = "$init" ] || say false '"identity_changed"' absent
[ "$pid" -gt 1 ] || say false '"protected"' absent
p=$$
while [ "$p" -gt 0 ] 2>/dev/null && stat "$p"; do
    [ "$p" != "$pid" ] || say false '"protected"' S
    set -- $t; p=$2
done
stat "$pid" || say false '"gone"' absent
IFS= read -r comm <"/proc/$pid/comm"
case $comm in
sshd | sshd-session | sshd-auth | systemd | init | 'tmux: server' | screen | dockerd | containerd | containerd-shim | lxc-start | dbus-daemon | systemd-logind | agetty) say false '"protected"' S ;;
esac
while read -r k v; do
    case $k in NSpid:) case " $v" in *[!0-9]1) say false '"protected"' S ;; esac ;; esac
done <"/proc/$pid/status"
set -- $t
case $1 in Z | X) say false '"zombie"' "$1" ;; esac
[ "${20}" = "$start" ] || say false '"identity_changed"' "$1"
if [ "$1" = D ]; then
    same=yes w=
    IFS= read -r w 2>/dev/null <"/proc/$pid/wchan"
    case $w in kernel_clone | wait_for_vfork_done | _do_fork | do_fork) same=no ;; esac
    for _ in 1 2 3; do
        [ $same = yes ] || break
        sleep 1; stat "$pid" && set -- $t && [ "$1" = D ] || same=no; done
    [ $same = no ] || say false '"uninterruptible"' D
    stat "$pid" && set -- $t && [ "${20}" = "$start" ] || say false '"gone"' absent
fi
kill -s "$sig" "$pid" 2>/dev/null || say false '"not_permitted"' "$1"
say true null "$1"
