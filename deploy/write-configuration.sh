#!/bin/sh
# write-configuration.sh QUEENCTL: docs/configuration.md on stdout.
set -eu
cat <<'END'
# Configuration

All settings are environment variables, read when a program starts. `queenctl config` shows the effective values.

## The instance (deploy/queen.sh)

| Name | Default | Meaning |
|---|---|---|
| `QUEEN_PORT` | 6632 | Port of nginx. |
| `QUEEN_BIND` | all addresses | Address that nginx listens on, for example 127.0.0.1. |
| `QUEEN_RUN_DIR` | `.run` in the checkout | Sockets, FIFOs, logs, copies of the programs, the private cluster. |
| `QUEEN_WORKERS` | 2 | Number of queen-worker processes. |
| `QUEEN_FRONT_MAX_REQUESTS` | three quarters of what the connections allow | Requests at a time, parked polls included; more are answered 429. |
| `QUEEN_DATABASE_URL` | a private cluster | libpq URI of an existing PostgreSQL, 14 or later. |
| `QUEEN_BUILD_DIR` | `build` in the checkout | Where the programs are copied from. |

## The programs

This table is generated (`make docs`) from the table that the programs read, `app/base/settings.def`.

END
env -i PATH="$PATH" "$1" config --markdown
