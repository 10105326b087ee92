/* queenctl: the operator's tool. Finds the command and its options. */
#include "ctl/ctl.h"

#include "base/logger.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: queenctl <command> [option]\n"
    "\n"
    "  migrate [--allow-newer]  bring the database schema to this release; may run any number of\n"
    "                           times and on several hosts at once. A database that belongs to a\n"
    "                           newer release is refused, or left as it is with --allow-newer.\n"
    "  status [--json]          processes, counters, ack registry, database\n"
    "  registry                 ack registry only\n"
    "  config [--markdown]      effective settings; with --markdown the reference table\n"
    "  shm-remove [--force]     remove the shared memory segment, unless a process uses it\n"
    "  help                     this text\n"
    "\n"
    "Settings come from the environment (queenctl config). status, registry and shm-remove have "
    "to\n"
    "run as the user of the instance: the segment's name holds the user id.\n"
    "\n"
    "Exit codes: 0 done; 1 failed, the reason is on stderr; 2 wrong usage; 3 (status) shown, but\n"
    "the database cannot be reached.\n";

static int config_run(const struct settings *settings, bool markdown)
{
    struct buf out = {0};
    settings_describe(settings, markdown, &out);
    bool done = fwrite(out.p, 1, out.n, stdout) == out.n && fflush(stdout) == 0;
    buf_free(&out);
    return done ? CTL_OK : CTL_FAILED;
}

static int command_run(const struct settings *s, const char *command, bool option)
{
    if (strcmp(command, "migrate") == 0)
        return migrate_run(s, option);
    if (strcmp(command, "status") == 0)
        return status_run(s, option);
    if (strcmp(command, "registry") == 0)
        return registry_run(s);
    if (strcmp(command, "config") == 0)
        return config_run(s, option);
    return shm_remove_run(s, option);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name, *option;
    } commands[] = {{"migrate", "--allow-newer"},
                    {"status", "--json"},
                    {"registry", NULL},
                    {"config", "--markdown"},
                    {"shm-remove", "--force"}};
    struct settings settings;
    struct err err;
    logger_init("queenctl", LOGGER_INFO);
    if (argc == 2 && (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0)) {
        (void)fputs(help, stdout);
        return CTL_OK;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands && argc >= 2; i++) {
        const char *option = commands[i].option;
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        if (argc > 3 || (argc == 3 && (option == NULL || strcmp(argv[2], option) != 0)))
            break;
        if (!settings_load(&settings, &err) || !logger_set_level(settings.log_level, &err)) {
            logger_error("settings", "%s", err.text);
            return CTL_FAILED;
        }
        return command_run(&settings, argv[1], argc == 3);
    }
    (void)fputs(help, stderr);
    return CTL_USAGE;
}
