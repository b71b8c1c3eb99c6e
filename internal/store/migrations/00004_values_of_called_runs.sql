-- +goose Up
alter table run_values add column parent text not null default '';

-- +goose Down
alter table run_values drop column parent;
