// Decoders of the typed clients: a key that must be there, a type that must fit, a word that must be
// known. Each throws where that client's decoder would fail the whole answer.

export class DecodeError extends Error {}

const fail = (at, what) => {
    throw new DecodeError(`${at}: ${what}`);
};

export const string = (v, at) => (typeof v === 'string' ? v : fail(at, `string expected, ${JSON.stringify(v)} found`));
export const bool = (v, at) => (typeof v === 'boolean' ? v : fail(at, `bool expected, ${JSON.stringify(v)} found`));
export const integer = (v, at) => (Number.isInteger(v) ? v : fail(at, `integer expected, ${JSON.stringify(v)} found`));
export const json = (v) => v;
/* null or absent are as good as a value. */
export const optional = (type) => Object.assign((v, at) => (v === undefined || v === null ? null : type(v, at)), { absent: true });
/* null is as good as a value, absent is not. */
export const nullable = (type) => (v, at) => (v === null ? null : type(v, at));
/* Absent is as good as a value, null is not. */
export const defaulted = (type, value) => Object.assign((v, at) => (v === undefined ? value : type(v, at)), { absent: true });
export const list = (type) => (v, at) => (Array.isArray(v) ? v.map((e, i) => type(e, `${at}[${i}]`)) : fail(at, 'array expected'));
export const word = (...words) => (v, at) => (words.includes(v) ? v : fail(at, `unknown variant ${JSON.stringify(v)}`));

/* Keys that the type does not know are ignored. */
export const struct = (fields) => (v, at) => {
    if (v === null || typeof v !== 'object' || Array.isArray(v)) fail(at, 'object expected');
    const out = {};
    for (const [key, type] of Object.entries(fields)) {
        if (!(key in v) && !type.absent) fail(at, `missing field ${key}`);
        out[key] = type(v[key], `${at}.${key}`);
    }
    return out;
};

/* RFC 3339 as Go's time.Parse(time.RFC3339, ...) takes it: fractions of any length, Z or an offset,
 * a day that exists. Microseconds since the epoch. */
export const rfc3339 = (v, at) => {
    const m = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(Z|[+-]\d{2}:\d{2})$/.exec(string(v, at));
    if (m === null) fail(at, `not RFC 3339: ${v}`);
    const [year, month, day, hour, minute, second] = m.slice(1, 7).map(Number);
    const days = new Date(Date.UTC(year, month, 0)).getUTCDate();
    if (month < 1 || month > 12 || day < 1 || day > days || hour > 23 || minute > 59 || second > 59) fail(at, `out of range: ${v}`);
    const whole = Date.parse(`${v.slice(0, 19)}${m[8]}`);
    return whole * 1000 + Number((m[7] ?? '').padEnd(6, '0').slice(0, 6));
};
