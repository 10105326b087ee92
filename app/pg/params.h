/* Binary parameters of a prepared statement, built in one buffer (PostgreSQL manual: 55.7 message
 * formats; array format: src/include/utils/array.h, ArrayType as sent by array_send). */
#ifndef PG_PARAMS_H
#define PG_PARAMS_H

#include "base/buf.h"
#include "base/uuid.h"

/* Built-in type OIDs (catalog pg_type; fixed for ever). */
enum pg_oid {
    PG_BOOL = 16,
    PG_BYTEA = 17,
    PG_CHAR = 18,
    PG_INT8 = 20,
    PG_INT2 = 21,
    PG_INT4 = 23,
    PG_TEXT = 25,
    PG_JSONB = 3802,
    PG_UUID = 2950,
    PG_TIMESTAMPTZ = 1184,
    PG_BOOL_ARRAY = 1000,
    PG_BYTEA_ARRAY = 1001,
    PG_INT4_ARRAY = 1007,
    PG_TEXT_ARRAY = 1009,
    PG_INT8_ARRAY = 1016,
    PG_UUID_ARRAY = 2951,
};

#define PG_MAX_PARAMS 40

struct pg_params {
    struct buf bytes;
    size_t offset[PG_MAX_PARAMS]; /* of each value in bytes */
    int length[PG_MAX_PARAMS];    /* -1 = null */
    int count;
    size_t array_at; /* private: the open array's start; 0 count at array_at + 12 */
};

void pg_params_clear(struct pg_params *p);
void pg_params_free(struct pg_params *p);

void pg_param_null(struct pg_params *p);
void pg_param_bool(struct pg_params *p, bool v);
void pg_param_int4(struct pg_params *p, int32_t v);
void pg_param_int8(struct pg_params *p, int64_t v);
void pg_param_text(struct pg_params *p,
                   struct slice v); /* valid UTF-8, no NUL: checked at the edge */
void pg_param_bytea(struct pg_params *p, struct slice v);
void pg_param_uuid(struct pg_params *p, const struct uuid *v);

/* One-dimensional arrays: begin, elements in order, end. */
void pg_array_begin(struct pg_params *p, enum pg_oid element);
void pg_array_null(struct pg_params *p);
void pg_array_bool(struct pg_params *p, bool v);
void pg_array_int4(struct pg_params *p, int32_t v);
void pg_array_int8(struct pg_params *p, int64_t v);
void pg_array_bytes(struct pg_params *p, struct slice v); /* text and bytea elements */
void pg_array_uuid(struct pg_params *p, const struct uuid *v);
void pg_array_end(struct pg_params *p);

#endif
