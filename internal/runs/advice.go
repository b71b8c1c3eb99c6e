package runs

import "strings"

// fixes are what helps against an error of a connection to Temporal, by a part of its
// text: gRPC gives no more than that.
var fixes = []struct{ part, fix string }{
	{"server preface: EOF", "it seems to want TLS: set TEMPORAL_TLS=true, and TEMPORAL_TLS_SERVER_CA_CERT_PATH if its certificate is of a CA of yours"},
	{"does not look like a TLS handshake", "it is without TLS: unset TEMPORAL_TLS…, and TEMPORAL_API_KEY, which turns TLS on"},
	{"failed to verify certificate", "set TEMPORAL_TLS_SERVER_CA_CERT_PATH to the CA of its certificate, and TEMPORAL_TLS_SERVER_NAME to its name if that is not the host of --address; processes read the file for each connection"},
	{"tls: certificate required", "it wants a client certificate: " + clientCertificate},
	{"remote error: tls: ", "it does not take the client certificate: " + clientCertificate},
	{"write: broken pipe", "it closes the connection, as one does that does not take the client certificate: " + clientCertificate},
	{"http2: frame too large", "no Temporal is there: set --address to its frontend"},
	{"unknown service", "another service of Temporal is there: set --address to its frontend"},
}

const clientCertificate = "set TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH to one that it takes; processes read the files for each connection"

// Fix says what helps against an error of Temporal; "" = that is not known.
func Fix(err error) string {
	if shutOut(err) {
		return "give TEMPORAL_API_KEY, or the client certificate, one that is valid and may write in the namespace; processes read the key at their start"
	}
	for _, f := range fixes {
		if strings.Contains(err.Error(), f.part) {
			return f.fix
		}
	}
	return ""
}
