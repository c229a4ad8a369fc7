package dev

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/pki"
)

// secretsDir is the directory that replaces Secrets. It contains a directory for each Secret to
// which manifests refer, with a file for each key.
const secretsDir = "secrets"

// addForeignCAs adds the CAs in the listeners that do not belong to this cluster. These are the CAs
// of client certificates, and the CAs of the servers that publish token keys. If one cannot be
// read, the cluster does not start, because otherwise the LogUsers' CA or the public CAs would be
// used instead.
func (s *security) addForeignCAs(listeners v1alpha1.Listeners, data map[string][]byte) error {
	for i := range listeners {
		name := listeners[i].Name
		for _, authentication := range listeners[i].Authentication {
			if err := s.addBundle(authentication.ClientCAs, v1alpha1.ListenerClientCAKey(name),
				data); err != nil {
				return fmt.Errorf("clientCAs of listener %s: %w", name, err)
			}
			oAuth := authentication.OAuth
			if oAuth == nil || oAuth.CA == nil {
				continue
			}
			if err := s.addBundle([]v1alpha1.SecretKey{*oAuth.CA}, v1alpha1.ListenerOAuthCAKey(name),
				data); err != nil {
				return fmt.Errorf("oauth.ca of listener %s: %w", name, err)
			}
		}
	}
	return nil
}

// addBundle adds the certificates in several keys of Secrets to data, under one key.
func (s *security) addBundle(from []v1alpha1.SecretKey, key string, data map[string][]byte) error {
	if len(from) == 0 {
		return nil
	}
	var all bytes.Buffer
	for _, secretKey := range from {
		content, err := s.secretKey(secretKey)
		if err != nil {
			return err
		}
		if _, err := pki.ParseCertificates(content); err != nil {
			return fmt.Errorf("read %s: %w", s.secretFile(secretKey), err)
		}
		all.Write(content)
		all.WriteByte('\n')
	}
	data[key] = all.Bytes()
	return nil
}

// secretKey reads the content of a key in a Secret.
func (s *security) secretKey(secretKey v1alpha1.SecretKey) ([]byte, error) {
	content, err := os.ReadFile(s.secretFile(secretKey))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("heartwood dev has no Secrets of Kubernetes: write key %s of Secret "+
			"%s to the file %s", secretKey.Key, secretKey.Name, s.secretFile(secretKey))
	}
	return content, err
}

// secretFile returns the path of the file that replaces a key in a Secret.
func (s *security) secretFile(secretKey v1alpha1.SecretKey) string {
	// Base prevents a name from leading out of the directory.
	return filepath.Join(s.dir, secretsDir, filepath.Base(secretKey.Name),
		filepath.Base(secretKey.Key))
}

// removeOthers deletes the files in a directory whose names are not in files.
func removeOthers(dir string, files map[string][]byte) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if _, kept := files[entry.Name()]; !kept && entry.Type().IsRegular() {
			if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
