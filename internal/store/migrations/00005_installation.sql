-- +goose Up
-- The namespace of Temporal that the database belongs to, by its ID.
create table installation (one boolean primary key default true check (one), namespace text not null);

-- +goose Down
drop table installation;
