-- +goose Up
create table published (
    name       text        not null,
    version    text        not null,
    digest     text        not null,
    source     text        not null,
    lock       text        not null,
    published_by text      not null,
    published_at timestamptz not null,
    deprecated text        not null default '',
    changed    bigint      not null,
    primary key (name, version)
);

create index published_by_change on published (changed);

create table registry_history (
    seq     bigint      generated always as identity primary key,
    at      timestamptz not null default now(),
    by      text        not null,
    action  text        not null,
    name    text        not null,
    version text        not null,
    digest  text        not null,
    note    text        not null default ''
);

create index registry_history_by_name on registry_history (name, seq);

-- What is published never changes, whoever has the database open.
-- +goose StatementBegin
create function keep_published() returns trigger language plpgsql as $$
begin
    if tg_op = 'UPDATE' and (new.name, new.version, new.digest, new.source, new.lock, new.published_by, new.published_at)
        is not distinct from (old.name, old.version, old.digest, old.source, old.lock, old.published_by, old.published_at) then
        return new;
    end if;
    raise exception 'a published version never changes: % %', old.name, old.version;
end $$;
-- +goose StatementEnd

create trigger keep_published before update or delete on published
    for each row execute function keep_published();

-- +goose Down
drop table registry_history;
drop table published;
drop function keep_published;
