# The twin of read_heartbeat.py for hosts without Python. Argument: the path.
e=false m=null c=null
if [ -e "$1" ] || [ -L "$1" ]; then
    e=true
    m=$(stat -c %Y "$1" 2>/dev/null) && m=${m}000 || m=null
    [ -r "$1" ] && [ -f "$1" ] && c=\"$(od -An -v -tx1 -N 65536 "$1" | tr -d ' \n')\"
fi
printf '{"exists":%s,"modified_unix_ms":%s,"content_hex":%s,"now_unix_ms":%s000}\n{"done":1}\n' "$e" "$m" "$c" "$(date +%s)"
