package service

import (
	"path/filepath"
	"slices"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/store"
	"github.com/perdure/perdure/internal/web"
)

// LetPublish lets every client of a dev publish if there is no policy: clients are on
// this machine, and may call everything already.
func LetPublish(a *config.Auth, address string, o *GatewayOptions) {
	if !a.Ruled && web.OnLoopback(address) && len(o.AllowedHosts) == 0 {
		a.Policy.Publishers = []auth.Publisher{{Grant: auth.Grant{Tools: []string{"*"}, Groups: []string{"*"}}}}
	}
}

// registryFile is where publications are in the data directory of a dev.
func registryFile(data string) string { return filepath.Join(data, "registry.jsonl") }

// OpenRegistryFile keeps publications in the data directory of a dev.
func OpenRegistryFile(data string) (*store.RegistryFile, error) {
	return store.OpenRegistryFile(registryFile(data))
}

// OpenData opens what a dev keeps in its data directory beside runs. closeAll closes what
// is open, also after an error.
func (o *Options) OpenData(data string, k Keys) (closeAll func(), err error) {
	var open []func()
	closeAll = func() {
		for _, end := range slices.Backward(open) {
			end()
		}
	}
	sealing, err := k.sealing()
	if err != nil {
		return closeAll, err
	}
	kept, err := store.OpenFiles(filepath.Join(data, "grants"), sealing, o.Logger)
	if err != nil {
		return closeAll, err
	}
	o.Kept, open = kept, append(open, func() { kept.Close() })
	published, err := OpenRegistryFile(data)
	if err != nil {
		return closeAll, err
	}
	o.Published, open = published, append(open, func() { published.Close() })
	answers, err := store.OpenAnswersFile(filepath.Join(data, "answered"))
	if err != nil {
		return closeAll, err
	}
	o.Answers, open = answers, append(open, func() { answers.Close() })
	return closeAll, nil
}
