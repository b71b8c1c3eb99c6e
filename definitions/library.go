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

//go:embed library/*_test.yaml
var libraryTests embed.FS

// LibraryTest is the file with the tests of a definition of Library; "" = there is none.
func LibraryTest(name string) string {
	text, _ := libraryTests.ReadFile("library/" + name + "_test.yaml") // a name that is not known has none
	return string(text)
}

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
