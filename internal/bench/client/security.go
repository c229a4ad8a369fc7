package client

import (
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"heartwood.dev/heartwood/internal/tlsconfig"
)

// Security configures the connections of clients. The zero value means connections without TLS and
// authentication.
type Security struct {
	// CAFile is the path of a PEM file with the cluster's CAs. If it is set, clients connect with TLS.
	CAFile string
	// User is the name for authentication with SCRAM-SHA-512; "": no authentication.
	User string
	// PasswordFile is the path of the file with User's password.
	PasswordFile string
}

// options returns the options for a Kafka client.
func (s Security) options() (opts []kgo.Opt, err error) {
	if s.CAFile != "" {
		content, err := os.ReadFile(s.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read CAs: %w", err)
		}
		config := tlsconfig.New()
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("read CAs: %s contains no certificate", s.CAFile)
		}
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	if s.User != "" {
		password, err := os.ReadFile(s.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("read password: %w", err)
		}
		opts = append(opts, kgo.SASL(scram.Auth{User: s.User,
			Pass: strings.TrimRight(string(password), "\r\n")}.AsSha512Mechanism()))
	}
	return opts, nil
}
