package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/credentials"
)

// fileBytesMax limits the size of one file.
const fileBytesMax = 1 << 20

// Directory is a directory with the files of a LogUser's Secret, as mounted in a pod or written by
// heartwood dev. The files are read again for each connection.
type Directory string

// read reads the Secret's files.
func (d Directory) read() (Credentials, error) {
	files := map[string][]byte{}
	for _, key := range []string{credentials.KeyUserName, credentials.KeyPassword,
		credentials.KeyBootstrap, credentials.KeyCA, credentials.KeyCertificate, credentials.KeyKey,
		credentials.KeyLibrdkafka} {
		content, err := os.ReadFile(filepath.Join(string(d), key))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Credentials{}, fmt.Errorf("read the Secret of the LogUser: %w", err)
		}
		if len(content) > fileBytesMax {
			return Credentials{}, fmt.Errorf("read the Secret of the LogUser: %s is too large", key)
		}
		files[key] = content
	}
	if len(files[credentials.KeyUserName]) == 0 {
		return Credentials{}, fmt.Errorf("read the Secret of the LogUser: directory %s has no file %s",
			string(d), credentials.KeyUserName)
	}
	return Credentials{User: files}, nil
}

// Connect returns the broker addresses in the Secret, and the connection options.
func (d Directory) Connect() (bootstrap []string, options []kgo.Opt, err error) {
	stored, err := d.read()
	if err != nil {
		return nil, nil, err
	}
	if text := strings.TrimSpace(string(stored.User[credentials.KeyBootstrap])); text != "" {
		bootstrap = strings.Split(text, ",")
	}
	config := settings(stored.User[credentials.KeyLibrdkafka])
	if len(config) == 0 {
		return nil, nil, fmt.Errorf("read the Secret of the LogUser: directory %s has no file %s: no "+
			"listener accepts the LogUser", string(d), credentials.KeyLibrdkafka)
	}
	var secured func(context.Context) (*tls.Config, error)
	if strings.HasSuffix(strings.ToLower(config["security.protocol"]), "ssl") {
		secured = func(context.Context) (*tls.Config, error) {
			again, err := d.read()
			if err != nil {
				return nil, err
			}
			return again.TLS(nil)
		}
	}
	mechanisms := map[string]v1alpha1.AuthenticationType{
		"SCRAM-SHA-256": v1alpha1.AuthenticationScramSha256,
		"SCRAM-SHA-512": v1alpha1.AuthenticationScramSha512,
	}
	options = Options(secured, mechanisms[config["sasl.mechanisms"]],
		func(context.Context) (Credentials, error) { return d.read() })
	return bootstrap, options, nil
}

// settings parses librdkafka.conf, which consists of lines NAME=VALUE.
func settings(file []byte) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(string(file)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(name, "#") {
			found[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return found
}
