package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Modes of files and directories with arguments and results of runs.
const (
	ownDir  = 0o700
	ownFile = 0o600
)

// restrictData removes the permissions of other users from a data directory and its
// databases, and returns the paths where it could not. A directory of other files,
// or one that is shared on purpose, such as /tmp, is left alone.
func restrictData(data string) (open []string) {
	entries, _ := os.ReadDir(data) // reading it later reports the error
	ours := len(entries) == 0 || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "temporal.db" || e.Name() == "dev.json" })
	if !restrict(data, ownDir, ours) {
		open = append(open, data)
	}
	for _, e := range entries {
		if file := filepath.Join(data, e.Name()); isDatabase(e) && !restrict(file, ownFile, true) {
			open = append(open, file)
		}
	}
	return open
}

// isDatabase includes the files that SQLite keeps beside a database.
func isDatabase(e fs.DirEntry) bool {
	return e.Type().IsRegular() && (strings.HasSuffix(e.Name(), ".db") || strings.Contains(e.Name(), ".db-"))
}

// restrict removes permissions beyond mode, if it may, and reports whether none is
// left.
func restrict(path string, mode fs.FileMode, may bool) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm()&^mode == 0 {
		return true
	}
	return may && info.Mode()&fs.ModeSticky == 0 && os.Chmod(path, info.Mode().Perm()&mode) == nil
}
