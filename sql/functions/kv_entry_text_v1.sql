-- kv_entry_text_v1: the members of a key in an answer, without braces; the value's JSON as it was sent,
-- left out when p_value is NULL.
create or replace function queen.kv_entry_text_v1(p_key text, p_value text, p_version bigint,
                                                  p_expires_at timestamptz, p_updated_at timestamptz)
returns text
language sql immutable
as $$
    select '"key":' || to_json(p_key)::text || coalesce(',"value":' || p_value, '')
           || ',"version":' || p_version || ',"expiresAt":' || queen.time_text_v1(p_expires_at)
           || ',"updatedAt":' || queen.time_text_v1(p_updated_at);
$$;
