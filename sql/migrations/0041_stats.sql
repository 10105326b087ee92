-- What is measured once a minute for the whole system, since a look at every lagging cursor costs too much for
-- each view of a page. One row a topic.
create table queen.stats (
    topic text primary key,                                 -- lag
    value jsonb not null,
    measured_at timestamptz not null
);
