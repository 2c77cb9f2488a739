# The twin of files.py for hosts without Python. Arguments: tail|digest, path, bytes.
q=$1 f=$2 n=$3
us=$(printf '\037') rs=$(printf '\036')
json() { tr '\000\n' '\037\036' | sed "s/[\\\\\"]/\\\\&/g; s/$rs/\\\\n/g; s/$us/\\\\u0000/g"; }
e=false k=null s=null m=null i=null p=null a=null b=null
if [ -e "$f" ]; then
    e=true
    if [ -f "$f" ]; then k='"file"'; elif [ -d "$f" ]; then k='"folder"'; else k='"other"'; fi
    s=$(stat -L -c %s "$f") m=$(stat -L -c %Y "$f")000 i=$(stat -L -c %i "$f")
    if [ "$k" = '"file"' ]; then
        if [ ! -r "$f" ]; then p='"Permission denied"'
        elif [ "$q" = tail ]; then
            a=\"$(tail -c "$n" "$f" | json)\"
            b=$((s > n ? s - n : 0))
        else
            a=$(sha256sum <"$f") && a=\"${a%% *}\" && b=$s
        fi
    fi
fi
[ "$q" = tail ] && x=tail y=tail_offset || x=sha256 y=hashed_bytes
printf '{"exists":%s,"kind":%s,"size_bytes":%s,"modified_unix_ms":%s,"inode":%s,"problem":%s,"now_unix_ms":%s000,"%s":%s,"%s":%s}\n{"done":1}\n' \
    "$e" "$k" "$s" "$m" "$i" "$p" "$(date +%s)" "$x" "$a" "$y" "$b"
