package service

import (
	"crypto/tls"
	"crypto/x509"
	"time"
)

// certificateWarning is how long before its end a certificate should be renewed.
const certificateWarning = 7 * 24 * time.Hour

// certificate examines until when the certificate is valid with which processes connect
// to Temporal, if there is one. Connections outlive it, new ones are refused.
func (x *examination) certificate(cfg *tls.Config, now time.Time) {
	const name = "client certificate"
	if cfg == nil || len(cfg.Certificates) == 0 || len(cfg.Certificates[0].Certificate) == 0 {
		return
	}
	leaf, err := x509.ParseCertificate(cfg.Certificates[0].Certificate[0])
	if err != nil {
		x.add(name, CheckFailed, err.Error(), "give TEMPORAL_TLS_CLIENT_CERT_PATH a certificate")
		return
	}
	until := leaf.NotAfter.UTC().Format(time.DateTime)
	const fix = "renew it in TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH; processes read the files for each connection, and open ones work meanwhile"
	switch left := leaf.NotAfter.Sub(now); {
	case left < 0:
		x.add(name, CheckFailed, "expired at "+until, fix)
	case left < certificateWarning:
		x.add(name, CheckWarning, "is valid until "+until+" only", fix)
	default:
		x.ok(name, "valid until %s", until)
	}
}
