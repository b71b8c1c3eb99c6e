-- +goose Up
create table grants (
    caller    text        not null,
    backend   text        not null,
    key_id    text        not null default '',
    sealed    bytea,
    expires   timestamptz,
    wanted    boolean     not null default false,
    changed   timestamptz not null default now(),
    primary key (caller, backend)
);

create index grants_by_backend on grants (backend, changed desc) where sealed is not null;

-- +goose Down
drop table grants;
