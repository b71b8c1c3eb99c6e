package definitions

import (
	"embed"
	"io/fs"
)

// Their tests, NAME_test.yaml, are not embedded, so each definition is named; a
// test finds one that is missing.
//
//go:embed library/check_repository.yaml
//go:embed library/prepare_review.yaml
//go:embed library/summarise_changes.yaml
var library embed.FS

// Library has the definitions that ship with perdure, a file each at the root:
// composite tools over the backend repo, which perdure dev serves without a
// configuration.
func Library() fs.FS {
	sub, err := fs.Sub(library, "library")
	if err != nil {
		panic(err) // the name is valid
	}
	return sub
}
