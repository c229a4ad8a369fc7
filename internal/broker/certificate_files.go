package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// filesInterval is how often the certificate directory is read. Kubernetes updates the files of a
// mounted Secret about a minute after the Secret changes.
const filesInterval = 5 * time.Second

// CertificateFiles loads the files in a directory into Certificates whenever they change. The file
// names and contents correspond to the keys and values of the Secret v1alpha1.BrokersTLSSecretName.
// Load and Follow must be called by the same goroutine; the other methods are safe for concurrent
// use.
type CertificateFiles struct {
	Dir          string
	Broker       int32    // id of this broker
	Listeners    []string // names of the listeners
	Certificates *Certificates
	Logger       *slog.Logger

	trust    atomic.Pointer[string]
	unknown  atomic.Pointer[[]byte]
	reported string // text of the last error that was logged
}

// Load reads the directory. If a file is missing or invalid, the corresponding certificate in use
// remains; the error names the file.
func (f *CertificateFiles) Load() error {
	data, err := readFiles(f.Dir)
	if err != nil {
		return fmt.Errorf("read certificates: %w", err)
	}
	trust, unknown := v1alpha1.TrustFingerprint(data), data[v1alpha1.KeyUnknownUsers]
	if err := f.Certificates.Update(data, f.Listeners, f.Broker); err != nil {
		return err
	}
	f.trust.Store(&trust)
	f.unknown.Store(&unknown)
	return nil
}

// Trust returns the fingerprint of the CAs in use, or "" before the first successful Load.
func (f *CertificateFiles) Trust() string {
	if trust := f.trust.Load(); trust != nil {
		return *trust
	}
	return ""
}

// UnknownUsers returns the content of v1alpha1.KeyUnknownUsers, or nil before the first successful
// Load.
func (f *CertificateFiles) UnknownUsers() []byte {
	if unknown := f.unknown.Load(); unknown != nil {
		return *unknown
	}
	return nil
}

// Follow reads the directory every filesInterval until ctx ends. It logs an error only if its text
// differs from the previous error's.
func (f *CertificateFiles) Follow(ctx context.Context) {
	tick := time.NewTicker(filesInterval)
	defer tick.Stop()
	for {
		text := ""
		if err := f.Load(); err != nil {
			text = err.Error()
		}
		if text != "" && text != f.reported {
			f.Logger.Error("failed to load certificates; the previous ones remain in use",
				"error", text)
		}
		f.reported = text
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// readFiles returns the content of the directory's files by name. In a mounted Secret, the files
// are symbolic links, and names that begin with two dots belong to the kubelet.
func readFiles(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	var faults []error
	for _, entry := range entries {
		if entry.IsDir() || strings.HasPrefix(entry.Name(), "..") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			faults = append(faults, err)
			continue
		}
		files[entry.Name()] = content
	}
	return files, errors.Join(faults...)
}
