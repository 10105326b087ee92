#!/bin/bash
# run-tests.sh TARGET...: makes the targets one after another, all of them whatever fails, and says at the end
# how long each took and which failed.
set -u
cd "$(dirname "$(realpath "$0")")/.." || exit 1
summary='' failed=0
for target in "$@"; do
    started=$SECONDS
    echo "===== make $target"
    if make --no-print-directory "$target"; then verdict=passed; else verdict=FAILED failed=1; fi
    summary+=$(printf '%-14s %s in %d s' "$target" "$verdict" $((SECONDS - started)))$'\n'
    # Without programs nothing else says anything.
    if [ "$target" = all ] && [ $failed -ne 0 ]; then break; fi
done
printf '=====\n%s' "$summary"
exit $failed
