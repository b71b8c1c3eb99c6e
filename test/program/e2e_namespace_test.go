package program_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/pgtest"
)

// TestDatabaseOfAnotherNamespace starts a worker with the database of another namespace
// of Temporal, as by a mistake in a flag: it deletes nothing of runs that it does not
// find, and its log says why.
func TestDatabaseOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	pg := pgtest.Start(t)
	execute(t, pg, "postgres", "create database perdure")
	r := prepareDatabaseReplicas(t, pg)
	own, wrong := r.workers[0], r.workers[1]
	for _, p := range r.workers {
		p.args = append(p.args, "--large-values")
	}
	wrong.args = slices.Clone(wrong.args)
	wrong.args[slices.Index(wrong.args, "--namespace")+1] = "other"
	count := func(table string) (n int) {
		c := perduretest.Must(pgx.Connect(t.Context(), pg.URL("perdure")))(t)
		defer c.Close(t.Context())
		perduretest.NoError(t, c.QueryRow(t.Context(), "select count(*) from perdure."+table).Scan(&n))
		return n
	}
	own.start()
	until(t, "the database to belong to the namespace", func() bool { return count("installation") == 1 })
	own.kill()
	execute(t, pg, "perdure", "insert into perdure.run_values (id, run, data, checked) values ('v', 'put/gone', 'x', now() - interval '2 hours')")
	kept := func() int { return count("run_values") }
	wrong.start()
	until(t, "the log to say it", func() bool {
		log := wrong.output.String()
		return strings.Contains(log, "cannot delete large values") && strings.Contains(log, "the database belongs to the namespace of Temporal with ID")
	})
	wrong.kill()
	if n := kept(); n != 1 {
		t.Errorf("%d values are kept", n)
	}
	own.start()
	until(t, "the value to be deleted by its own namespace", func() bool { return kept() == 0 })
}
