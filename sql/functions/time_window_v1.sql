-- time_window_v1: the window of a time series and the width of its points.
--
-- Parameters: p_from, p_to  query parameters, '' = not sent: until now; p_span before that
-- Returns:    [since, until] and minutes per point: 1 up to 60 min, 5 to 6 h, 15 to 24 h, 60 to 7 d, else 360.
--             What does not parse, and a window of more than ten years, is refused (class 22).
-- Tables:     none
-- Locks:      none
create or replace function queen.time_window_v1(p_from text, p_to text, p_span interval,
                                                out since timestamptz, out until timestamptz, out minutes int)
language plpgsql stable
as $$
declare
    v_span interval;
begin
    until := coalesce(queen.time_parameter_v1('to', p_to), clock_timestamp());
    since := coalesce(queen.time_parameter_v1('from', p_from), until - p_span);
    if not isfinite(since) or not isfinite(until) or until - since > interval '3660 days' then
        raise exception 'from and to are more than ten years apart' using errcode = '22023';
    end if;
    v_span := until - since;
    minutes := case when v_span <= interval '1 hour' then 1 when v_span <= interval '6 hours' then 5
                    when v_span <= interval '1 day' then 15 when v_span <= interval '7 days' then 60
                    else 360 end;
end
$$;
