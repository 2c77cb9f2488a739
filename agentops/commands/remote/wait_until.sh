# The twin of wait_until.py for hosts without Python; knows process_absent only.
# Arguments: condition as JSON (unused), timeout ms, poll ms, kind, one identity a word.
timeout=$2 poll=$3 kind=$4
[ "$kind" = process_absent ] || { echo "waiting for $kind needs python3 3.9 or newer" >&2; exit 69; }
shift 4
stat() {
    t=
    while IFS= read -r l || [ -n "$l" ]; do t="$t $l"; done <"/proc/$1/stat" || return 1
    t=${t##*") "}
    [ -n "$t" ]
} 2>/dev/null
now() { read -r up _ </proc/uptime; s=${up%.*} f=${up#*.}; f=${f#0}; now=$((s * 1000 + ${f:-0} * 10)); }
read -r boot </proc/sys/kernel/random/boot_id
ns=$(readlink /proc/self/ns/pid); ns=${ns#*[}; ns=${ns%]}
first=0; stat 1 && { set -f; first=$(set -- $t; echo "${20}"); }
pause=$((poll / 1000)).$(printf %03d $((poll % 1000)))
now; start=$now polls=0 series= last=none
while :; do
    alive= unreaped= n=0 blind=
    for identity; do
        b=${identity%% *} r=${identity#* }
        i=${r%% *}; r=${r#* }; f=${r%% *}; r=${r#* }; pid=${r%% *} ticks=${r#* }
        [ "$b" = "$boot" ] || continue
        [ "$i" = "$ns" ] || { blind='"blind":"other_namespace"'; break; }
        [ "$f" = "$first" ] || continue
        stat "$pid" || continue
        state=${t%% *}
        [ "$(set -- $t; echo "${20}")" = "$ticks" ] || continue
        case $state in Z | X) unreaped=$unreaped${unreaped:+,}$pid ;; *) alive=$alive${alive:+,}$pid n=$((n + 1)) ;; esac
    done
    polls=$((polls + 1)); now; elapsed=$((now - start))
    [ -z "$blind" ] || n=null
    [ "$n" = "$last" ] || series="$series${series:+,}[$elapsed,$n]" last=$n
    met=false; [ "$n" = 0 ] && met=true
    { [ $met = true ] || [ $((elapsed + poll)) -gt "$timeout" ]; } && break
    sleep "$pause" 2>/dev/null || sleep 1
done
[ -n "$blind" ] && detail=$blind || detail="\"alive\":[$alive],\"unreaped\":[$unreaped]"
printf '{"met":%s,"elapsed_ms":%s,"polls":%s,"series":[%s],"detail":{%s}}\n{"done":1}\n' "$met" "$elapsed" "$polls" "$series" "$detail"
