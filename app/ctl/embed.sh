#!/bin/sh
# Writes C source on stdout that holds the given SQL files (see sql_files.h). Trigraphs are on in
# -std=c17, so every '?' is escaped.
set -eu
cat <<'C'
/* Generated from sql/ by app/ctl/embed.sh. */
#include "ctl/sql_files.h"

const struct sql_file sql_files[] = {
C
for file in "$@"; do
    printf '    {"%s",\n' "${file#sql/}"
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/?/\\?/g' -e 's/^/     "/' -e 's/$/\\n"/' "$file"
    printf '     ""},\n'
done
printf '    {0, 0},\n};\n'
