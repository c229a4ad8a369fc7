package broker

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/certname"
	"heartwood.dev/heartwood/test/kit/certs"
)

// mounted writes files as Kubernetes mounts a Secret: the names are links into a directory, and an
// update replaces the whole directory.
func mounted(t *testing.T, dir, version string, data map[string][]byte) {
	t.Helper()
	content := filepath.Join(dir, ".."+version)
	if err := os.Mkdir(content, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range data {
		if err := os.WriteFile(filepath.Join(content, name), value, 0o600); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(dir, name)
		_ = os.Remove(link)
		if err := os.Symlink(filepath.Join("..data", name), link); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Remove(filepath.Join(dir, "..data"))
	if err := os.Symlink(".."+version, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

// TestMountedCertificatesAreReloaded checks that the broker uses the new files after a mounted
// Secret has changed. One of the changes contains a broken key.
func TestMountedCertificatesAreReloaded(t *testing.T) {
	dir, log := t.TempDir(), &strings.Builder{}
	ca := certs.New(t, "ca")
	certificateKey, privateKey := v1alpha1.ListenerCertificateKeys("tls")
	build := func(version string) map[string][]byte {
		chain, key := certs.KeyPEM(t, ca.Server("broker"))
		return map[string][]byte{certificateKey: chain, privateKey: key,
			v1alpha1.KeyUsersCA:      certs.New(t, "users"+version).PEM(),
			v1alpha1.KeyUnknownUsers: []byte("salt" + version)}
	}
	files := &CertificateFiles{Dir: dir, Listeners: []string{"tls"}, Certificates: NewCertificates(),
		Logger: slog.New(slog.NewTextHandler(log, nil))}
	if files.Trust() != "" || files.UnknownUsers() != nil {
		t.Error("files that were not read have content")
	}
	if err := (&CertificateFiles{Dir: dir + "/none", Certificates: NewCertificates()}).
		Load(); err == nil {
		t.Error("a missing directory is no error")
	}
	mounted(t, dir, "1", build("1"))
	if err := files.Load(); err != nil {
		t.Fatal(err)
	}
	first, trust := files.Certificates.server("tls", false)(), files.Trust()
	if trust == "" || string(files.UnknownUsers()) != "salt1" || len(first.Certificates) != 1 {
		t.Fatalf("trust %q, salts %q", trust, files.UnknownUsers())
	}
	broken := build("2")
	broken[privateKey] = []byte("x")
	mounted(t, dir, "2", broken)
	for range 2 { // Follow logs the error only once
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		files.Follow(ctx)
	}
	if n := strings.Count(log.String(), "failed to load certificates"); n != 1 ||
		strings.Contains(log.String(), "PRIVATE KEY") {
		t.Errorf("%d errors are logged: %s", n, log)
	}
	if files.Trust() != trust || !bytes.Equal(files.Certificates.server("tls",
		false)().Certificates[0].Certificate[0], first.Certificates[0].Certificate[0]) {
		t.Error("broken files have an effect")
	}
	mounted(t, dir, "3", build("3"))
	files.Follow(func() context.Context {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return ctx
	}())
	if files.Trust() == trust || string(files.UnknownUsers()) != "salt3" {
		t.Error("new files have no effect")
	}
}

// TestCommonNameNeedsTheUsersCA checks trap 19 of docs/internals/attacks.md: on a listener with
// clientCAs, whose owners can issue certificates with any common name, the principal is the full
// subject name of the certificate.
func TestCommonNameNeedsTheUsersCA(t *testing.T) {
	users, foreign := certs.New(t, "users"), certs.New(t, "corp")
	c := NewCertificates()
	if err := c.Update(map[string][]byte{v1alpha1.KeyUsersCA: users.PEM(),
		v1alpha1.ListenerClientCAKey("foreign"): foreign.PEM()}, []string{"own", "foreign"},
		0); err != nil {
		t.Fatal(err)
	}
	rules, err := certname.ParseRules(nil)
	if err != nil {
		t.Fatal(err)
	}
	subject := pkix.Name{CommonName: "admin", Organization: []string{"corp"}}
	state := func(certificate tls.Certificate) *tls.ConnectionState {
		parsed, err := x509.ParseCertificate(certificate.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{parsed}}
	}
	for listener, want := range map[string]string{"own": "admin", "foreign": "CN=admin,O=corp"} {
		session, err := c.client(listener, rules)(state(users.Client(subject)))
		if err != nil || session.Principal.Name != want {
			t.Errorf("listener %s: %+v, %v, want %s", listener, session, err, want)
		}
	}
}
