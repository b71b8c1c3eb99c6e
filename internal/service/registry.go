package service

import (
	"path/filepath"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/store"
)

// LetPublish lets every client of a dev publish if there is no policy: clients are on
// this machine, and may call everything already.
func LetPublish(a *config.Auth, address string, o *GatewayOptions) {
	if !a.Ruled && auth.OnLoopback(address) && len(o.AllowedHosts) == 0 {
		a.Policy.Publishers = []auth.Publisher{{Grant: auth.Grant{Tools: []string{"*"}, Groups: []string{"*"}}}}
	}
}

// registryFile is where publications are in the data directory of a dev.
func registryFile(data string) string { return filepath.Join(data, "registry.jsonl") }

// OpenRegistryFile keeps publications in the data directory of a dev.
func OpenRegistryFile(data string) (*store.RegistryFile, error) {
	return store.OpenRegistryFile(registryFile(data))
}

// OpenAnswersFile records in the data directory of a dev which runs it has answered.
func OpenAnswersFile(data string) (*store.AnswersFile, error) {
	return store.OpenAnswersFile(filepath.Join(data, "answered"))
}
