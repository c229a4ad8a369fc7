package broker

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/local"
	"heartwood.dev/heartwood/internal/sasl"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/certs"
)

// secureCluster is a cluster with two client listeners: tls (SCRAM over TLS) and mtls (client
// certificates). Peer connections use TLS.
type secureCluster struct {
	t       *testing.T
	store   *local.Store
	ca      *certs.CA // issuer of the brokers' certificates
	users   *certs.CA
	peers   *certs.CA
	brokers Brokers
}

// scramOf returns the users' SCRAM verifiers by user name. passwords contains the passwords by user
// name.
func scramOf(t *testing.T, passwords map[string]string) map[string]*v1alpha1.ScramVerifiers {
	t.Helper()
	all := map[string]*v1alpha1.ScramVerifiers{}
	for name, password := range passwords {
		scramVerifiers := &v1alpha1.ScramVerifiers{UserName: name}
		for _, mechanism := range []string{v1alpha1.ScramSha256, v1alpha1.ScramSha512} {
			v, err := sasl.NewVerifier(mechanism, password, []byte(name+"-salt"),
				sasl.IterationsDefault)
			if err != nil {
				t.Fatal(err)
			}
			scramVerifiers.Verifiers = append(scramVerifiers.Verifiers,
				v1alpha1.ScramVerifier{Mechanism: mechanism,
					Iterations: v.Iterations, Salt: v.Salt, StoredKey: v.StoredKey,
					ServerKey: v.ServerKey})
		}
		all[name] = scramVerifiers
	}
	return all
}

func newSecureCluster(t *testing.T, brokers int) *secureCluster {
	c := newStoppedCluster(t, brokers, "admin")
	for id := range brokers {
		c.brokers = append(c.brokers, c.start(int32(id)))
	}
	c.await()
	return c
}

// newStoppedCluster returns a secureCluster whose brokers have not started.
func newStoppedCluster(t *testing.T, brokers int, superUsers ...string) *secureCluster {
	store, err := local.Open(vfs.OS{}, t.TempDir()+"/metadata.json")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	c := &secureCluster{t: t, store: store, ca: certs.New(t, "ca"), users: certs.New(t, "users"),
		peers: certs.New(t, "peers")}
	cluster := &v1alpha1.LogCluster{}
	cluster.Name, cluster.Spec.Brokers = "demo", int32(brokers)
	cluster.Spec.Authorization = &v1alpha1.Authorization{Type: v1alpha1.AuthorizationSimple,
		SuperUsers: superUsers}
	if err := errors.Join(store.Sync(cluster, brokers, nil),
		store.SyncUsers(nil, scramOf(t, map[string]string{"admin": "admin-secret",
			"alice": "alice-secret"}))); err != nil {
		t.Fatal(err)
	}
	return c
}

// await waits until all brokers have registered.
func (c *secureCluster) await() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), trioWait)
	defer cancel()
	if err := c.store.AwaitBrokers(ctx, len(c.brokers)); err != nil {
		c.t.Fatal(err)
	}
}

// secrets returns the content of the Secret v1alpha1.BrokersTLSSecretName for a broker.
func (c *secureCluster) secrets(id int32) map[string][]byte {
	c.t.Helper()
	uri, err := url.Parse(v1alpha1.PeerURI("ns", "demo", id))
	if err != nil {
		c.t.Fatal(err)
	}
	data := map[string][]byte{v1alpha1.KeyPeerCA: c.peers.PEM(), v1alpha1.KeyUsersCA: c.users.PEM()}
	put := func(certificate tls.Certificate, certificateKey, key string) {
		data[certificateKey], data[key] = certs.KeyPEM(c.t, certificate)
	}
	certificateKey, key := v1alpha1.PeerCertificateKeys(id)
	put(c.peers.Leaf(&x509.Certificate{URIs: []*url.URL{uri}, ExtKeyUsage: []x509.ExtKeyUsage{
		x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}), certificateKey, key)
	for _, listener := range []string{"tls", "mtls"} {
		certificateKey, key := v1alpha1.ListenerCertificateKeys(listener)
		put(c.ca.Server("broker"), certificateKey, key)
	}
	return data
}

// certificates returns the certificates of a broker.
func (c *secureCluster) certificates(id int32) *Certificates {
	c.t.Helper()
	certificates := NewCertificates()
	if err := certificates.Update(c.secrets(id), []string{"tls", "mtls"}, id); err != nil {
		c.t.Fatal(err)
	}
	return certificates
}

func (c *secureCluster) start(id int32) *Broker {
	c.t.Helper()
	return c.run(&Options{NodeID: id, DataDir: c.t.TempDir(), PeerListen: "127.0.0.1:0",
		PeerHost: "127.0.0.1", Namespace: "ns", Cluster: "demo", Certificates: c.certificates(id),
		Listeners: []Listener{
			{Name: "tls", Listen: "127.0.0.1:0", TLS: true, Authentication: []v1alpha1.Authentication{
				{Type: v1alpha1.AuthenticationScramSha256},
				{Type: v1alpha1.AuthenticationScramSha512}}},
			{Name: "mtls", Listen: "127.0.0.1:0", TLS: true,
				Authentication: []v1alpha1.Authentication{{Type: v1alpha1.AuthenticationTLS}}},
		}})
}

// run runs a broker until the test ends.
func (c *secureCluster) run(opts *Options) *Broker {
	c.t.Helper()
	opts.Metadata = local.Session{Store: c.store, Broker: opts.NodeID}
	opts.Logger = slog.New(slog.NewTextHandler(c.t.Output(), nil))
	b, err := New(*opts)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Error(err)
		}
	})
	return b
}

// client returns a client that connects to listener tls.
func (c *secureCluster) client(user, password string, opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	return c.connect(append(opts, kgo.SeedBrokers(c.brokers[0].Addr()), kgo.SASL(
		scram.Auth{User: user, Pass: password}.AsSha512Mechanism()),
		kgo.DialTLSConfig(&tls.Config{RootCAs: c.ca.Pool(), MinVersion: tls.VersionTLS12}))...)
}

func (c *secureCluster) connect(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.RetryTimeout(trioWait),
		kgo.RecordDeliveryTimeout(trioWait), kgo.UnknownTopicRetries(-1),
		kgo.MetadataMinAge(10*time.Millisecond))...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.Close)
	return client
}

// createACLs creates ACLs through a Kafka admin client of the super user.
func (c *secureCluster) createACLs(b *kadm.ACLBuilder) {
	c.t.Helper()
	results, err := kadm.NewClient(c.client("admin", "admin-secret")).CreateACLs(c.t.Context(), b)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			c.t.Fatal(r.Err)
		}
	}
}

func produce(ctx context.Context, client *kgo.Client, topic string) error {
	return client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr()
}

// TestAuthorizedClientOverTLS checks that a user may do exactly what the ACLs created by an admin
// client allow, as soon as they are created. The records must be replicated over the peer
// connections.
func TestAuthorizedClientOverTLS(t *testing.T) {
	c := newSecureCluster(t, 2)
	admin := kadm.NewClient(c.client("admin", "admin-secret"))
	if _, err := admin.CreateTopic(t.Context(), 1, 2, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	alice := c.client("alice", "alice-secret", kgo.DisableIdempotentWrite(),
		kgo.RequiredAcks(kgo.AllISRAcks()))
	if err := produce(t.Context(), alice, "orders"); !errors.Is(err,
		kerr.TopicAuthorizationFailed) {
		t.Fatalf("without an ACL: %v", err)
	}
	c.createACLs(kadm.NewACLs().Topics("orders").ResourcePatternType(kadm.ACLPatternLiteral).
		Operations(kadm.OpWrite).Allow("User:alice").AllowHosts("*"))
	await.Until(t, "alice is allowed to write",
		func() bool { // until the leader's metadata image contains the ACL
			alice = c.client("alice", "alice-secret", kgo.DisableIdempotentWrite(),
				kgo.RequiredAcks(kgo.AllISRAcks()))
			err := produce(t.Context(), alice, "orders")
			if err != nil && !errors.Is(err, kerr.TopicAuthorizationFailed) {
				t.Fatalf("with an ACL: %v", err)
			}
			return err == nil
		})
	await.Until(t, "the follower is in sync", func() bool {
		return len(c.store.Image().Topic("orders").Partitions[0].ISR) == 2
	})
	if acls := c.store.Image().Security.ACLs; len(acls) != 1 {
		t.Errorf("ACLs: %v", acls)
	}
}

func TestWrongPasswordIsRefused(t *testing.T) {
	c := newSecureCluster(t, 1)
	err := c.client("alice", "wrong").Ping(t.Context())
	if !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("got %v", err)
	}
}

func TestClientCertificateIsAPrincipal(t *testing.T) {
	c := newSecureCluster(t, 1)
	c.createACLs(kadm.NewACLs().Clusters().Operations(kadm.OpCreate).Allow("User:bob").
		AllowHosts("*"))
	config := &tls.Config{RootCAs: c.ca.Pool(), MinVersion: tls.VersionTLS12,
		Certificates: []tls.Certificate{c.users.Client(pkix.Name{CommonName: "bob"})}}
	bob := c.connect(kgo.SeedBrokers(c.brokers[0].listeners[1].endpoint.String()),
		kgo.DialTLSConfig(config))
	if _, err := kadm.NewClient(bob).CreateTopic(t.Context(), 1, 1, nil, "bills"); err != nil {
		t.Errorf("bob may not create a topic: %v", err)
	}
	if _, err := kadm.NewClient(bob).DeleteTopic(t.Context(), "bills"); !errors.Is(err,
		kerr.TopicAuthorizationFailed) {
		t.Errorf("bob may delete a topic: %v", err)
	}
}

// TestForgedFollowersAreRefused checks that a fetch as a follower is refused if it is sent by the
// super user, or by a broker with another broker's id. It tries all ways to identify a follower:
// replica id, replica state and private tags (CVE-2018-1288).
func TestForgedFollowersAreRefused(t *testing.T) {
	c := newSecureCluster(t, 2)
	admin := c.client("admin", "admin-secret")
	if _, err := kadm.NewClient(admin).CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	awaitTopic(t, c.brokers, "orders")
	leader := c.store.Image().Topic("orders").Partitions[0].Leader
	fetch := func(from *kgo.Broker, as int32) int16 {
		t.Helper()
		req := kmsg.NewPtrFetchRequest()
		req.SessionEpoch, req.ReplicaState.ID, req.ReplicaState.Epoch = -1, as, 1
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic, topic.TopicID = "orders", c.store.Image().Topic("orders").ID
		part := kmsg.NewFetchRequestTopicPartition()
		part.PartitionMaxBytes = 1 << 20
		topic.Partitions = append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
		response, err := from.Request(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		//nolint:forcetypeassert // the response to a FetchRequest
		return response.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode
	}
	if code := fetch(admin.Broker(int(leader)), 1-leader); code != 29 {
		t.Errorf("as the super user: error %d", code)
	}
	certificates := c.brokers[1-leader].opts.Certificates.current.Load()
	config := &tls.Config{Certificates: []tls.Certificate{*certificates.peer},
		InsecureSkipVerify: true}
	peer := c.connect(kgo.SeedBrokers(c.brokers[leader].peers.socket.Addr().String()),
		kgo.DialTLSConfig(config))
	if code := fetch(peer.SeedBrokers()[0], leader); code != 29 {
		t.Errorf("as another broker: error %d", code)
	}
	if code := fetch(peer.SeedBrokers()[0], 1-leader); code == 29 {
		t.Errorf("as itself: error %d", code)
	}
	for _, version := range []int16{4, 11, 12} { // versions with topic names and a replica id
		if code := c.forge(admin.Broker(int(leader)), version, 1-leader); code != 29 {
			t.Errorf("version %d with a replica id: error %d", version, code)
		}
	}
	if code := c.forge(admin.Broker(int(leader)), 12, -1); code != 29 {
		t.Errorf("with private tags: error %d", code)
	}
}

// forge sends a fetch of topic "orders" by topic name. If replica is -1, the request contains a
// follower's private tag instead of a replica id.
func (c *secureCluster) forge(to *kgo.Broker, version int16, replica int32) int16 {
	c.t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.SessionEpoch, req.MaxBytes = replica, -1, 1<<20
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = "orders"
	part := kmsg.NewFetchRequestTopicPartition()
	part.PartitionMaxBytes = 1 << 20
	if replica < 0 {
		part.UnknownTags.Set(0x4857, make([]byte, 24)) // the follower's offsets
	}
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	response, err := to.RetriableRequest(c.t.Context(), pinned{req, version})
	if err != nil {
		c.t.Fatal(err)
	}
	//nolint:forcetypeassert // the response to a FetchRequest
	return response.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode
}

// pinned is a fetch request that is sent in one fixed version.
type pinned struct {
	*kmsg.FetchRequest
	version int16
}

func (p pinned) MaxVersion() int16 { return p.version }

// TestPeerMustBeABrokerOfTheCluster checks that the port for peers rejects certificates from the
// users' CA and from another cluster.
func TestPeerMustBeABrokerOfTheCluster(t *testing.T) {
	c := newSecureCluster(t, 1)
	other, err := url.Parse(v1alpha1.PeerURI("ns", "other", 0))
	if err != nil {
		t.Fatal(err)
	}
	for name, certificates := range map[string][]tls.Certificate{
		"none": nil, "user": {c.users.Client(pkix.Name{CommonName: "broker"})},
		"other cluster": {c.peers.Leaf(&x509.Certificate{URIs: []*url.URL{other},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})},
		"no URI": {c.peers.Client(pkix.Name{CommonName: "broker-0"})},
	} {
		config := &tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12,
			InsecureSkipVerify: true}
		conn, err := tls.Dial("tcp", c.brokers[0].peers.socket.Addr().String(), config)
		if err != nil {
			continue
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err,
			os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection was accepted", name)
		}
		_ = conn.Close()
	}
}

func TestListenersWithAuthenticationNeedAPeerPort(t *testing.T) {
	store, err := local.Open(vfs.NewMem(), "metadata.json")
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(Options{DataDir: t.TempDir(), Metadata: local.Session{Store: store},
		Listeners: []Listener{{Name: "sasl", Listen: "127.0.0.1:0",
			Authentication: []v1alpha1.Authentication{{Type: v1alpha1.AuthenticationScramSha512}}}}})
	if err == nil {
		t.Error("a broker without a port for peers was started")
	}
}

// TestInvalidCertificatesKeepTheOldOnes checks that an update with a broken key keeps the previous
// certificate.
func TestInvalidCertificatesKeepTheOldOnes(t *testing.T) {
	ca := certs.New(t, "ca")
	chain, key := certs.KeyPEM(t, ca.Server("broker"))
	certificateKey, privateKey := v1alpha1.ListenerCertificateKeys("tls")
	c := NewCertificates()
	if config := c.server("tls", false)(); config.GetConfigForClient == nil {
		t.Error("a listener without a certificate has a configuration")
	}
	if err := c.Update(map[string][]byte{certificateKey: chain, privateKey: key},
		[]string{"tls"}, 0); err != nil {
		t.Fatal(err)
	}
	before := c.server("tls", false)()
	if err := c.Update(map[string][]byte{certificateKey: chain, privateKey: []byte("x")},
		[]string{"tls"}, 0); err == nil {
		t.Error("a broken key was accepted")
	}
	if after := c.server("tls", false)(); len(after.Certificates) != 1 ||
		!bytes.Equal(after.Certificates[0].Certificate[0], before.Certificates[0].Certificate[0]) {
		t.Error("the old certificate was dropped")
	}
	if config := c.server("tls", true)(); config.GetConfigForClient == nil {
		t.Error("without a CA of clients, certificates of the system's CAs would be accepted")
	}
}
