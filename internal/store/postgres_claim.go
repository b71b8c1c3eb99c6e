package store

import (
	"context"
	"fmt"
)

// Claim takes the database for the namespace of Temporal with an ID. It is an error that
// another has it: what runs of one namespace keep is garbage to another.
func (p *Postgres) Claim(ctx context.Context, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	var owner string
	_, err := p.pool.Exec(ctx, "insert into installation (namespace) values ($1) on conflict do nothing", namespace)
	if err == nil {
		err = p.pool.QueryRow(ctx, "select namespace from installation").Scan(&owner)
	}
	switch {
	case err != nil:
		return fmt.Errorf("looking which namespace the database belongs to: %w", err)
	case owner != namespace:
		return fmt.Errorf("the database belongs to the namespace of Temporal with ID %s, and this one has ID %s: correct --address, --namespace or --database; where the other is lost for good, delete from %s.installation", owner, namespace, schema)
	}
	return nil
}
