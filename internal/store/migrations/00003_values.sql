-- +goose Up
create table run_values (
    id      text        primary key,
    run     text        not null,
    data    bytea       not null,
    checked timestamptz not null default now()
);

-- Sealed values cannot be compressed.
alter table run_values alter column data set storage external;

create index run_values_by_run on run_values (run);
create index run_values_by_check on run_values (checked);

-- +goose Down
drop table run_values;
