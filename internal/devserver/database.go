package devserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	persistencespb "go.temporal.io/server/api/persistence/v1"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence"
	"go.temporal.io/server/common/persistence/serialization"
	temporalsql "go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/resolver"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

// database describes a SQLite file to the server.
//
// With a write-ahead log, the kernel has a commit before it is acknowledged, so that a
// killed process loses nothing; durable also waits for the disk.
func database(file string, durable bool) *config.SQL {
	synchronous := "normal"
	if durable {
		synchronous = "full"
	}
	return &config.SQL{
		PluginName:   sqlite.PluginName,
		DatabaseName: file,
		ConnectAttributes: map[string]string{
			"mode":         "rwc",
			"journal_mode": "wal",
			"synchronous":  synchronous,
			"busy_timeout": "10000",
		},
	}
}

// prepare makes the databases if they do not exist, and the namespace with its search
// attributes in them.
func prepare(ctx context.Context, main, visibility *config.SQL, o Options) error {
	types, err := attributeTypes(o.SearchAttributes)
	if err != nil {
		return err
	}
	for _, db := range []*config.SQL{main, visibility} {
		if err := createSchema(ctx, db.DatabaseName); err != nil {
			return fmt.Errorf("making the database %s: %w", db.DatabaseName, err)
		}
		if err := findTables(ctx, db.DatabaseName); err != nil {
			return fmt.Errorf("the database %s is damaged (%w); replace its directory by a backup, or give --data another one", db.DatabaseName, err)
		}
	}
	db, err := temporalsql.NewSQLDB(sqlplugin.DbKindMain, main, resolver.NewNoopResolver(), log.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		return fmt.Errorf("opening the database %s: %w", main.DatabaseName, err)
	}
	defer db.Close()
	if err := ensureNamespace(ctx, db, o, types); err != nil {
		return fmt.Errorf("preparing the namespace %s: %w", o.Namespace, err)
	}
	return nil
}

// createSchema makes a database unless it exists. It is built under another
// name and then renamed, so that a crash leaves nothing half made.
func createSchema(ctx context.Context, file string) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	draft := file + ".new"
	// The log of a deleted database would be applied to the new one and break it.
	for _, stale := range []string{draft, draft + "-journal", file + "-wal", file + "-shm"} {
		if err := os.Remove(stale); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// SQLite would make it readable for all users; the files that SQLite keeps beside a
	// database have the mode of the database.
	if err := os.WriteFile(draft, nil, 0o600); err != nil {
		return err
	}
	if err := writeSchema(ctx, draft); err != nil {
		return err
	}
	if err := flush(draft); err != nil {
		return err
	}
	return os.Rename(draft, file)
}

// findTables returns an error for a file that does not have the tables: the server
// would end the process, or report them missing for as long as it runs.
func findTables(ctx context.Context, file string) error {
	db, err := sql.Open("sqlite", "file:"+file+"?mode=rw")
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, "SELECT 1 FROM namespaces, executions_visibility LIMIT 1")
	if err != nil {
		return err
	}
	defer rows.Close()
	rows.Next()
	return rows.Err()
}

// writeSchema writes all tables in one transaction that waits for no disk.
func writeSchema(ctx context.Context, file string) error {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=synchronous=off&_pragma=journal_mode=memory")
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := sqliteschema.SetupSchemaOnDB(schemaWriter{tx: tx}); err != nil {
		return err
	}
	return tx.Commit()
}

// A schemaWriter takes the statements of the server's schema.
type schemaWriter struct {
	sqlplugin.AdminDB // nil: SetupSchemaOnDB only calls Exec
	tx                *sql.Tx
}

func (w schemaWriter) Exec(stmt string, args ...any) error {
	if indexes := visibilityIndex.FindStringSubmatch(stmt); indexes != nil && !slices.Contains(indexed, indexes[1]) {
		return nil
	}
	_, err := w.tx.Exec(stmt, args...)
	return err
}

// visibilityIndex finds the column of an index of the list of runs.
var visibilityIndex = regexp.MustCompile(`^CREATE INDEX \w+\s+ON executions_visibility \(namespace_id, (\w+),`)

// indexed are the columns of the list of runs for which there is an index beside the one
// for its order: those of queries that match few runs. Search attributes get the first of
// the columns. Each write of a run writes all indexes, and the server has 58.
var indexed = []string{"workflow_id", "workflow_type_name", "status", "parent_workflow_id", "Keyword01", "Keyword02", "Keyword03", "Keyword04", "Keyword05", "Keyword06"}

func flush(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// ensureNamespace makes the namespace unless it exists and gives it the search
// attributes that it lacks. The server must not run yet: it reads namespaces
// when it starts.
func ensureNamespace(ctx context.Context, db sqlplugin.DB, o Options, attributes map[string]enumspb.IndexedValueType) error {
	row, detail, err := findNamespace(ctx, db, o.Namespace)
	if err != nil {
		return err
	}
	exists := row != nil
	if !exists {
		if row, detail, err = newNamespace(o); err != nil {
			return err
		}
	}
	added, err := addAliases(detail.Config, attributes)
	if err != nil || exists && !added {
		return err
	}
	blob, err := serialization.NewSerializer().NamespaceDetailToBlob(detail)
	if err != nil {
		return err
	}
	row.Data, row.DataEncoding = blob.Data, blob.EncodingType.String()
	if exists {
		_, err = db.UpdateNamespace(ctx, row)
	} else {
		_, err = db.InsertIntoNamespace(ctx, row)
	}
	return err
}

// findNamespace returns nil for a namespace that does not exist.
func findNamespace(ctx context.Context, db sqlplugin.DB, name string) (*sqlplugin.NamespaceRow, *persistencespb.NamespaceDetail, error) {
	rows, err := db.SelectFromNamespace(ctx, sqlplugin.NamespaceFilter{Name: &name})
	if errors.Is(err, sql.ErrNoRows) || err == nil && len(rows) == 0 {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	blob := persistence.NewDataBlob(rows[0].Data, rows[0].DataEncoding)
	detail, err := serialization.NewSerializer().NamespaceDetailFromBlob(blob)
	return &rows[0], detail, err
}

func newNamespace(o Options) (*sqlplugin.NamespaceRow, *persistencespb.NamespaceDetail, error) {
	ns, err := sqliteschema.NewNamespaceConfig(clusterName, o.Namespace, false, nil)
	if err != nil {
		return nil, nil, err
	}
	ns.Detail.Config.Retention = durationpb.New(o.Retention)
	row := &sqlplugin.NamespaceRow{Name: o.Namespace}
	if row.ID, err = parseUUID(ns.Detail.Info.Id); err != nil {
		return nil, nil, err
	}
	return row, ns.Detail, nil
}

// addAliases gives each attribute that has none a free column of its type. It
// reports whether there was something to add.
func addAliases(c *persistencespb.NamespaceConfig, attributes map[string]enumspb.IndexedValueType) (bool, error) {
	if c.CustomSearchAttributeAliases == nil {
		c.CustomSearchAttributeAliases = map[string]string{}
	}
	columns := c.CustomSearchAttributeAliases // column → attribute
	known := slices.Collect(maps.Values(columns))
	added := false
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if slices.Contains(known, name) {
			continue
		}
		column, err := freeColumn(columns, attributes[name])
		if err != nil {
			return false, fmt.Errorf("search attribute %s: %w", name, err)
		}
		columns[column] = name
		added = true
	}
	return added, nil
}

func freeColumn(taken map[string]string, kind enumspb.IndexedValueType) (string, error) {
	for _, column := range slices.Sorted(maps.Keys(customColumns)) {
		if _, ok := taken[column]; !ok && customColumns[column] == kind {
			return column, nil
		}
	}
	return "", fmt.Errorf("all columns of type %s are taken", kind)
}

func attributeTypes(names map[string]string) (map[string]enumspb.IndexedValueType, error) {
	types := map[string]enumspb.IndexedValueType{}
	for name, kind := range names {
		value, ok := enumspb.IndexedValueType_shorthandValue[pascal(kind)]
		if !ok || value == 0 {
			return nil, fmt.Errorf("search attribute %s: unknown type %q", name, kind)
		}
		types[name] = enumspb.IndexedValueType(value)
	}
	return types, nil
}

// pascal turns keyword_list into KeywordList.
func pascal(s string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(s, "_") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + strings.ToLower(word[1:]))
		}
	}
	return b.String()
}
