package service

import (
	"context"
	"path/filepath"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/store"
)

// newRegistry makes what knows the definitions of this process, and has the
// gateway offer what they mean.
func (s *Service) newRegistry() {
	s.registry = registry.New(registry.Options{Store: s.opts.Published, Drift: s.opts.Loaded.Publishing.Drift, Logger: s.opts.Logger})
	s.registry.OnChange(func() {
		if s.gateway != nil {
			s.gateway.SetOffers(s.offers())
		}
	})
}

// startRegistry knows the definitions of files, and what was published up to now
// and from now on until ctx ends.
func (s *Service) startRegistry(ctx context.Context) {
	if err := s.registry.Load(ctx); err != nil {
		s.opts.Logger.Warn("reading what was published; it is tried again", "error", err)
	}
	s.registry.SetFiles(s.opts.Loaded.Definitions)
	go s.registry.Follow(ctx)
}

// offers are the composite tools: one for each name, and the versions that are
// tools of their own.
func (s *Service) offers() []gateway.Offer {
	var offers []gateway.Offer
	for _, e := range s.registry.Current() {
		offers = append(offers, gateway.Offer{Entry: e})
	}
	for _, v := range s.opts.Loaded.Publishing.Versions {
		e, err := s.registry.Resolve(v.Reference)
		if err != nil {
			wanted := &definitions.Definition{Name: v.Reference.Name, Version: v.Reference.Version}
			offers = append(offers, gateway.Offer{Entry: registry.Entry{Definition: wanted}, As: v.As, Missing: err.Error()})
			continue
		}
		offers = append(offers, gateway.Offer{Entry: e, As: v.As})
	}
	return offers
}

// LetPublish lets whoever reaches a dev publish, where nothing is said of who may
// what: they are on this machine, and may call everything already.
func LetPublish(a *config.Auth, address string, o *GatewayOptions) {
	if !a.Ruled && auth.OnLoopback(address) && len(o.AllowedHosts) == 0 {
		a.Policy.Publishers = []auth.Publisher{{Grant: auth.Grant{Tools: []string{"*"}, Groups: []string{"*"}}}}
	}
}

// OpenRegistryFile keeps what is published in the data directory of a dev.
func OpenRegistryFile(data string) (*store.RegistryFile, error) {
	return store.OpenRegistryFile(filepath.Join(data, "registry.jsonl"))
}

// OpenAnswersFile keeps in the data directory of a dev which runs it has answered.
func OpenAnswersFile(data string) (*store.AnswersFile, error) {
	return store.OpenAnswersFile(filepath.Join(data, "answered"))
}
