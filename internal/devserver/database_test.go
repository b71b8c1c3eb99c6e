package devserver

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	temporalsql "go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/resolver"
	sqliteschema "go.temporal.io/server/schema/sqlite"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestIndexed: the list of runs has the indexes that its queries need, and no others. If
// the server's schema changes, so may the form in which it makes them.
func TestIndexed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "test.db")
	perduretest.NoError(t, createSchema(t.Context(), file))
	db := perduretest.Must(sql.Open("sqlite", "file:"+file))(t)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'executions_visibility' AND sql IS NOT NULL ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var name string
		perduretest.NoError(t, rows.Scan(&name))
		got = append(got, name)
	}
	want := []string{"by_keyword_01", "by_keyword_02", "by_keyword_03", "by_keyword_04", "by_keyword_05", "by_keyword_06",
		"by_parent_workflow_id", "by_status", "by_workflow_id", "by_workflow_type", "default_idx"}
	if err := rows.Err(); err != nil || !slices.Equal(got, want) {
		t.Errorf("indexes %q, want %q; %v", got, want, err)
	}
}

// BenchmarkList is what the list of runs takes for a run: the record of its start and one
// of its end, with all indexes of the server's schema, and with ours.
func BenchmarkList(b *testing.B) {
	for name, setup := range map[string]func(context.Context, string) error{"all indexes": allIndexes, "ours": createSchema} {
		b.Run(name, func(b *testing.B) {
			file := filepath.Join(b.TempDir(), "test.db")
			perduretest.NoError(b, setup(b.Context(), file))
			generic, err := temporalsql.NewSQLDB(sqlplugin.DbKindVisibility, database(file, false), resolver.NewNoopResolver(), log.NewNoopLogger(), metrics.NoopMetricsHandler)
			if err != nil {
				b.Fatal(err)
			}
			defer generic.Close()
			for i := 0; b.Loop(); i++ {
				for version := range int64(2) {
					now := time.Now()
					row := &sqlplugin.VisibilityRow{
						NamespaceID: "namespace", RunID: fmt.Sprint("run ", i), WorkflowID: fmt.Sprint("echo/", i), WorkflowTypeName: "echo", Version: version + 1,
						StartTime: now, ExecutionTime: now, Status: int32(version + 1), Encoding: "proto3", TaskQueue: "perdure", RootWorkflowID: fmt.Sprint("echo/", i),
						SearchAttributes: &sqlplugin.VisibilitySearchAttributes{"Keyword01": "anonymous", "Keyword03": "running", "Keyword04": "echo"},
					}
					if version == 1 {
						row.CloseTime = &now
					}
					if _, err := generic.ReplaceIntoVisibility(b.Context(), row); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func allIndexes(_ context.Context, file string) error {
	return sqliteschema.SetupSchema(&config.SQL{PluginName: "sqlite", DatabaseName: file, ConnectAttributes: map[string]string{"mode": "rwc"}})
}
