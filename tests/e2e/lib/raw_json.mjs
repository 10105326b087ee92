// Splits JSON into members and elements as the exact bytes they were written with, for tests that
// compare payloads byte for byte (JSON.parse would round numbers and fold duplicate keys).
// Texts are latin1 strings: one character is one byte. The input must be valid JSON.

const SPACE = new Set([' ', '\t', '\n', '\r']);

function skipSpace(text, at) {
    while (SPACE.has(text[at])) at++;
    return at;
}

function skipString(text, at) {
    for (at++; text[at] !== '"'; at++) {
        if (text[at] === '\\') at++;
        if (at >= text.length) throw new Error('raw_json: string without end');
    }
    return at + 1;
}

/* Index behind the value that starts at `at`. */
function skipValue(text, at) {
    let depth = 0;
    for (;;) {
        const c = text[at];
        if (c === undefined) throw new Error('raw_json: value without end');
        if (c === '"') at = skipString(text, at);
        else if (c === '{' || c === '[') { depth++; at++; }
        else if (c === '}' || c === ']') { depth--; at++; }
        else if (depth > 0 && (SPACE.has(c) || c === ',' || c === ':')) { at++; continue; }
        else while (at < text.length && !SPACE.has(text[at]) && !',:]}'.includes(text[at])) at++;
        if (depth === 0) return at;
    }
}

/* [[key, raw value], ...] of an object, in order, duplicates included. */
export function rawMembers(text) {
    let at = skipSpace(text, 0);
    if (text[at] !== '{') throw new Error(`raw_json: not an object: ${text.slice(0, 40)}`);
    const members = [];
    at = skipSpace(text, at + 1);
    while (text[at] !== '}') {
        const keyEnd = skipString(text, at);
        const key = JSON.parse(text.slice(at, keyEnd));
        at = skipSpace(text, keyEnd);
        at = skipSpace(text, at + 1); // behind ':'
        const end = skipValue(text, at);
        members.push([key, text.slice(at, end)]);
        at = skipSpace(text, end);
        if (text[at] === ',') at = skipSpace(text, at + 1);
    }
    return members;
}

/* Raw elements of an array. */
export function rawElements(text) {
    let at = skipSpace(text, 0);
    if (text[at] !== '[') throw new Error(`raw_json: not an array: ${text.slice(0, 40)}`);
    const elements = [];
    at = skipSpace(text, at + 1);
    while (text[at] !== ']') {
        const end = skipValue(text, at);
        elements.push(text.slice(at, end));
        at = skipSpace(text, end);
        if (text[at] === ',') at = skipSpace(text, at + 1);
    }
    return elements;
}

/* The raw `field` of every message of a pop answer (Buffer). */
export function rawMessages(body, field = 'data') {
    const top = new Map(rawMembers(body.toString('latin1')));
    return rawElements(top.get('messages')).map((m) => new Map(rawMembers(m)).get(field));
}

/* A string as the latin1 text of its UTF-8 bytes. */
export function bytes(text) {
    return Buffer.from(text, 'utf8').toString('latin1');
}
