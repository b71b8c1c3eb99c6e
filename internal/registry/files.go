package registry

import (
	"fmt"

	"github.com/perdure/perdure/definitions"
)

// Contradicts says that the definition of a file differs from the one published under
// its version; "" = it does not.
func (r *Registry) Contradicts(file *definitions.Definition) string {
	e, ok := published(r.Versions(file.Name), file.Version)
	if !ok || e.Definition == nil {
		return ""
	}
	// With the modules that it loaded then, unless it has them already.
	if same, _ := file.WithModules(e.Definition.Scripts().Modules()); same.Digest() == e.Published.Digest {
		return ""
	}
	return fmt.Sprintf("%s states version %s, which was published with other content: the file has %s, and published was %s; %s means the file, and %s@%s what was published: give the file another version",
		file.Pos, file.Version, short(file.Digest()), short(e.Published.Digest), file.Name, file.Name, file.Version)
}

// warnOfFiles logs once for each definition of a file that it contradicts a published
// one.
func (r *Registry) warnOfFiles() {
	r.mu.RLock()
	defs := make([]*definitions.Definition, len(r.order))
	for i, name := range r.order {
		defs[i] = r.files[name].Definition
	}
	r.mu.RUnlock()
	for _, d := range defs {
		if why := r.Contradicts(d); why != "" {
			if r.isNews("file "+d.Name, why) {
				r.log.Warn("a definition in a file differs from the published version of the same number", "name", d.Name, "version", d.Version, "reason", why)
			}
		}
	}
}
