package tlsconfig

import "crypto/tls"

// New returns a configuration with a server's certificates, or with the certificates with which a
// client authenticates.
func New(certificates ...tls.Certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: certificates}
}

// VerifyBy returns a client configuration in which function verify decides whether the server is
// trusted. No host name is verified, because a pod's address may belong to another pod by now.
func VerifyBy(verify func(tls.ConnectionState) error, certificates ...tls.Certificate) *tls.Config {
	config := New(certificates...)
	config.InsecureSkipVerify = true // VerifyConnection verifies instead
	config.VerifyConnection = verify
	return config
}

// ServeFrom returns a server configuration that calls certificate for each connection, so that a
// renewed certificate is used.
func ServeFrom(certificate func() (*tls.Certificate, error)) *tls.Config {
	config := New()
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return certificate()
	}
	return config
}

// ServeAs returns a server configuration that calls choose for each connection. If choose fails,
// the handshake fails.
func ServeAs(choose func(*tls.ClientHelloInfo) (*tls.Config, error)) *tls.Config {
	config := New()
	config.GetConfigForClient = choose
	return config
}
