package credentials

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"unicode/utf16"
)

// Keys in a LogUser's Secret. They are also the names of the files.
const (
	KeyUserName  = "username"
	KeyPassword  = "password"
	KeyJAAS      = "sasl.jaas.config"
	KeyBootstrap = "bootstrap.servers"
	// KeyExternal and KeyExternalCA are the keys of the address and the CA for clients outside the
	// Kubernetes cluster.
	KeyExternal    = "external.bootstrap.servers"
	KeyExternalCA  = "external.ca.crt"
	KeyCA          = "ca.crt"
	KeyCertificate = "user.crt"
	KeyKey         = "user.key"
	KeyJava        = "client.properties"
	KeyLibrdkafka  = "librdkafka.conf"
)

// MountPath is the directory where librdkafka.conf expects the Secret to be mounted.
const MountPath = "/etc/heartwood"

// User describes how a client authenticates: by password or by certificate.
type User struct {
	Name             string
	Password         string
	Certificate, Key []byte // PEM
}

// Endpoint is a listener to which clients connect.
type Endpoint struct {
	Bootstrap string // host:port,...
	TLS       bool
	CA        []byte // PEM; empty: the client's own CAs verify the brokers
	Mechanism string // SASL mechanism; empty if the client authenticates by certificate
	// External is the bootstrap address for clients outside the Kubernetes cluster; empty if there is
	// none. ExternalCA is the CA of the listener at that address (PEM).
	External   string
	ExternalCA []byte
}

// Files returns the files for a client that connects to an endpoint. The Java configuration
// contains the certificates and keys. The librdkafka configuration refers to files in directory,
// because not every program accepts long lines. The result contains credentials.
func Files(user User, endpoint Endpoint, directory string) map[string][]byte {
	files := map[string][]byte{KeyUserName: []byte(user.Name)}
	add := func(key string, value []byte) {
		if len(value) > 0 {
			files[key] = value
		}
	}
	add(KeyPassword, []byte(user.Password))
	add(KeyBootstrap, []byte(endpoint.Bootstrap))
	add(KeyCA, endpoint.CA)
	add(KeyExternal, []byte(endpoint.External))
	add(KeyExternalCA, endpoint.ExternalCA)
	add(KeyCertificate, user.Certificate)
	add(KeyKey, user.Key)
	if user.Password != "" {
		files[KeyJAAS] = []byte(jaas(user))
	}
	if endpoint.Bootstrap != "" {
		files[KeyJava] = java(user, endpoint)
		files[KeyLibrdkafka] = librdkafka(user, endpoint, directory)
	}
	return files
}

// protocol returns the value for security.protocol.
func (e Endpoint) protocol() string {
	protocol := "PLAINTEXT"
	if e.TLS {
		protocol = "SSL"
	}
	if e.Mechanism != "" {
		protocol = "SASL_" + protocol
	}
	return protocol
}

// jaas returns the value for sasl.jaas.config.
func jaas(user User) string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	return fmt.Sprintf("org.apache.kafka.common.security.scram.ScramLoginModule required "+
		`username="%s" password="%s";`, quote.Replace(user.Name), quote.Replace(user.Password))
}

// java returns the properties file for a Java client.
func java(user User, endpoint Endpoint) []byte {
	var text bytes.Buffer
	set := func(key, value string) { fmt.Fprintf(&text, "%s=%s\n", key, escape(value)) }
	set("bootstrap.servers", endpoint.Bootstrap)
	set("security.protocol", endpoint.protocol())
	if endpoint.Mechanism != "" {
		set("sasl.mechanism", endpoint.Mechanism)
		set("sasl.jaas.config", jaas(user))
	}
	if endpoint.TLS && len(endpoint.CA) > 0 {
		set("ssl.truststore.type", "PEM")
		set("ssl.truststore.certificates", string(endpoint.CA))
	}
	if endpoint.TLS && endpoint.Mechanism == "" && len(user.Key) > 0 {
		set("ssl.keystore.type", "PEM")
		set("ssl.keystore.certificate.chain", string(user.Certificate))
		set("ssl.keystore.key", string(user.Key))
	}
	return text.Bytes()
}

// escape escapes a value for a Java properties file, whose encoding is ISO 8859-1.
func escape(value string) string {
	var text strings.Builder
	for i, r := range value {
		switch {
		case r == '\\':
			text.WriteString(`\\`)
		case r == '\n':
			text.WriteString(`\n`)
		case r == '\r':
			text.WriteString(`\r`)
		case r == ' ' && i == 0:
			text.WriteString(`\ `)
		case r < ' ' || r > '~':
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&text, `\u%04x`, unit)
			}
		default:
			text.WriteRune(r)
		}
	}
	return text.String()
}

// librdkafka returns a configuration file in the format that kcat -F reads.
func librdkafka(user User, endpoint Endpoint, directory string) []byte {
	var text bytes.Buffer
	set := func(key, value string) { fmt.Fprintf(&text, "%s=%s\n", key, value) }
	set("bootstrap.servers", endpoint.Bootstrap)
	set("security.protocol", strings.ToLower(endpoint.protocol()))
	if endpoint.Mechanism != "" {
		set("sasl.mechanisms", endpoint.Mechanism)
		set("sasl.username", user.Name)
		set("sasl.password", user.Password)
	}
	if endpoint.TLS && len(endpoint.CA) > 0 {
		set("ssl.ca.location", path.Join(directory, KeyCA))
	}
	if endpoint.TLS && endpoint.Mechanism == "" && len(user.Key) > 0 {
		set("ssl.certificate.location", path.Join(directory, KeyCertificate))
		set("ssl.key.location", path.Join(directory, KeyKey))
	}
	return text.Bytes()
}

// Relocate changes the paths in librdkafka.conf from MountPath to another directory.
func Relocate(librdkafka []byte, directory string) []byte {
	var text bytes.Buffer
	for line := range bytes.Lines(librdkafka) {
		key, file, found := bytes.Cut(line, []byte("="+MountPath+"/"))
		if !found || !bytes.HasSuffix(key, []byte(".location")) {
			text.Write(line)
			continue
		}
		fmt.Fprintf(&text, "%s=%s", key, path.Join(directory, string(file)))
	}
	return text.Bytes()
}
