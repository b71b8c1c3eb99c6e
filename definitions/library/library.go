// Package library holds the definitions that ship with perdure: composite
// tools over the backend repo, which `perdure dev` serves when it is given no
// configuration.
package library

import "embed"

// Files are the definitions, a file each, at the root. Their tests, which stand
// beside them as NAME_test.yaml, are not among them, so that each definition is
// named here; a test says when one is missing.
//
//go:embed check_repository.yaml
//go:embed prepare_review.yaml
//go:embed summarise_changes.yaml
var Files embed.FS
