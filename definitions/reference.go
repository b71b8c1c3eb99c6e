package definitions

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/perdure/perdure/definitions/template"
)

// A Reference names a definition, with a version or a constraint.
type Reference struct {
	Name string
	// Version is an exact version such as 1.2.0, or a constraint such as 1, 1.2,
	// ^1.0, ~1.2 or >=1.1 <2. Only a constraint that names a pre-release takes
	// pre-releases. "" = the latest version that is not a pre-release.
	Version string
}

// maxConstraint is how long a constraint may be, in bytes.
const maxConstraint = 100

// ParseReference reads a reference as written: NAME, or NAME@VERSION.
func ParseReference(text string) (Reference, error) {
	name, version, versioned := strings.Cut(text, "@")
	r := Reference{name, strings.TrimSpace(version)}
	switch {
	case !namePattern.MatchString(name):
		return r, fmt.Errorf("%s names no composite tool: write NAME, or NAME@VERSION such as deploy@^1.2", template.Excerpt(text))
	case strings.Contains(version, "@"):
		return r, fmt.Errorf("the version is given twice in %s: write NAME@VERSION, or the version beside it, not both", template.Excerpt(text))
	case versioned && r.Version == "":
		return r, fmt.Errorf("%s lacks the version after the @; without an @ it is the latest one", template.Excerpt(text))
	}
	return r, r.Check()
}

// Check reports a mistake in the version of a reference.
func (r Reference) Check() error {
	if r.Version == "" {
		return nil
	}
	if _, err := r.constraint(); err != nil || len(r.Version) > maxConstraint {
		return fmt.Errorf("%s is no version and no constraint of versions, such as 1.2.0, 1 or ^1.2", template.Excerpt(r.Version))
	}
	return nil
}

// String writes a reference so that ParseReference reads it.
func (r Reference) String() string {
	if r.Version == "" {
		return r.Name
	}
	return r.Name + "@" + r.Version
}

// Exact reports whether the reference means exactly one version.
func (r Reference) Exact() bool {
	return versionPattern.MatchString(strings.TrimPrefix(r.Version, "v"))
}

// Matches reports whether a version matches. One that is not semantic never does.
func (r Reference) Matches(version string) bool {
	_, ok := r.Latest([]string{version})
	return ok
}

// Latest gives the highest of several versions that matches; false = none does.
func (r Reference) Latest(versions []string) (string, bool) {
	wanted, err := r.constraint()
	if err != nil {
		return "", false
	}
	var latest *semver.Version
	for _, text := range versions {
		v, err := semver.StrictNewVersion(text)
		if err == nil && wanted.Check(v) && (latest == nil || v.GreaterThan(latest)) {
			latest = v
		}
	}
	if latest == nil {
		return "", false
	}
	return latest.Original(), true
}

func (r Reference) constraint() (*semver.Constraints, error) {
	if r.Version == "" {
		return semver.NewConstraint("*")
	}
	return semver.NewConstraint(r.Version)
}
