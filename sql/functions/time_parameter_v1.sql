-- time_parameter_v1: a time that a client sent as a query parameter.
--
-- Parameters: p_name   the parameter's name, for the refusal
--             p_value  '' or NULL = not sent
-- Returns:    the time, NULL when none was sent; what does not parse is refused with SQLSTATE 22007
-- Tables:     none
-- Locks:      none
create or replace function queen.time_parameter_v1(p_name text, p_value text)
returns timestamptz
language plpgsql stable
as $$
begin
    return nullif(p_value, '')::timestamptz;
exception when data_exception then
    raise exception '% does not parse as a time, found "%"', p_name, left(p_value, 64) using errcode = '22007';
end
$$;
