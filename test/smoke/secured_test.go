package smoke

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"heartwood.dev/heartwood/test/kit/process"
	"heartwood.dev/heartwood/test/kit/tlsscan"
)

// secured describes a LogCluster with TLS, users, and TLS between its brokers.
const secured = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: smoke}
spec:
  brokers: 2
  listeners:
  - {name: tls, port: 9093, tls: {}, authentication: [{type: ScramSha256}, {type: ScramSha512}]}
  - {name: mtls, port: 9094, tls: {}, authentication: [{type: TLS}]}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: orders}
spec: {cluster: smoke, partitions: 2, replicas: 2, minInSyncReplicas: 2}
---
apiVersion: heartwood.dev/v1alpha1
kind: LogUser
metadata: {name: alice}
spec: {cluster: smoke, authentication: {type: Scram}, acls: [
  {resource: {type: Topic, name: orders}, operations: [Read, Write]}]}
---
apiVersion: heartwood.dev/v1alpha1
kind: LogUser
metadata: {name: bob}
spec: {cluster: smoke, authentication: {type: TLS}, acls: [
  {resource: {type: Topic, name: orders}, operations: [Read, Write]}]}
`

// files are a user's files.
type files struct {
	t   *testing.T
	dir string
}

func (f files) read(name string) []byte {
	f.t.Helper()
	content, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		f.t.Fatal(err)
	}
	return content
}

// config returns the user's TLS configuration, with a certificate if the user has one.
func (f files) config() *tls.Config {
	f.t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(f.read("ca.crt"))
	if _, err := os.Stat(filepath.Join(f.dir, "user.crt")); err == nil {
		pair, err := tls.X509KeyPair(f.read("user.crt"), f.read("user.key"))
		if err != nil {
			f.t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func (f files) seeds() []string {
	f.t.Helper()
	return strings.Split(string(f.read("bootstrap.servers")), ",")
}

// roundTrip writes a record to each partition, waits until both brokers have acknowledged the
// records, and reads them.
func (f files) roundTrip(options ...kgo.Opt) {
	f.t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(f.seeds()...),
		kgo.DialTLSConfig(f.config()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumeTopics("orders"))...)
	if err != nil {
		f.t.Fatal(err)
	}
	defer client.Close()
	for partition := range int32(2) {
		if err := client.ProduceSync(process.WithDeadline(f.t), &kgo.Record{Topic: "orders",
			Partition: partition, Value: []byte(f.dir)}).FirstErr(); err != nil {
			f.t.Fatal(err)
		}
	}
	seen := map[int32]bool{}
	for len(seen) < 2 {
		polled := client.PollFetches(process.WithDeadline(f.t))
		if err := polled.Err(); err != nil {
			f.t.Fatal(err)
		}
		polled.EachRecord(func(r *kgo.Record) {
			seen[r.Partition] = seen[r.Partition] || string(r.Value) == f.dir
		})
	}
}

// users returns the users' files in a process's data directory.
func users(t *testing.T, s process.Setup) (alice, bob files) {
	build := func(name string) files { return files{t, filepath.Join(s.DataDir, "users", name)} }
	return build("alice"), build("bob")
}

// login authenticates with the user's password.
func (f files) login() kgo.Opt {
	f.t.Helper()
	return kgo.SASL(scram.Auth{User: string(f.read("username")),
		Pass: string(f.read("password"))}.AsSha512Mechanism())
}

// TestSecuredProcessAcceptsModernTLSOnly scans the listeners of each broker.
func TestSecuredProcessAcceptsModernTLSOnly(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 2, secured)
	process.Start(t, s.Args()...).Ready(t)
	scan(t, s, false)
}

func scan(t *testing.T, s process.Setup, fips bool) {
	t.Helper()
	alice, bob := users(t, s)
	for _, user := range []files{alice, bob} {
		config := user.config()
		for _, address := range user.seeds() {
			tlsscan.Scan(t, &tlsscan.Server{Address: address, Config: config, FIPS: fips,
				NeedsCertificate: len(config.Certificates) > 0})
		}
	}
}

// TestFIPSMode runs brokers in Go's FIPS 140-3 mode: with fips140=on, and with fips140=only, in
// which all other algorithms fail. Users must be able to authenticate by password and by
// certificate, and the brokers must replicate.
func TestFIPSMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"on", "only"} {
		s := process.NewSetup(t, 2, secured)
		process.StartWith(t, []string{"GODEBUG=fips140=" + mode}, s.Args()...).Ready(t)
		alice, bob := users(t, s)
		alice.roundTrip(alice.login())
		bob.roundTrip()
		scan(t, s, true)
	}
}

// TestShortPasswordsAreRefusedByFIPS checks that short passwords are refused with fips140=only,
// because PBKDF2 then needs a password of at least 112 bits.
func TestShortPasswordsAreRefusedByFIPS(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 2, secured)
	dir := filepath.Join(s.DataDir, "users", "alice")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "password"), []byte("thirteen chrs"),
		0o600); err != nil {
		t.Fatal(err)
	}
	p := process.StartWith(t, []string{"GODEBUG=fips140=only"}, s.Args()...)
	if code := p.Wait(t); code == 0 {
		t.Error("exit code 0")
	}
	for _, text := range []string{"LogUser/alice", "14 bytes"} {
		if !strings.Contains(p.Stderr.String(), text) {
			t.Errorf("stderr lacks %q: %s", text, p.Stderr.String())
		}
	}
}
