/* Refusals of key/value and timer calls. */
#include "worker/refusal.h"

#include "base/logger.h"
#include "pg/retry.h"
#include "wire/json_write.h"

#include <stdarg.h>
#include <stdio.h>

bool refusal_set(struct refusal *out, int status, const char *error, const char *reason,
                 const char *detail, ...)
{
    va_list ap;
    out->status = status;
    (void)snprintf(out->error, sizeof out->error, "%s", error);
    (void)snprintf(out->reason, sizeof out->reason, "%s", reason);
    va_start(ap, detail);
    (void)vsnprintf(out->detail.text, sizeof out->detail.text, detail, ap);
    va_end(ap);
    return false;
}

/* SQL raises "code_word: text"; timers also plain texts that begin with QTIMER. */
static void refusal_from_text(struct refusal *out, const char *area, int status, const char *error,
                              const char *text)
{
    size_t word = strspn(text, "abcdefghijklmnopqrstuvwxyz_"), prefix = strlen(area);
    if (text[word] == ':' && strncmp(text, area, prefix) == 0 && text[prefix] == '_' &&
        word < sizeof out->reason) {
        char reason[sizeof out->reason];
        (void)snprintf(reason, sizeof reason, "%.*s", (int)word, text);
        (void)refusal_set(out, status, error, reason, "%s",
                          text + word + strspn(text + word, ": "));
    } else if (strncmp(text, "QTIMER", 6) == 0) {
        (void)refusal_set(out, status, error, text, "%s", "");
    } else {
        (void)refusal_set(out, status, error, error, "%s", text);
    }
}

void refusal_from_outcome(struct refusal *out, const char *area, const struct pg_outcome *outcome,
                          bool unsettled)
{
    char bad[48], unavailable[48], failed[48], misconfigured[48], timeout[48];
    (void)snprintf(bad, sizeof bad, "%s_bad_request", area);
    (void)snprintf(unavailable, sizeof unavailable, "%s_unavailable", area);
    (void)snprintf(failed, sizeof failed, "%s_error", area);
    (void)snprintf(misconfigured, sizeof misconfigured, "%s_misconfigured", area);
    (void)snprintf(timeout, sizeof timeout, "%s_timeout", area);
    if (unsettled || outcome->status == PG_UNKNOWN) {
        (void)refusal_set(out, 503, unavailable, "outcome_unknown", "%s",
                          "the call may or may not have been applied");
    } else if (outcome->status == PG_NOT_SENT) {
        (void)refusal_set(out, 503, unavailable, timeout, "%s", "the database is not available");
    } else if (strcmp(outcome->sqlstate, "22001") == 0) {
        refusal_from_text(out, area, 413, "payload_too_large", outcome->text);
    } else if (memcmp(outcome->sqlstate, "22", 2) == 0) {
        refusal_from_text(out, area, 400, bad, outcome->text);
    } else if (strcmp(outcome->sqlstate, "QS001") == 0) {
        char code[48];
        (void)snprintf(code, sizeof code, "%.*s", (int)strcspn(outcome->text, ":"), outcome->text);
        (void)refusal_set(out, 503, code, code, "%s", "");
    } else if (pg_outcome_may_pass(outcome)) {
        (void)refusal_set(out, 503, unavailable, outcome->sqlstate, "%s", outcome->text);
    } else {
        bool schema = memcmp(outcome->sqlstate, "42", 2) == 0;
        logger_error(area, "call failed: %s %s", outcome->sqlstate, outcome->text);
        (void)refusal_set(out, 500, schema ? misconfigured : failed, outcome->sqlstate, "%s", "");
    }
}

void refusal_answer(struct request *r, const struct refusal *refusal)
{
    struct buf body = {0};
    BUF_PUT_LITERAL(&body, "{\"error\":");
    json_write_string(&body, slice_of(refusal->error));
    BUF_PUT_LITERAL(&body, ",\"reason\":");
    json_write_string(&body, slice_of(refusal->reason));
    if (refusal->detail.text[0] != '\0') {
        BUF_PUT_LITERAL(&body, ",\"detail\":");
        json_write_string(&body, slice_of(refusal->detail.text));
    }
    buf_putc(&body, '}');
    request_answer(r, refusal->status, NULL,
                   refusal->status == 503 ? SLICE_LITERAL("Retry-After: 1\r\n") : (struct slice){0},
                   &body);
}
