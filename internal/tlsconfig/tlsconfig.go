package tlsconfig

import "crypto/tls"

// New returns a configuration with the certificates of this side: those of a server, or those by
// which a client authenticates.
func New(certificates ...tls.Certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: certificates}
}

// VerifyBy returns the configuration of a client to which verify reports whether the server is
// trusted. No host name is verified: the address of a pod may belong to another pod by now.
func VerifyBy(verify func(tls.ConnectionState) error, certificates ...tls.Certificate) *tls.Config {
	config := New(certificates...)
	config.InsecureSkipVerify = true // VerifyConnection verifies
	config.VerifyConnection = verify
	return config
}

// ServeFrom returns the configuration of a server that requests its certificate for each
// connection, so that a renewed one is used.
func ServeFrom(certificate func() (*tls.Certificate, error)) *tls.Config {
	config := New()
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return certificate()
	}
	return config
}

// ServeAs returns the configuration of a server that requests its configuration for each
// connection. If that fails, so does the handshake.
func ServeAs(choose func(*tls.ClientHelloInfo) (*tls.Config, error)) *tls.Config {
	config := New()
	config.GetConfigForClient = choose
	return config
}
