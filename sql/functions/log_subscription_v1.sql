-- log_subscription_v1: what a group's first pop on a queue asks for.
--
-- Parameters: p_group     consumer group
--             p_sub_mode  'all' or 'new'
--             p_sub_from  '', 'now' or a timestamp; what does not parse is passed over
-- Returns:    the subscription's mode (all, new, timestamp) and moment
-- Algorithm:  the queue-mode group always has everything; else p_sub_from, else p_sub_mode. Only ISO
--             dates are timestamps: PostgreSQL's words ('infinity', 'yesterday') are not.
-- Tables:     none
-- Locks:      none
create or replace function queen.log_subscription_v1(p_group text, p_sub_mode text, p_sub_from text,
                                                     out mode text, out moment timestamptz)
language plpgsql stable
as $$
begin
    mode := 'all';
    moment := '1970-01-01 00:00:00+00';
    if p_group = '__QUEUE_MODE__' then
        return;
    end if;
    if p_sub_from ~ '^\s*\d{4}-\d\d-\d\d' then
        begin
            moment := p_sub_from::timestamptz;
            mode := 'timestamp';
            return;
        exception when data_exception then
            null;
        end;
    end if;
    if p_sub_from = 'now' or p_sub_mode = 'new' then
        mode := 'new';
        moment := clock_timestamp();
    end if;
end
$$;
