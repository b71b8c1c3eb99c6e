package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// life is how long a key pair is valid. A server that starts later makes a new one.
const life = 10 * 365 * 24 * time.Hour

// name is that of the certificate, besides the addresses of loopback.
const name = "localhost"

// A Pair is a key with its self-signed certificate. By it, the processes of one data
// directory authenticate each other over a port that every process of the machine can
// reach: it is in a file that only their user can read, and servers and clients accept
// only peers that have it.
type Pair struct {
	certificate tls.Certificate
	trusted     *x509.CertPool // only the certificate
}

// OpenPair reads the pair of a file, or makes one.
func OpenPair(file string) (*Pair, error) {
	p, err := LoadPair(file)
	if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errExpired) {
		return p, err
	}
	text, err := generate()
	if err != nil {
		return nil, fmt.Errorf("making a key pair: %w", err)
	}
	if err := write(file, text); err != nil {
		return nil, fmt.Errorf("writing a key pair: %w", err)
	}
	return LoadPair(file)
}

var errExpired = errors.New("the certificate has expired")

// LoadPair reads the pair of a file: the certificate and the key, as PEM.
func LoadPair(file string) (*Pair, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading a key pair: %w", err)
	}
	certificate, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("reading the key pair of %s: %w", file, err)
	}
	if time.Now().After(certificate.Leaf.NotAfter) {
		return nil, fmt.Errorf("reading the key pair of %s: %w", file, errExpired)
	}
	p := &Pair{certificate, x509.NewCertPool()}
	p.trusted.AddCert(certificate.Leaf)
	return p, nil
}

// Server is the configuration of a server whose clients have the pair.
func (p *Pair) Server() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{p.certificate}, MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: p.trusted,
	}
}

// Client is the configuration of a client of such a server, at any address.
func (p *Pair) Client() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{p.certificate}, MinVersion: tls.VersionTLS13,
		RootCAs: p.trusted, ServerName: name,
	}
}

func generate() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "perdure"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(life),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	return append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...), nil
}

// write writes all of a file or nothing, readable for the user only.
func write(file string, text []byte) error {
	draft, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name()) // no effect once it is renamed
	_, err = draft.Write(text)
	if err = errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return err
	}
	return os.Rename(draft.Name(), file)
}

// PairEnvironment are the variables that give the pair of a file to the temporal
// command, and other programs that read them.
func PairEnvironment(file string) []string {
	return []string{"TEMPORAL_TLS_CLIENT_CERT_PATH=" + file, "TEMPORAL_TLS_CLIENT_KEY_PATH=" + file, "TEMPORAL_TLS_SERVER_CA_CERT_PATH=" + file}
}
