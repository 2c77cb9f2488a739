# The twin of read_heartbeat.py for hosts without Python. Argument: the path.
us=$(printf '\037') rs=$(printf '\036')
json() { tr '\000\n' '\037\036' | sed "s/[\\\\\"]/\\\\&/g; s/$rs/\\\\n/g; s/$us/\\\\u0000/g"; }
e=false m=null c=null
if [ -e "$1" ] || [ -L "$1" ]; then
    e=true
    m=$(stat -c %Y "$1" 2>/dev/null) && m=${m}000 || m=null
    [ -r "$1" ] && [ -f "$1" ] && c=\"$(head -c 65536 "$1" | json)\"
fi
printf '{"exists":%s,"modified_unix_ms":%s,"content":%s,"now_unix_ms":%s000}\n{"done":1}\n' "$e" "$m" "$c" "$(date +%s)"
