-- kv_is_number_v1: whether a JSON text is a number that incr can compute with: at most 4,000 characters
-- and an exponent of at most three digits, which keeps every sum far inside numeric's range.
create or replace function queen.kv_is_number_v1(p_value text)
returns boolean
language sql immutable
as $$
    select length(p_value) <= 4000 and p_value ~ '^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$';
$$;
