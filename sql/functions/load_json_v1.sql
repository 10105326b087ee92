-- load_json_v1: message counts as the answers write them. The log has no failed messages: null.
create or replace function queen.load_json_v1(p_total bigint, p_pending bigint, p_processing bigint,
                                              p_completed bigint, p_dead bigint)
returns json
language sql immutable
as $$
    select json_build_object('total', coalesce(p_total, 0), 'pending', coalesce(p_pending, 0),
                             'processing', coalesce(p_processing, 0), 'completed', coalesce(p_completed, 0),
                             'failed', null, 'deadLetter', coalesce(p_dead, 0));
$$;
